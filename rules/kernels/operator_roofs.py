"""Time by operator and shape, and how much of its roof each reaches: the memory's bandwidth or its type's peak."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import cache, partial

import numpy as np

from parsers.model import I64, Attribute, EventKind, Trace, derived
from parsers.model.arrays import numbered_rows, rows_by
from parsers.model.late import dataclass, regex
from parsers.model.names.per_name import named, numbers_of
from rules.analysis.arithmetic.innermost import Innermost
from rules.analysis.names.families import classify
from rules.kernels.gpu_peaks import SHOWN, GpuPeaks, peaks_of
from rules.kernels.moved_bytes import MEMORY, handed_over
from rules.kernels.operator_work import PRODUCTS, Work, inputs_of
from rules.kernels.roofline import Point, Roof, Roofline, precision_in_name

MEMORY_ROOF = "memory"
NUMBERS = "Concrete Inputs"  # as PyTorch's profiler calls what is no tensor
_BY_NUMBERS = regex(r"convolution|attention|attn|upsample|embedding_dense|index_select")
_PRECISIONS = {
    "double": "fp64",
    "float": "fp32",
    "c10::bfloat16": "bf16",
    "c10::half": "fp16",
    "at::bfloat16": "bf16",
    "at::half": "fp16",
    "signed char": "int8",
    "c10::float8_e4m3fn": "fp8",
    "c10::float8_e5m2": "fp8",
}
# in names of kernels that calculate in TF32
_TENSOR_CORES_FOR_SINGLE = ("tf32", "s1688", "tensorop", "_sss_")
_HALVES = regex(r"bfloat16|bf16|__half|c10::half|fp16|opaquetype<2", re.IGNORECASE)
_DOUBLES = regex(r"double|long|int64|opaquetype<8", re.IGNORECASE)


@dataclass(frozen=True, slots=True, eq=False)
class OperatorRoof:
    """One operator with inputs of one shape and type on one sort of GPU, all its calls together.

    ``work`` is None where the bytes and operations of such an operator are not known, ``peak`` (bytes or operations per
    second) 0 where that of the GPU is not.
    """

    name: str
    dims: str
    ns: int
    events: I64  # the calls
    event: int  # the longest of them
    kernel: int  # its longest kernel
    dtype: str
    work: Work | None  # of one call
    roof: str  # MEMORY_ROOF, or a precision as it is written: what limits it first
    peak: float

    @property
    def calls(self) -> int:
        return len(self.events)

    @property
    def rate(self) -> float:
        """Bytes or operations a second, as the roof is of one or the other; 0 where the work is not known."""
        if self.work is None:
            return 0.0
        each = self.work.moved if self.roof == MEMORY_ROOF else self.work.operations
        return each * self.calls / max(self.ns, 1) * 1e9

    @property
    def share(self) -> float:
        """Part of the roof that it reaches, at most 1; 0 where that is not known."""
        return min(self.rate / self.peak, 1.0) if self.peak else 0.0

    @property
    def is_beyond(self) -> bool:
        """Whether it seems faster than that: data came from a cache, or its algorithm needs fewer operations."""
        return bool(self.peak) and self.rate > self.peak


@dataclass(frozen=True, slots=True, eq=False)
class LaunchedBy:
    """Kernels and the operators with shapes that launched them: of known operators the innermost, else of all."""

    kernel: I64
    operator: I64


def is_known(name: str) -> bool:
    """Whether bytes and operations of an operator follow from its shapes."""
    return name.startswith("triton_") or name.partition("::")[2] in _KNOWN


_KNOWN = PRODUCTS.keys() | MEMORY.keys()


@derived
def launched_by(trace: Trace) -> LaunchedBy:
    """All kernels for whose operators shapes were recorded."""
    column = trace.attributes.get(Attribute.INPUT_DIMS)
    kernels = trace.events.of_kind(EventKind.KERNEL)
    launches = trace.links.launch_of(kernels)
    kernels, launches = kernels[launches >= 0], launches[launches >= 0]
    if column is None or not len(kernels):
        return LaunchedBy(np.empty(0, np.int64), np.empty(0, np.int64))
    events = trace.events
    shaped = column.event[events.kind[column.event] == EventKind.CPU_OP]
    known = shaped[numbers_of(trace, shaped, is_known) > 0]
    thread = _thread_of_lane(trace)
    operator = np.full(len(kernels), -1, np.int64)
    launch_thread, at = thread[events.lane[launches]], events.start[launches]
    of_threads = [
        {each: candidates[rows] for each, rows in rows_by(thread[events.lane[candidates]])}
        for candidates in (known, shaped)
    ]
    for each, here in rows_by(launch_thread):
        for of_thread in of_threads:
            here = here[operator[here] < 0]
            if len(here):
                mine = of_thread.get(each, known[:0])
                operator[here] = Innermost.of(trace, mine).at(at[here])
    found = operator >= 0
    return LaunchedBy(kernels[found], operator[found])


def operator_roofs(
    trace: Trace,
    kernels: I64,
    *,
    longest_kernel: str | None = None,
    least_ns: int = 0,
    ask: Callable[[OperatorRoof], bool] = lambda _: True,
) -> tuple[OperatorRoof, ...]:
    """One row for each operator, shape and type that launched some of these kernels, the longest first.

    With ``longest_kernel`` only of calls whose longest kernel has this name, with ``least_ns`` only rows that took so
    long. Numbers and lists among the inputs lie in the file: they are fetched once for each row that depends on them,
    if ``ask`` says so of the row without them.
    """
    pairs = launched_by(trace)
    chosen = np.isin(pairs.kernel, kernels)
    kernel, operator = pairs.kernel[chosen], pairs.operator[chosen]
    if not len(kernel):
        return ()
    events = trace.events
    duration = events.duration[kernel]
    launches = events.marked(operator)
    calls, call_of = np.flatnonzero(launches), (np.cumsum(launches) - 1)[operator]
    call_ns = np.bincount(call_of, duration).astype(np.int64)
    most = np.zeros(len(calls), np.int64)
    np.maximum.at(most, call_of, duration)
    longest = np.flatnonzero(duration == most[call_of])
    own_longest = np.zeros(len(calls), np.int64)
    own_longest[call_of[longest]] = kernel[longest]  # of several the last
    if longest_kernel is not None:
        wanted = named(trace, own_longest, lambda name: name == longest_kernel)
        calls, call_ns, own_longest = calls[wanted], call_ns[wanted], own_longest[wanted]
    model = _models(trace)[events.lane[own_longest]]
    shapes = kinds_of_calls(trace, calls)
    row_of = numbered_rows(*shapes.T, model)
    ns = np.bincount(row_of, call_ns).astype(np.int64)
    rows = np.split(calls[np.argsort(row_of, kind="stable")], np.cumsum(np.bincount(row_of))[:-1])
    longest = np.zeros(len(ns), np.int64)
    by_length = np.argsort(call_ns, kind="stable")
    longest[row_of[by_length]] = by_length
    order = [row for row in np.argsort(-ns, kind="stable").tolist() if ns[row] >= least_ns]
    examples = calls_asked(trace)
    asked = {row: examples.get(tuple(shapes[longest[row]].tolist()), -1) for row in order}
    made: dict[int, OperatorRoof] = {}
    for row in sorted(order, key=lambda row: _in_file(trace, asked[row])):  # the file is read once, forwards
        event, kernel_of_it = int(calls[longest[row]]), int(own_longest[longest[row]])
        made[row] = _row(trace, rows[row], event, kernel_of_it, int(ns[row]))
        if asked[row] >= 0 and ask(made[row]):
            numbers = cache(partial(concrete_inputs, trace, asked[row]))
            made[row] = _row(trace, rows[row], event, kernel_of_it, int(ns[row]), numbers)
    return tuple(made[row] for row in order)


@derived
def calls_asked(trace: Trace) -> dict[tuple[int, ...], int]:
    """For each operator, shape and type whose work also depends on numbers: the call that the file is asked for them.

    The first one with these shapes stands for all.
    """
    calls = np.flatnonzero(trace.events.marked(launched_by(trace).operator))
    calls = calls[named(trace, calls, _BY_NUMBERS.search)]
    calls = trace.events.by_start(calls)
    shapes = kinds_of_calls(trace, calls)
    first = np.unique(numbered_rows(*shapes.T), return_index=True)[1]
    return dict(zip(map(tuple, shapes[first].tolist()), calls[first].tolist(), strict=True))


def kinds_of_calls(trace: Trace, calls: I64) -> I64:
    """A row (name, shapes, types) for each call."""
    dims = trace.attribute(Attribute.INPUT_DIMS, calls, -1)
    types = trace.attribute(Attribute.INPUT_TYPES, calls, -1)
    return np.stack([trace.events.name[calls].astype(np.int64), dims, types], axis=1)


def _in_file(trace: Trace, call: int) -> int:
    return int(trace.events.source_row[call]) if call >= 0 else -1


def _row(
    trace: Trace, events: I64, event: int, kernel: int, ns: int, numbers: Callable[[], Sequence[str]] = tuple
) -> OperatorRoof:
    name = trace.name(event)
    dims = trace.text_attribute(Attribute.INPUT_DIMS, event)
    types = trace.text_attribute(Attribute.INPUT_TYPES, event)
    kernel_name = trace.name(kernel)
    dtype = _first_type(types)
    work = stated_work(trace, event, kernel, numbers)
    device = trace.lanes[int(trace.events.lane[kernel])].device
    found = trace.devices[device] if device is not None else None
    peaks = peaks_of(found.name) if found else None
    bandwidth = (found.memory_bandwidth if found else None) or (peaks.bandwidth if peaks else 0.0)
    precision = precision_of(dtype, kernel_name)
    roof, peak = _lower_roof(work, precision, float(bandwidth), peaks)
    return OperatorRoof(name, dims, ns, events, event, kernel, dtype, work, roof, peak)


def _lower_roof(
    work: Work | None, precision: str, bandwidth: float, peaks: GpuPeaks | None
) -> tuple[str, float]:
    operations = peaks.operations.get(precision, 0.0) if peaks else 0.0
    if work is None:
        return "", 0.0
    if work.operations and operations and work.operations / operations > work.moved / (bandwidth or 1e30):
        return SHOWN[precision], operations
    return MEMORY_ROOF, bandwidth


def stated_work(
    trace: Trace, event: int, kernel: int, values: Callable[[], Sequence[str]] = tuple
) -> Work | None:
    """Operations and bytes of one call that launched this kernel; None where shapes alone do not say them."""
    dims = trace.text_attribute(Attribute.INPUT_DIMS, event)
    types = trace.text_attribute(Attribute.INPUT_TYPES, event)
    return work_of(trace.name(event), dims, types, trace.name(kernel), values)


def work_of(
    name: str, dims: str, types: str = "", kernel: str = "", values: Callable[[], Sequence[str]] = tuple
) -> Work | None:
    """Operations and bytes of one operator by name, shapes and types (JSON lists); None where they are not known."""
    own = name.partition("::")[2]
    kind = handed_over if name.startswith("triton_") else PRODUCTS.get(own) or MEMORY.get(own)
    inputs = inputs_of(dims, types, size_in_name(kernel), values)
    if kind is None or inputs is None:
        return None
    try:
        work = kind(inputs)
    except (ValueError, TypeError, IndexError, KeyError, ArithmeticError):
        return None
    return work if work is not None and work.moved > 0 else None


def size_in_name(kernel: str) -> int:
    """Bytes of an element by what a kernel's name says of its type, else of single precision."""
    return 2 if _HALVES.search(kernel) else 8 if _DOUBLES.search(kernel) else 4


