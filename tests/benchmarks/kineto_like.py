"""Writes recordings of any size, shaped like the PyTorch profiler's: steps, nested operators, launches, kernels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from parsers.model.late import dataclass

HEAD = """{
  "schemaVersion": 1,
  "deviceProperties": [
    {"id": 0, "name": "Benchmark GPU", "totalGlobalMem": 80000000000, "computeMajor": 9, "computeMinor": 0}
  ],
  "baseTimeNanoseconds": 1790857026000000000,
  "displayTimeUnit": "ms",
  "traceEvents": [
"""
TAIL = '\n  ],\n  "traceName": "benchmark.pt.trace.json"\n}\n'
SEPARATOR = ",\n"
OPERATORS = ("aten::linear", "aten::layer_norm", "aten::gelu", "aten::add", "aten::mul", "aten::softmax")
KERNELS = (
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off",
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float, false>(int, float)",
    "void at::native::vectorized_elementwise_kernel<8, at::native::GeluCUDAKernelImpl>(int, std::array<char*, 2ul>)",
    "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<c10::BFloat16> >(int)",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
)
OPERATORS_IN_STEP = 600
EVENTS_OF_OPERATOR = 6


@dataclass(slots=True)
class Clock:
    """Where the CPU thread and the GPU stream have got to, in ns."""

    cpu: int = 4_361_618_166_342_612
    gpu: int = 4_361_618_166_342_612


def write(path: Path, events: int) -> int:
    """Write a recording with at least ``events`` entries; returns how many there are."""
    written = 0
    with path.open("w", encoding="utf-8") as file:
        file.write(HEAD)
        for entry in _entries(events):
            if written:
                file.write(SEPARATOR)
            file.write(entry)
            written += 1
        file.write(TAIL)
    return written


def _entries(events: int) -> Iterator[str]:
    clock = Clock()
    correlation = 0
    steps = -(-events // (OPERATORS_IN_STEP * EVENTS_OF_OPERATOR + 1))
    for step in range(steps):
        begin = clock.cpu
        for _ in range(OPERATORS_IN_STEP):
            correlation += 1
            yield from _operator(clock, correlation)
        # The profiler writes a step after what happened in it.
        yield _complete(
            "user_annotation", f"ProfilerStep#{step}", '1, "tid": 1', begin, clock.cpu - begin, correlation
        )
        clock.cpu += 20_000


def _operator(clock: Clock, number: int) -> Iterator[str]:
    """One operator with an inner one, its launch, the kernel, and both ends of the flow between them."""
    name = OPERATORS[number % len(OPERATORS)]
    launch = clock.cpu + 6_000
    clock.gpu = max(clock.gpu + 500, launch + 4_000)
    duration = 3_000 + number * 7919 % 23_000
    stream = 7 if number % len(KERNELS) < len(KERNELS) - 1 else 20
    thread, gpu = '1, "tid": 1', f'0, "tid": {stream}'
    yield _complete("cpu_op", name, thread, clock.cpu, 14_000, number)
    yield _complete("cpu_op", f"{name}_inner", thread, clock.cpu + 3_000, 10_000, number)
    yield _complete("cuda_runtime", "cudaLaunchKernel", thread, launch, 4_000, number)
    yield flow("s", thread, launch, number)
    yield _complete("kernel", KERNELS[number % len(KERNELS)], gpu, clock.gpu, duration, number, stream)
    yield flow("f", gpu, clock.gpu, number)
    clock.cpu += 16_000
    clock.gpu += duration


def _complete(
    category: str, name: str, place: str, start: int, duration: int, number: int, stream: int | None = None
) -> str:
    if stream is not None:
        arguments = (
            f'"queued": 0, "device": 0, "context": 1, "stream": {stream}, "correlation": {number}, '
            '"registers per thread": 168, "shared memory": 213188, "grid": [2, 66, 1], "block": [384, 1, 1]'
        )
    elif category == "cuda_runtime":
        arguments = f'"External id": {number}, "cbid": 211, "correlation": {number}'
    else:
        arguments = f'"External id": {number}, "Record function id": 0, "Ev Idx": {number}'
    return (
        f'  {{\n    "ph": "X", "cat": "{category}", "name": "{name}", "pid": {place},\n'
        f'    "ts": {microseconds(start)}, "dur": {microseconds(duration)},\n'
        f'    "args": {{\n      {arguments}\n    }}\n  }}'
    )


def flow(end: str, place: str, time: int, number: int) -> str:
    """The begin ("s") or the end ("f") of an arrow from a launch to its operation, at ``time`` (ns)."""
    binding = ', "bp": "e"' if end == "f" else ""
    return (
        f'  {{\n    "ph": "{end}", "id": {number}, "pid": {place}, "ts": {microseconds(time)},\n'
        f'    "cat": "ac2g", "name": "ac2g"{binding}\n  }}'
    )


def microseconds(time: int) -> str:
    """ns as Kineto writes them."""
    return f"{time // 1000}.{time % 1000:03d}"
