"""Advice for programs that are not Python: what a finding recommends, in terms of the CUDA API."""

from __future__ import annotations

import re
from dataclasses import replace

from parsers.model import Trace
from rules.analysis.facts.host_language import is_python
from rules.base import Category, Finding

_OF_PYTORCH = re.compile(
    r"torch|DataLoader|DistributedDataParallel|PYTORCH_|\.(to|item|contiguous|pin_memory)\(|non_blocking|optimizer|"
    r"loss\.|no_sync|forward pass|requests|tensors?\b|num_workers|autocast|batch|uint8|"
    r"stream\.wait_event|record with stacks"
)
_ADVICE = {
    Category.LAUNCH_BOUND: (
        "Capture the launches of a step once (cudaStreamBeginCapture, cudaGraphInstantiate) and repeat them with one "
        "cudaGraphLaunch.",
        "Join small kernels, and give each more work.",
    ),
    Category.HOST_BOUND: (
        "Find out what runs there: put NVTX ranges (nvtxRangePushA) around the parts of a step, or sample the CPU "
        "(nsys profile --sample=process-tree).",
        "Then move it to another thread, or launch the next work for the GPU before it.",
    ),
    Category.INPUT_BOUND: ("Prepare the next input in another thread while the GPU works on this one.",),
    Category.SYNCHRONIZATION: (
        "Wait for what is needed instead of everything: cudaEventSynchronize on the CPU, or cudaStreamWaitEvent, with "
        "which the GPU waits and the CPU stays ahead.",
        "Copy results with cudaMemcpyAsync into pinned memory, and read them late and many at once.",
    ),
    Category.ALLOCATOR: (
        "Allocate once, before the loop, and use the memory again.",
        "Or use cudaMallocAsync with a pool that keeps its memory (cudaMemPoolAttrReleaseThreshold).",
    ),
    Category.COPY_H2D: (
        "Allocate the host's memory pinned (cudaHostAlloc), and copy with cudaMemcpyAsync on a stream of its own while "
        "the GPU computes.",
        "Copy less: keep on the GPU what is used again.",
    ),
    Category.COPY_D2H: (
        "Allocate the host's memory pinned (cudaHostAlloc), and copy with cudaMemcpyAsync on a stream of its own while "
        "the GPU computes.",
        "Copy less: reduce on the GPU first.",
    ),
    Category.NO_TENSOR_CORES: (
        "Let cuBLAS use TF32: cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH). Or use 16-bit types.",
    ),
    Category.MEMORY_BOUND_KERNELS: (
        "Join neighbouring kernels, so that data stays in registers between them.",
    ),
    Category.EXPOSED_COMMUNICATION: (
        "Start each transfer on a stream of its own as soon as its data is there, and compute meanwhile.",
    ),
}
_CANNOT_TELL = {
    Category.LAUNCH_BOUND: "How much of the launch time is the profiler's own: compare with a run without it.",
    Category.HOST_BOUND: "What the CPU does there: record NVTX ranges or CPU samples.",
    Category.SYNCHRONIZATION: "Which line calls it: record backtraces (nsys profile --cudabacktrace=all).",
    Category.ALLOCATOR: "Which line allocates: record backtraces (nsys profile --cudabacktrace=all).",
    Category.COPY_H2D: "Which line copies: record backtraces (nsys profile --cudabacktrace=all).",
}


def in_terms_of_the_program(trace: Trace, findings: list[Finding]) -> list[Finding]:
    """The findings as they are for Python; for other programs with advice that these can follow."""
    if is_python(trace):
        return findings
    return [_native(finding) if finding.category in _ADVICE else finding for finding in findings]


def _native(finding: Finding) -> Finding:
    common = tuple(advice for advice in finding.advice if not _OF_PYTORCH.search(advice))
    if common == finding.advice:
        return replace(finding, code="")
    return replace(
        finding,
        advice=_ADVICE[finding.category] + common,
        code="",
        cannot_tell=_CANNOT_TELL.get(finding.category, finding.cannot_tell),
    )