def precision_of(dtype: str, kernel: str) -> str:
    """The precision that a product calculates in: a key of ``gpu_peaks.SHOWN``; without a type by the kernel's name."""
    stated = _PRECISIONS.get(dtype.lower())
    if stated == "fp32" and any(word in kernel.lower() for word in _TENSOR_CORES_FOR_SINGLE):
        return "tf32"
    if stated is None and (named_so := classify(kernel)).tensor_core is False and named_so.dtype in SHOWN:
        return named_so.dtype
    return stated or precision_in_name(kernel)


def shown_shapes(key: str) -> str:
    """The first shapes of a JSON list as people write them: "4096x3072 · 3072x9216"."""
    try:
        shapes, _ = json.JSONDecoder().raw_decode(key)
    except ValueError:
        return ""
    real = [each for each in shapes if isinstance(each, list) and each and isinstance(each[0], int)]
    wide = [each for each in real if len(each) >= 2] or real
    return " · ".join("x".join(map(str, each)) for each in wide[:2])


def shown_type(dtype: str) -> str:
    """A type as people call it: "bfloat16"; empty where none was recorded."""
    return {"bf16": "bfloat16", "fp16": "half"}.get(
        _PRECISIONS.get(dtype.lower(), ""), dtype.rpartition("::")[2]
    )


