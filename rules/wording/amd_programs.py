"""Findings about AMD GPUs in the words of ROCm: HIP's calls, rocTX ranges, and AMD's profilers.

PyTorch keeps the name ``torch.cuda`` on ROCm, so its calls stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from parsers.model import Trace
from rules.analysis.facts.gpu_vendor import is_amd
from rules.base import Finding

# What advice, code and limits say; the first match of a place wins, so longer phrases stand first.
_ADVICE = (
    (r" ?\(nsys profile --(?:sample|cudabacktrace)=[\w-]+\)", " (rocprof-sys-sample)"),
    (r"(?m)^# Nsight Systems: nsys profile \S+ ", "# rocprofv3: rocprofv3 --sys-trace -- "),
    (r"(?m)^# Nsight Systems: .*\n?", ""),
    (r"Nsight Compute's", "ROCm Compute Profiler's"),
    (r"Nsight Compute", "ROCm Compute Profiler (rocprof-compute)"),
    (r"Nsight Systems", "rocprofv3"),
    (r"nvidia-smi topo -m", "rocm-smi --showtopo"),
    (r"nvidia-smi -q, GPU Link Info", "amd-smi static --bus"),
    (r"nvidia-smi", "amd-smi"),
    (r"\bcudaHostAlloc\b", "hipHostMalloc"),
    (r"(?<![.\w])cuda([A-Z]\w+)", r"hip\1"),
    (r"\bnvtxRangePushA\b", "roctxRangePushA"),
    (r"\bNVTX\b", "rocTX"),
    (r"Let cuBLAS use TF32: .*?\. Or use 16-bit types\.", "Use 16-bit types."),
)
# What a finding says in its own words; names from the recording are left alone.
_WORDS = (
    (r"\bCUDA (graphs?|events?|API)\b", r"HIP \1"),
    (r"\btensor cores\b", "matrix cores"),
    (r"\bTensor cores\b", "Matrix cores"),
)
_OF_ADVICE = tuple((re.compile(pattern), words) for pattern, words in (*_ADVICE, *_WORDS))
_OF_TEXT = tuple((re.compile(pattern), words) for pattern, words in _WORDS)
_LACKING = {
    "no CUDA API calls were recorded": "no HIP calls were recorded",
    "no Nsight Compute counters": "no Nsight Compute counters, which exist for NVIDIA's GPUs only",
}


def in_terms_of_the_gpu(trace: Trace, findings: list[Finding]) -> list[Finding]:
    """The findings as they are for NVIDIA's GPUs; for AMD's with what these are called there."""
    return [_for_amd(finding) for finding in findings] if is_amd(trace) else findings


def reasons_in_terms_of_the_gpu(trace: Trace, skipped: Mapping[str, str]) -> dict[str, str]:
    """Why checks were not made, by rule, likewise."""
    if not is_amd(trace):
        return dict(skipped)
    return {rule: _LACKING.get(reason, reason) for rule, reason in skipped.items()}


def _for_amd(finding: Finding) -> Finding:
    return replace(
        finding,
        title=_told(finding.title, _OF_TEXT),
        explanation=_told(finding.explanation, _OF_TEXT),
        advice=tuple(_told(each, _OF_ADVICE) for each in finding.advice),
        code=_told(finding.code, _OF_ADVICE),
        cannot_tell=_told(finding.cannot_tell, _OF_ADVICE),
    )


def _told(text: str, words: tuple[tuple[re.Pattern[str], str], ...]) -> str:
    for pattern, instead in words:
        text = pattern.sub(instead, text)
    return text
