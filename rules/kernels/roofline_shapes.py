"""Roofline points of matrix, convolution and attention operators, estimated from the shapes of their inputs."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from parsers.model import Attribute, EventKind, Trace
from rules.analysis.arithmetic.innermost import Innermost
from rules.kernels.gpu_peaks import SHOWN, GpuPeaks, peaks_of
from rules.kernels.roofline import Point, Roof, Roofline, precision_in_name

I64 = npt.NDArray[np.int64]
Shape = Sequence[int]
MOST_SHAPES = 2000
_BYTES = {
    "double": 8,
    "long int": 8,
    "float": 4,
    "int": 4,
    "c10::BFloat16": 2,
    "c10::Half": 2,
    "at::BFloat16": 2,
    "at::Half": 2,
}
_PRECISIONS = {
    "double": "fp64",
    "float": "fp32",
    "c10::BFloat16": "bf16",
    "c10::Half": "fp16",
    "at::BFloat16": "bf16",
    "at::Half": "fp16",
    "signed char": "int8",
}
_TENSOR_CORE_NAMES = ("tf32", "s1688", "tensorop", "_sss_", "xmma_gemm_f32f32_tf32")


@dataclass(frozen=True, slots=True)
class Work:
    """What one operator has to do at least: operations, and elements read and written once."""

    operations: float
    elements: float


@dataclass(slots=True)
class _Total:
    operations: float = 0.0
    moved: float = 0.0
    duration: int = 0
    precision: str = ""
    longest: tuple[int, int] = (-1, -1)  # ns, event


def estimated_roofline(trace: Trace, longest_kernel: str | None = None) -> Roofline:
    """One point for each operator and shape, at the level of DRAM, all marked as estimates, the longest first.

    With ``longest_kernel`` only of operators whose longest kernel has this name.

    Operations follow from the shapes; bytes count every input and output once, so the true intensity is lower.
    Needs shapes, CPU operators and launches in the recording; empty without them.
    """
    totals: dict[tuple[str, str], _Total] = {}
    known: dict[tuple[str, str], Work | None] = {}
    for event, duration, kernel_name in _time_of_operators(trace):
        if longest_kernel not in (None, kernel_name):
            continue
        name = trace.name(event)
        dims = trace.text_attribute(Attribute.INPUT_DIMS, event)
        types = trace.text_attribute(Attribute.INPUT_TYPES, event)
        shape = name, dims
        if shape not in known:  # concrete inputs lie in the file: they are fetched once for each shape
            known[shape] = work_of(name, dims, partial(_concrete_inputs, trace, event))
        work = known[shape]
        if work is None:
            continue
        dtype = _first_type(types)
        total = totals.setdefault((name, f"{dims}{dtype}"), _Total())
        total.operations += work.operations
        total.moved += work.elements * _BYTES.get(dtype, 1)
        total.duration += duration
        total.longest = max(total.longest, (duration, event))
        total.precision = total.precision or _precision(dtype, kernel_name)
    points = tuple(
        Point(
            name,
            f"{name} {shown_shapes(key)}",
            "DRAM",
            total.precision,
            total.operations / total.moved,
            total.operations / total.duration * 1e9,
            float(total.duration),
            estimate=True,
            event=total.longest[1],
        )
        for (name, key), total in totals.items()
        if total.duration > 0 and total.moved > 0
    )
    return Roofline(
        tuple(sorted(points, key=lambda each: -each.duration_ns))[:MOST_SHAPES], _roofs(trace, points)
    )


def work_of(name: str, dims: str, concrete_inputs: Callable[[], Sequence[str]]) -> Work | None:
    """Operations and elements of one operator by its name and the JSON list of its inputs' shapes; None if unknown."""
    kind = _KINDS.get(name.removeprefix("aten::").removeprefix("flash_attn::"))
    if kind is None:
        return None
    try:
        shapes = json.loads(dims)
        return kind(shapes, concrete_inputs)
    except (ValueError, TypeError, IndexError, KeyError):
        return None


