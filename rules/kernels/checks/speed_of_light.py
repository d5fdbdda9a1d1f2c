"""How close a kernel comes to the limits of the GPU, and which limit that is: the main verdict of a launch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from parsers.model import KernelProfile
from parsers.model.late import dataclass, regex
from parsers.model.units import percent
from rules.findings.base import Category


@dataclass(frozen=True, slots=True)
class KernelRuleResult:
    """The conclusion of one check on one launch.

    ``rule`` and ``section`` carry the names that Nsight Compute uses for the comparable check. ``subject`` names
    what it is about (a stall reason, a pipe, a limiter). ``speedup_percent`` is the estimated share of the time that
    could go: of the kernel when ``speedup_is_global``, else of the part that the check looks at.
    """

    rule: str
    section: str
    fired: bool
    text: str
    category: Category | None = None
    speedup_percent: float | None = None
    speedup_is_global: bool = True
    subject: str = ""

    @property
    def saving(self) -> float:
        """The estimated share, 0 to 1; 0 without an estimate."""
        return (self.speedup_percent or 0.0) / 100.0


Check = Callable[[KernelProfile], Iterable[KernelRuleResult]]
_CHECKS: list[Check] = []


def check(function: Check) -> Check:
    """Register a check of one launch; it yields nothing when its metrics were not collected."""
    _CHECKS.append(function)
    return function


def checks() -> tuple[Check, ...]:
    """Every registered check, in the order of the report's sections."""
    return tuple(_CHECKS)


def numbers(kernel: KernelProfile, *metrics: str) -> tuple[float, ...] | None:
    """All of these metrics as floats; None when one is missing."""
    found = []
    for metric in metrics:
        if (value := kernel.number(metric)) is None:
            return None
        found.append(value)
    return tuple(found)


def first_number(kernel: KernelProfile, *metrics: str) -> float | None:
    """The first of these metrics that was collected."""
    for metric in metrics:
        if (value := kernel.number(metric)) is not None:
            return value
    return None


HIGH_PERCENT = 80.0
LOW_PERCENT = 60.0
BALANCE_PERCENT = 10.0

COMPUTE = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
MEMORY = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
# what the two are the larger of: newer reports of some GPUs hold the parts alone
_COMPUTE_PARTS = ("sm__instruction_throughput.avg.pct_of_peak_sustained_elapsed",)
_MEMORY_PARTS = (
    "gpu__compute_memory_access_throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__compute_memory_request_throughput.avg.pct_of_peak_sustained_elapsed",
)
DRAM = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
L2 = "lts__throughput.avg.pct_of_peak_sustained_elapsed"
L1 = "l1tex__throughput.avg.pct_of_peak_sustained_active"
_L1_ELAPSED = "l1tex__throughput.avg.pct_of_peak_sustained_elapsed"
WAVES = "launch__waves_per_multiprocessor"
_DRAM_ALIASES = (DRAM, "dram__throughput.avg.pct_of_peak_sustained_elapsed")
L1_CACHE = "the L1 cache and shared memory"
_LEVELS = {"DRAM": _DRAM_ALIASES, "the L2 cache": (L2,), L1_CACHE: (_L1_ELAPSED, L1)}
_BREAKDOWN = "breakdown:gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
_USUAL_BREAKDOWN = (
    "dram__cycles_active",
    "fbpa__dram_sectors",
    "l1tex__data_bank_reads",
    "l1tex__data_bank_writes",
    "l1tex__data_pipe_lsu_wavefronts",
    "l1tex__data_pipe_tex_wavefronts",
    "l1tex__f_wavefronts",
    "l1tex__lsu_writeback_active",
    "l1tex__lsuin_requests",
    "l1tex__m_l1tex2xbar_req_cycles_active",
    "l1tex__m_xbar2l1tex_read_sectors",
    "lts__d_atomic_input_cycles_active",
    "lts__d_sectors",
    "lts__d_sectors_fill_device",
    "lts__d_sectors_fill_sysmem",
    "lts__lts2xbar_cycles_active",
    "lts__t_sectors",
    "lts__t_tag_requests",
    "lts__xbar2lts_cycles_active",
)
_UNITS = {
    "dram": "DRAM",
    "fbpa": "DRAM",
    "fbp": "DRAM",
    "l1tex": L1_CACHE,
    "lts": "the L2 cache",
    "ltc": "the L2 cache",
}
_FULL_WAVES = regex(r"only ([\d.]+) full waves")
MANY_SMS_BUSY = 0.75
VERDICTS = {
    Category.MEMORY_BOUND: "limited by memory",
    Category.COMPUTE_BOUND: "limited by compute",
    Category.LATENCY_BOUND: "mostly waits",
    Category.SMALL_GRID: "too few blocks for the GPU",
    Category.BALANCED: "compute and memory are balanced",
}


