"""Rooflines: how many operations per second and per byte a kernel does, and how far it is from what bounds it."""

from __future__ import annotations

from collections.abc import Mapping

from parsers.model import KernelProfile
from parsers.model.late import dataclass, regex
from rules.kernels.checks.compute import floating_point, pipe_percent
from rules.kernels.checks.memory import SECTOR_BYTES, dram_bytes
from rules.kernels.checks.speed_of_light import first_number
from rules.kernels.gpu_peaks import SHOWN, GpuPeaks, peaks_of

_SM_CLOCK = (
    "smsp__cycles_elapsed.avg.per_second",
    "gpc__cycles_elapsed.avg.per_second",
    "sm__cycles_elapsed.avg.per_second",
)
_TENSOR_OPERATIONS = regex(r"sm__ops_path_tensor_(?P<path>\w+)\.sum\.per_second")
_TENSOR_RATE = "sm__ops_path_tensor_{}.sum.per_second"
_TENSOR_PEAK = "sm__ops_path_tensor_{}.sum.peak_sustained_elapsed.per_second"
_SOURCE_TYPES = (
    ("src_fp64", "fp64_tensor"),
    ("src_tf32", "tf32"),
    ("src_bf16", "bf16"),
    ("src_fp16", "fp16"),
    ("src_fp8", "fp8"),
    ("src_fp6", "fp8"),
    ("src_fp4", "fp4"),
    ("src_int8", "int8"),
    ("qgmma", "fp8"),
    ("dmma", "fp64_tensor"),
)
MIN_TENSOR_PERCENT = 5.0  # below, the pipe may only have run ordinary FP16 instructions
LEVELS = ("DRAM", "L2", "L1")


@dataclass(frozen=True, slots=True)
class Roof:
    """A limit of the GPU: a slope (bytes per second of one memory level) or a ceiling (operations per second)."""

    name: str  # "DRAM", "L2", "L1", "FP32", "BF16 tensor" ...
    peak: float
    is_memory: bool
    from_table: bool = False  # taken from the table of known GPUs, not from the recording

    def at(self, intensity: float) -> float:
        """Operations per second that this roof allows at an arithmetic intensity (operations per byte)."""
        return self.peak * intensity if self.is_memory else self.peak


@dataclass(frozen=True, slots=True)
class Point:
    """A kernel at one memory level. ``estimate`` marks operations that were computed from shapes, not measured."""

    kernel: str  # KernelProfile.id, or the operator's name for an estimate
    name: str
    level: str
    precision: str  # the kind of operation that dominates, as the roof is called
    intensity: float  # operations per byte
    rate: float  # operations per second
    duration_ns: float
    estimate: bool = False
    event: int = -1  # the longest run of an estimated operator


@dataclass(frozen=True, slots=True)
class Distance:
    """How far a point is from the lower one of its two roofs: 1.0 is on the roof."""

    roof: str
    share: float
    allowed: float

    @property
    def text(self) -> str:
        return f"{100 * self.share:.0f} % of the {self.roof} roof"


@dataclass(frozen=True, slots=True)
class Roofline:
    """The roofs of one GPU under one kernel's clocks, and that kernel's points, one for each level measured."""

    points: tuple[Point, ...]
    roofs: tuple[Roof, ...]

    def roof(self, name: str) -> Roof | None:
        return next((each for each in self.roofs if each.name == name), None)


def roofline(kernel: KernelProfile) -> Roofline:
    """Points and roofs of a profiled launch; no points when it did no arithmetic or none was measured."""
    table = peaks_of(kernel.device_name)
    rates = operation_rates(kernel, table)
    precision = max(rates, key=lambda name: rates[name], default="")
    total = sum(rates.values())
    roofs = [*_memory_roofs(kernel, table), *_compute_roofs(kernel, table, rates)]
    points = [
        Point(kernel.id, kernel.name, level, precision, total / rate, total, kernel.duration_ns or 0.0)
        for level, rate in byte_rates(kernel).items()
        if total > 0 and rate > 0
    ]
    return Roofline(tuple(points), tuple(roofs))