def _product(first: Shape, second: Shape) -> Work:
    batch = math.prod(first[:-2])
    rows, inner, columns = first[-2], first[-1], second[-1]
    operations = 2.0 * batch * rows * inner * columns
    return Work(operations, batch * (rows * inner + inner * columns + rows * columns))


def _matrix(first: int) -> Callable[[list[Shape], Callable[[], Sequence[str]]], Work | None]:
    def work(shapes: list[Shape], _: Callable[[], Sequence[str]]) -> Work | None:
        left, right = shapes[first], shapes[first + 1]
        return _product(left, right) if len(left) >= 2 and len(right) >= 2 and left[-1] == right[-2] else None

    return work


def _convolution(shapes: list[Shape], concrete_inputs: Callable[[], Sequence[str]]) -> Work | None:
    data, weight = shapes[0], shapes[1]
    values: list[Any] = [json.loads(each) if each.startswith("[") else each for each in concrete_inputs()]
    stride, padding, dilation = values[3], values[4], values[5]
    if values[6] == "True" or not isinstance(stride, list):
        return None
    spatial = len(weight) - 2
    sizes = [
        (data[2 + axis] + 2 * _of(padding, axis) - _of(dilation, axis) * (weight[2 + axis] - 1) - 1)
        // _of(stride, axis)
        + 1
        for axis in range(spatial)
    ]
    outputs = data[0] * weight[0] * math.prod(sizes)
    operations = 2.0 * outputs * math.prod(weight[1:])
    return Work(operations, math.prod(data) + math.prod(weight) + outputs)


def _of(values: Sequence[int], axis: int) -> int:
    return int(values[axis] if axis < len(values) else values[-1])


def _convolution_backward(shapes: list[Shape], _: Callable[[], Sequence[str]]) -> Work | None:
    gradient, data, weight = shapes[0], shapes[1], shapes[2]
    forward = 2.0 * math.prod(gradient) * math.prod(weight[1:])
    elements = math.prod(gradient) + 2 * (math.prod(data) + math.prod(weight))
    return Work(2 * forward, elements)


def _attention(
    first: int, heads_before_length: bool, products: float
) -> Callable[[list[Shape], Callable[[], Sequence[str]]], Work | None]:
    def work(shapes: list[Shape], _: Callable[[], Sequence[str]]) -> Work | None:
        query, key, value = shapes[first], shapes[first + 1], shapes[first + 2]
        if len(query) != 4 or len(key) != 4 or len(value) != 4:
            return None
        heads, length, keys = (
            (query[1], query[2], key[2]) if heads_before_length else (query[2], query[1], key[1])
        )
        operations = products * query[0] * heads * length * keys * (query[3] + value[3])
        elements = 2 * math.prod(query) + math.prod(key) + math.prod(value)
        return Work(operations, elements * (1 if products <= 2 else 2))

    return work


_FORWARD, _BACKWARD = (
    2.0,
    5.0,
)  # the backward pass multiplies five matrices where the forward pass multiplies two
_KINDS: dict[str, Callable[[list[Shape], Callable[[], Sequence[str]]], Work | None]] = {
    "mm": _matrix(0),
    "bmm": _matrix(0),
    "_scaled_mm": _matrix(0),
    "_int_mm": _matrix(0),
    "addmm": _matrix(1),
    "baddbmm": _matrix(1),
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
    "_flash_attention_forward": _attention(0, False, _FORWARD),
    "_flash_attention_backward": _attention(1, False, _BACKWARD),
    "_efficient_attention_forward": _attention(0, False, _FORWARD),
    "_efficient_attention_backward": _attention(1, False, _BACKWARD),
    "_flash_attn_forward": _attention(0, False, _FORWARD),
    "_flash_attn_backward": _attention(1, False, _BACKWARD),
    **{
        f"_scaled_dot_product_{kind}_attention{suffix}": _attention(first, True, products)
        for kind in ("flash", "efficient", "cudnn", "fused", "flash_attention_for_cpu")
        for suffix, first, products in (("", 0, _FORWARD), ("_backward", 1, _BACKWARD))
    },
}