@dataclass(frozen=True, slots=True)
class SpeedOfLight:
    """Throughputs in percent of the peak; ``bound`` is one of the main verdicts, ``limiter`` the busiest unit.

    ``l1`` is the L1 cache's throughput where that is the limit, and 0 elsewhere: the memory throughput counts its
    parts, and leaves out the one that takes an access apart into cache lines.
    """

    compute: float
    memory: float
    waves: float | None
    bound: Category
    limiter: str
    l1: float = 0.0

    @property
    def best(self) -> float:
        return max(self.compute, self.memory, self.l1)

    @property
    def verdict(self) -> str:
        """The verdict as a phrase with its numbers."""
        if self.l1:
            return f"limited by the L1 cache ({percent(self.l1 / 100)} of its peak)"
        return f"{VERDICTS[self.bound]} ({percent(self.compute / 100)} compute, {percent(self.memory / 100)} memory)"


def memory_percent(kernel: KernelProfile) -> float | None:
    """The memory system's throughput in percent; the busiest level where the total was not collected."""
    total = kernel.number(MEMORY)
    if total is None:
        total = _largest(kernel, *_MEMORY_PARTS)
    if total is not None:
        return total
    levels = [value for names in _LEVELS.values() if (value := first_number(kernel, *names)) is not None]
    return max(levels, default=None)


def compute_percent(kernel: KernelProfile) -> float | None:
    """The multiprocessors' throughput in percent."""
    total = kernel.number(COMPUTE)
    return _largest(kernel, *_COMPUTE_PARTS) if total is None else total


def _largest(kernel: KernelProfile, *metrics: str) -> float | None:
    values = (kernel.number(each) for each in metrics)
    return max((value for value in values if value is not None), default=None)


def dram_percent(kernel: KernelProfile) -> float | None:
    """DRAM throughput in percent of the peak."""
    return first_number(kernel, *_DRAM_ALIASES)


def active_share(kernel: KernelProfile) -> float:
    """The share (0 to 1) of the kernel's time in which an average SM had work; 1 when unknown."""
    cycles = numbers(kernel, "sm__cycles_active.sum", "sm__cycles_elapsed.sum") or numbers(
        kernel, "sm__cycles_active.avg", "sm__cycles_elapsed.max"
    )
    return min(cycles[0] / cycles[1], 1.0) if cycles and cycles[1] > 0 else 1.0


def _l1_percent(kernel: KernelProfile) -> float:
    """The L1 cache's throughput in percent of the peak, over the whole kernel; 0 where it was not collected."""
    whole, active = kernel.number(_L1_ELAPSED), kernel.number(L1)
    return whole if whole is not None else (active or 0.0) * active_share(kernel)


def multiprocessors(kernel: KernelProfile) -> float | None:
    """How many SMs the GPU has (or the part of it that the launch may use)."""
    return first_number(kernel, "launch__sm_count", "device__attribute_multiprocessor_count")


def blocks_of(kernel: KernelProfile) -> int:
    """Blocks of the launch; 0 when unknown."""
    x, y, z = kernel.grid
    return x * y * z or int(kernel.number("launch__grid_size") or 0)


def fills_the_gpu(kernel: KernelProfile) -> bool:
    """Whether nearly every SM gets a block; true where the file does not say how many SMs there are."""
    sms = multiprocessors(kernel)
    return sms is None or blocks_of(kernel) == 0 or blocks_of(kernel) >= MANY_SMS_BUSY * sms


def waves_of(kernel: KernelProfile) -> float | None:
    """How often the blocks of the launch would fill all SMs, in the profiler's own words where it is no metric."""
    if (waves := kernel.number(WAVES)) is not None:
        return waves
    told = (_FULL_WAVES.search(each.text) for each in kernel.rule_results if each.rule == "SOLBottleneck")
    return next((float(found[1]) for found in told if found), None)