def distance(point: Point, roofs: tuple[Roof, ...]) -> Distance | None:
    """How close a point is to the roof above it; None when neither of its roofs is known."""
    above = [
        each for each in roofs if each.name in (point.level, point.precision) and each.at(point.intensity) > 0
    ]
    if not above:
        return None
    lowest = min(above, key=lambda each: each.at(point.intensity))
    allowed = lowest.at(point.intensity)
    return Distance(lowest.name, point.rate / allowed, allowed)


def nearest_roof(kernel: KernelProfile) -> Distance | None:
    """The roof that a kernel comes closest to, over all memory levels."""
    drawn = roofline(kernel)
    found = [each for point in drawn.points if (each := distance(point, drawn.roofs)) is not None]
    return max(found, key=lambda each: each.share, default=None)


def operation_rates(kernel: KernelProfile, table: GpuPeaks | None = None) -> dict[str, float]:
    """Operations per second by the name of their roof: FP64, FP32, FP16, and the tensor cores' precisions."""
    rates: dict[str, float] = {}
    clock = first_number(kernel, *_SM_CLOCK)
    for letter, name, lanes in (("d", "FP64", 1), ("f", "FP32", 1), ("h", "FP16", 2)):
        executed = floating_point(kernel, letter)
        if executed is not None and clock:
            rates[name] = executed.operations * lanes * clock
        elif (summed := _summed_operations(kernel, letter)) is not None:
            rates[name] = summed * lanes
    tensor = _tensor_rates(kernel)
    if not tensor:
        tensor = _tensor_rates_from_pipe(kernel, table)
    rates.update(tensor)
    return {name: rate for name, rate in rates.items() if rate > 0}


def _summed_operations(kernel: KernelProfile, letter: str) -> float | None:
    duration = kernel.duration_ns
    parts = [
        kernel.number(f"{unit}__sass_thread_inst_executed_op_{letter}{op}_pred_on.sum")
        for op in ("add", "mul", "fma")
        for unit in ("smsp",)
    ]
    if not duration or any(part is None for part in parts):
        return None
    add, multiply, fused = (part or 0.0 for part in parts)
    return (add + multiply + 2 * fused) / duration * 1e9


def precision_of_path(path: str) -> str:
    """The roof for a tensor metric's path ("op_hgmma_src_bf16_dst_fp32_sparsity_off")."""
    key = next((name for part, name in _SOURCE_TYPES if part in path), "tensor")
    return SHOWN.get(key, f"{key.upper()} tensor" if key != "tensor" else "tensor")


def _tensor_rates(kernel: KernelProfile) -> dict[str, float]:
    """Sums over all instructions of one precision where the report has them, else the single instructions."""
    paths = _tensor_paths(kernel)
    sums = [path for path in paths if not path.startswith("op_")]
    rates: dict[str, float] = {}
    for path in sums or paths:
        name = precision_of_path(path)
        rates[name] = rates.get(name, 0.0) + (kernel.number(_TENSOR_RATE.format(path)) or 0.0)
    return rates


def _tensor_paths(kernel: KernelProfile) -> list[str]:
    found = (_TENSOR_OPERATIONS.fullmatch(metric) for metric in kernel.metrics)
    return [each["path"] for each in found if each is not None]


def _tensor_rates_from_pipe(kernel: KernelProfile, table: GpuPeaks | None) -> dict[str, float]:
    """Tensor operations from how busy the tensor pipe was, in reports that do not count them."""
    busy = pipe_percent(kernel, "tensor")
    if busy is None:
        busy = first_number(
            kernel,
            "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
            "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active",
        )
    if not busy or busy < MIN_TENSOR_PERCENT or table is None:
        return {}
    precision = precision_in_name(kernel.name)
    peak = table.operations.get(precision)
    return {SHOWN[precision]: busy / 100.0 * peak} if peak else {}


def precision_in_name(name: str) -> str:
    """The tensor precision that a kernel's name tells; fp16 when it tells none."""
    lowered = name.lower()
    for words, precision in (
        (("bf16", "bfloat16", "_tst_", "nv_bfloat"), "bf16"),
        (("tf32", "s1688", "_sss_"), "tf32"),
        (("e4m3", "e5m2", "fp8", "qmma", "qgmma"), "fp8"),
        (("i8", "s8", "imma", "int8"), "int8"),
        (("d884", "dgemm", "dmma"), "fp64_tensor"),
    ):
        if any(word in lowered for word in words):
            return precision
    return "fp16"