def _first_type(types: str) -> str:
    try:
        found = json.loads(types)
    except ValueError:
        return ""
    return next((each for each in found if isinstance(each, str) and each.lower() in _PRECISIONS), "")


def concrete_inputs(trace: Trace, event: int) -> Sequence[str]:
    """Numbers and lists that one call was handed, as text; the file is read for them."""
    values = trace.arguments(event).get(NUMBERS, ())
    return [str(each) for each in values] if isinstance(values, (list, tuple)) else ()


def _models(trace: Trace) -> I64:
    """For each lane the number of the sort of GPU it belongs to."""
    names = [trace.devices[lane.device].name if lane.device is not None else None for lane in trace.lanes]
    numbers: dict[str | None, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64)


def _thread_of_lane(trace: Trace) -> I64:
    numbers: dict[tuple[int | None, int | None, int | None], int] = {}
    keys = [(lane.rank, lane.process, lane.thread) for lane in trace.lanes]
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)


MAX_SHAPES = 2000


def estimated_roofline(trace: Trace, longest_kernel: str | None = None) -> Roofline:
    """One point for each operator and shape, at the level of DRAM, all marked as estimates, the longest first.

    With ``longest_kernel`` only of operators whose longest kernel has this name.

    Operations follow from the shapes; bytes count every input and output once, so the true intensity is lower.
    Needs shapes, CPU operators and launches in the recording; empty without them.
    """
    rows = operator_roofs(trace, trace.events.of_kind(EventKind.KERNEL), longest_kernel=longest_kernel)
    points = tuple(
        Point(
            row.name,
            f"{row.name} {shown_shapes(row.dims)}",
            "DRAM",
            SHOWN[precision_of(row.dtype, trace.name(row.kernel))],
            row.work.operations / row.work.moved,
            row.work.operations * row.calls / row.ns * 1e9,
            float(row.ns),
            estimate=True,
            event=row.event,
        )
        for row in rows
        if row.work is not None and row.work.operations and row.ns
    )
    return Roofline(points[:MAX_SHAPES], _roofs(trace, points))


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