def holds_all_blocks(kernel: KernelProfile) -> bool:
    """Whether the SMs hold every block at once: then more room on them holds no more warps.

    False where the report says what the warps wait for: that tells more than how many there are.
    """
    waves = waves_of(kernel)
    return waves is not None and waves < 1 and not _says_why_warps_wait(kernel)


def _says_why_warps_wait(kernel: KernelProfile) -> bool:
    return any("issue_stalled" in name for name in kernel.metrics) or any(
        each.rule == "CPIStall" for each in kernel.rule_results
    )


def busiest_memory_unit(kernel: KernelProfile) -> str:
    """DRAM, the L2 cache or the L1 cache: whichever is closest to its own peak."""
    listed = kernel.metrics.get(_BREAKDOWN)
    names = listed.split(",") if isinstance(listed, str) else _usual_breakdown()
    parts = {name: value for name in names if (value := kernel.number(name.strip())) is not None}
    for name, _ in sorted(parts.items(), key=lambda each: -each[1]):
        if unit := _UNITS.get(name.strip().partition("__")[0]):
            return unit
    total = memory_percent(kernel) or 0.0
    levels = {unit: first_number(kernel, *names) for unit, names in _LEVELS.items()}
    measured = {unit: abs(value - total) for unit, value in levels.items() if value is not None}
    return min(measured, key=lambda unit: measured[unit]) if measured else "the memory system"


def _usual_breakdown() -> list[str]:
    return [f"{name}.avg.pct_of_peak_sustained_elapsed" for name in _USUAL_BREAKDOWN]


def speed_of_light(kernel: KernelProfile) -> SpeedOfLight | None:
    """The main verdict: memory, compute or latency bound, balanced, or a grid too small for the GPU."""
    compute, memory = compute_percent(kernel), memory_percent(kernel)
    if compute is None or memory is None:
        return None
    waves = waves_of(kernel)
    l1 = _l1_percent(kernel)
    if l1 >= HIGH_PERCENT > max(compute, memory) and l1 - max(compute, memory) >= BALANCE_PERCENT:
        return SpeedOfLight(compute, memory, waves, Category.MEMORY_BOUND, L1_CACHE, l1)
    if max(compute, memory) < LOW_PERCENT:
        fills = fills_the_gpu(kernel) and not holds_all_blocks(kernel)
        bound = Category.LATENCY_BOUND if fills else Category.SMALL_GRID
        limiter = "latency" if bound is Category.LATENCY_BOUND else "the number of blocks"
    elif abs(compute - memory) < BALANCE_PERCENT:
        bound, limiter = Category.BALANCED, "compute and memory alike"
    elif compute > memory:
        bound, limiter = Category.COMPUTE_BOUND, "the compute units"
    else:
        bound, limiter = Category.MEMORY_BOUND, busiest_memory_unit(kernel)
    return SpeedOfLight(compute, memory, waves, bound, limiter)


@check
def bottleneck(kernel: KernelProfile) -> Iterator[KernelRuleResult]:
    """Speed of light: which of compute and memory limits the kernel, if any."""
    sol = speed_of_light(kernel)
    if sol is None:
        return
    compute, memory = percent(sol.compute / 100), percent(sol.memory / 100)
    used = f"It uses {compute} of the GPU's compute and {memory} of its memory throughput"
    if sol.l1:
        used += f", and {percent(sol.l1 / 100)} of the L1 cache's"
    if sol.best >= HIGH_PERCENT:
        text = f"{used}: it runs close to a limit of the hardware, {sol.limiter}. Only less work makes it faster."
        fired = False
    elif sol.best >= LOW_PERCENT:
        fired = sol.bound is not Category.BALANCED
        text = (
            f"{used}: {sol.limiter} works much harder than the rest and sets the pace."
            if fired
            else f"{used}: both are used about equally, so that neither alone is the bottleneck."
        )
    elif sol.bound is Category.SMALL_GRID:
        fired = True
        filled = "" if sol.waves is None else f" ({100 * sol.waves:.0f} % of one full wave)"
        text = f"{used}: the launch has too few blocks to fill the GPU{filled}."
    else:
        fired = True
        text = f"{used}: it mostly waits, for data or for instructions to finish, rather than works."
    yield KernelRuleResult("SOLBottleneck", "SpeedOfLight", fired, text, sol.bound, subject=sol.limiter)