def byte_rates(kernel: KernelProfile) -> dict[str, float]:
    """Bytes per second that each memory level moved: DRAM, L2 to L1, and L1 to the registers."""
    duration = kernel.duration_ns
    found: dict[str, float | None] = {
        "DRAM": first_number(kernel, "dram__bytes.sum.per_second"),
        "L2": first_number(
            kernel, "derived__lts__lts2xbar_bytes.sum.per_second", "lts__t_bytes.sum.per_second"
        ),
        "L1": first_number(
            kernel,
            "derived__l1tex__lsu_writeback_bytes_mem_lgds.sum.per_second",
            "l1tex__t_bytes.sum.per_second",
        ),
    }
    if duration:
        for level, amount in _amounts(kernel).items():
            if found[level] is None and amount is not None:
                found[level] = amount / duration * 1e9
    return {level: rate for level in LEVELS if (rate := found[level]) is not None}


def _amounts(kernel: KernelProfile) -> dict[str, float | None]:
    dram = dram_bytes(kernel)
    sectors = kernel.number("lts__t_sectors.sum")
    l2 = kernel.number("lts__t_bytes.sum")
    return {
        "DRAM": dram,
        "L2": l2 if l2 is not None else None if sectors is None else sectors * SECTOR_BYTES,
        "L1": kernel.number("l1tex__t_bytes.sum"),
    }


def _memory_roofs(kernel: KernelProfile, table: GpuPeaks | None) -> list[Roof]:
    parts = {
        "DRAM": ("dram__bytes.sum.peak_sustained", ("dram__cycles_elapsed.avg.per_second",)),
        "L2": ("derived__lts__lts2xbar_bytes.sum.peak_sustained", ("lts__cycles_elapsed.avg.per_second",)),
        "L1": (
            "derived__l1tex__lsu_writeback_bytes_mem_lgds.sum.peak_sustained",
            ("l1tex__cycles_elapsed.avg.per_second", *_SM_CLOCK),
        ),
    }
    roofs = []
    for level, (per_cycle, clocks) in parts.items():
        peak, clock = kernel.number(per_cycle), first_number(kernel, *clocks)
        if peak and clock:
            roofs.append(Roof(level, peak * clock, True))
        elif level == "DRAM" and table is not None:
            roofs.append(Roof(level, table.bandwidth, True, from_table=True))
    return roofs


def _compute_roofs(kernel: KernelProfile, table: GpuPeaks | None, rates: Mapping[str, float]) -> list[Roof]:
    clock = first_number(kernel, *_SM_CLOCK)
    peaks: dict[str, tuple[float, bool]] = {}
    for letter, name, lanes in (("d", "FP64", 2), ("f", "FP32", 2), ("h", "FP16", 4)):
        per_cycle = kernel.number(f"sm__sass_thread_inst_executed_op_{letter}fma_pred_on.sum.peak_sustained")
        if per_cycle and clock:
            peaks[name] = (per_cycle * lanes * clock, False)
    for name, peak in _tensor_peaks(kernel).items():
        peaks[name] = (peak, False)
    if table is not None:
        for precision, peak in table.operations.items():
            name = SHOWN[precision]
            if name not in peaks and (name in rates or not name.endswith("tensor")):
                peaks[name] = (peak, True)
    return [Roof(name, peak, False, from_table) for name, (peak, from_table) in peaks.items()]


def _tensor_peaks(kernel: KernelProfile) -> dict[str, float]:
    """The fastest dense path of each precision that the report lists; sums count sparse operations as well."""
    dense: dict[str, float] = {}
    undivided: dict[str, float] = {}
    for path in _tensor_paths(kernel):
        peak = kernel.number(_TENSOR_PEAK.format(path))
        if not peak or "sparsity_on" in path or "src_int1" in path:
            continue
        peaks = dense if "sparsity_off" in path else undivided
        name = precision_of_path(path)
        peaks[name] = max(peaks.get(name, 0.0), peak)
    return {**undivided, **dense}