def _time_of_operators(trace: Trace) -> list[tuple[int, int, str]]:
    """(operator event, ns of the kernels it launched, name of the longest of them)."""
    column = trace.attributes.get(Attribute.INPUT_DIMS)
    kernels = trace.events.of_kind(EventKind.KERNEL)
    launches = trace.links.launch_of(kernels)
    kernels, launches = kernels[launches >= 0], launches[launches >= 0]
    if column is None or not len(kernels):
        return []
    known = np.fromiter(
        (name.partition("::")[2] in _KINDS for name in trace.strings), bool, len(trace.strings)
    )
    operators = column.event[known[trace.events.name[column.event]]]
    thread = _thread_of_lane(trace)
    operator_of = np.full(len(kernels), -1, np.int64)
    launch_thread = thread[trace.events.lane[launches]]
    for each in np.unique(launch_thread).tolist():
        mine = operators[thread[trace.events.lane[operators]] == each]
        here = np.flatnonzero(launch_thread == each)
        operator_of[here] = Innermost.of(trace, mine).at(trace.events.start[launches[here]])
    return _summed(trace, kernels, operator_of)


def _summed(trace: Trace, kernels: I64, operator_of: I64) -> list[tuple[int, int, str]]:
    durations = trace.events.duration[kernels]
    longest: dict[int, tuple[int, int]] = {}
    total: dict[int, int] = defaultdict(int)
    for kernel, operator, duration in zip(
        kernels.tolist(), operator_of.tolist(), durations.tolist(), strict=True
    ):
        if operator >= 0:
            total[operator] += duration
            longest[operator] = max(longest.get(operator, (-1, -1)), (duration, kernel))
    return [(operator, duration, trace.name(longest[operator][1])) for operator, duration in total.items()]


def _thread_of_lane(trace: Trace) -> I64:
    numbers: dict[tuple[int | None, int | None, int | None], int] = {}
    keys = [(lane.rank, lane.process, lane.thread) for lane in trace.lanes]
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)


def _concrete_inputs(trace: Trace, event: int) -> Sequence[str]:
    values = trace.arguments(event).get("Concrete Inputs", ())
    return [str(each) for each in values] if isinstance(values, (list, tuple)) else ()


def _first_type(types: str) -> str:
    try:
        found = json.loads(types)
    except ValueError:
        return ""
    return next((each for each in found if isinstance(each, str) and each in _BYTES), "")


def _precision(dtype: str, kernel_name: str) -> str:
    lowered = kernel_name.lower()
    if dtype == "float" and any(word in lowered for word in _TENSOR_CORE_NAMES):
        return SHOWN["tf32"]
    return SHOWN.get(_PRECISIONS.get(dtype) or precision_in_name(kernel_name), "FP32")


def shown_shapes(key: str) -> str:
    """The first shapes of a JSON list as people write them: "4096x3072 · 3072x9216"."""
    try:
        shapes, _ = json.JSONDecoder().raw_decode(key)
    except ValueError:
        return ""
    real = [each for each in shapes if isinstance(each, list) and len(each) >= 2 and isinstance(each[0], int)]
    return " · ".join("x".join(map(str, each)) for each in real[:2])


def _roofs(trace: Trace, points: Sequence[Point]) -> tuple[Roof, ...]:
    device = next((each for each in trace.devices if each.name), None)
    peaks: GpuPeaks | None = peaks_of(device.name) if device else None
    if device is None:
        return ()
    roofs = []
    bandwidth = device.memory_bandwidth or (peaks.bandwidth if peaks else None)
    if bandwidth:
        roofs.append(Roof("DRAM", bandwidth, True, from_table=device.memory_bandwidth is None))
    used = {point.precision for point in points} | {"FP32"}
    for precision, peak in peaks.operations.items() if peaks else ():
        if SHOWN[precision] in used:
            roofs.append(Roof(SHOWN[precision], peak, False, from_table=True))
    return tuple(roofs)
