"""Two launches of a kernel, or the same kernels in two reports, side by side, with why one is faster."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from parsers.model import KernelProfile
from parsers.model.late import dataclass
from parsers.model.names.kernels import base_name, similarity
from parsers.model.units import duration, quantity
from rules.kernels.checks.occupancy import ACHIEVED
from rules.kernels.checks.speed_of_light import COMPUTE, DRAM, L1, L2, MEMORY, VERDICTS, speed_of_light
from rules.kernels.checks.stalls import label_of, stalls
from rules.kernels.launch_groups import KernelGroup, kernel_groups

NOTICEABLE_POINTS = 5.0
NOTICEABLE_CHANGE = 0.05
_STALL = "Stall: "


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a before/after table; values are in the metric's base unit, None where not measured."""

    label: str
    before: float | None
    after: float | None
    unit: str
    lower_is_better: bool | None = None  # None: neither direction is good by itself

    @property
    def before_text(self) -> str:
        return quantity(self.before, self.unit)

    @property
    def after_text(self) -> str:
        return quantity(self.after, self.unit)

    @property
    def change(self) -> float | None:
        """after - before, in points for percentages, else as a fraction of before; None where one is missing."""
        if self.before is None or self.after is None:
            return None
        if self.unit == "%":
            return self.after - self.before
        return (self.after - self.before) / self.before if self.before else None

    @property
    def is_noticeable(self) -> bool:
        least = NOTICEABLE_POINTS if self.unit == "%" else NOTICEABLE_CHANGE
        return self.change is not None and abs(self.change) >= least


@dataclass(frozen=True, slots=True)
class KernelComparison:
    """Before and after of one kernel: rows for a table, the factor of its time, and a sentence on the reason."""

    before: KernelProfile
    after: KernelProfile
    rows: tuple[Row, ...]
    why: str

    @property
    def speedup(self) -> float | None:
        """Time before over time after."""
        if not self.before.duration_ns or not self.after.duration_ns:
            return None
        return self.before.duration_ns / self.after.duration_ns


_METRICS: tuple[tuple[str, str, str, bool | None], ...] = (
    ("Time", "gpu__time_duration.sum", "ns", True),
    ("Compute throughput", COMPUTE, "%", None),
    ("Memory throughput", MEMORY, "%", None),
    ("DRAM throughput", DRAM, "%", None),
    ("DRAM bandwidth", "dram__bytes.sum.per_second", "byte/s", None),
    ("L2 throughput", L2, "%", None),
    ("L1 throughput", L1, "%", None),
    ("L1 hit rate", "l1tex__t_sector_hit_rate.pct", "%", False),
    ("L2 hit rate", "lts__t_sector_hit_rate.pct", "%", False),
    ("Achieved occupancy", ACHIEVED, "%", False),
    ("Registers per thread", "launch__registers_per_thread", "", None),
    ("Instructions issued per cycle and scheduler", "smsp__issue_active.avg.per_cycle_active", "", False),
    ("Executed instructions", "smsp__inst_executed.sum", "", True),
    ("Threads per instruction", "smsp__thread_inst_executed_per_inst_executed.ratio", "", False),
    ("Sectors moved by L2", "lts__t_sectors.sum", "", True),
    ("Wasted global sectors", "derived__memory_l2_theoretical_sectors_global_excessive", "", True),
    ("Bank conflicts", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", "", True),
)


def compare_kernels(before: KernelProfile, after: KernelProfile) -> KernelComparison:
    """The table and the reason for two launches, of the same kernel or of two versions of it."""
    rows = [
        Row(label, before.number(metric), after.number(metric), unit, lower)
        for label, metric, unit, lower in _METRICS
        if before.number(metric) is not None or after.number(metric) is not None
    ]
    rows += _stall_rows(before, after)
    return KernelComparison(before, after, tuple(rows), why(before, after, rows))


def _stall_rows(before: KernelProfile, after: KernelProfile) -> list[Row]:
    shares = [{each.reason: 100 * each.share for each in stalls(kernel)} for kernel in (before, after)]
    reasons = [each for each in {**shares[0], **shares[1]} if each not in ("selected", "not_selected")]
    large = [
        each for each in reasons if max(share.get(each, 0.0) for share in shares) >= 2 * NOTICEABLE_POINTS
    ]
    large.sort(key=lambda each: -max(share.get(each, 0.0) for share in shares))
    return [
        Row(f"{_STALL}{label_of(each)}", shares[0].get(each), shares[1].get(each), "%", True)
        for each in large
    ]


# the closest first
_ALIKE: tuple[Callable[[KernelGroup], object], ...] = (
    lambda group: (group.name, group.representative.grid, group.representative.block),
    lambda group: group.name,
    lambda group: base_name(group.name),
)


def compare_reports(
    before: Sequence[KernelProfile], after: Sequence[KernelProfile]
) -> tuple[list[KernelComparison], list[KernelGroup], list[KernelGroup]]:
    """Pairs of kernels that occur in both reports, by time; then those that only one of them has.

    Kernels pair up by name and shape first, then by name, then by the function's own name; the only kernel of one
    report and the only one of the other in any case.
    """
    left, right = kernel_groups(before), kernel_groups(after)
    pairs: list[KernelComparison] = []
    for key in _ALIKE:
        for group in list(left):
            same = [each for each in right if key(each) == key(group)]
            if same:
                twin = max(same, key=lambda each: similarity(each.name, group.name))
                pairs.append(compare_kernels(group.representative, twin.representative))
                left.remove(group)
                right.remove(twin)
    if not pairs and len(left) == len(right) == 1:  # an own kernel against a library's
        pairs.append(compare_kernels(left.pop().representative, right.pop().representative))
    pairs.sort(key=lambda each: -max(each.before.duration_ns or 0.0, each.after.duration_ns or 0.0))
    return pairs, left, right


def why(before: KernelProfile, after: KernelProfile, rows: Sequence[Row]) -> str:
    """One or two sentences: how much faster or slower, and what changed that explains it."""
    if not before.duration_ns or not after.duration_ns:
        return "The reports do not state how long both launches took."
    factor = before.duration_ns / after.duration_ns
    times = f"{duration(before.duration_ns)} -> {duration(after.duration_ns)}"
    if abs(1 - 1 / factor) < NOTICEABLE_CHANGE:
        return f"About as fast as before ({times}): the differences are within run-to-run variation."
    faster = factor > 1
    ratio = factor if faster else 1 / factor
    told = f"{ratio:.2g}" if ratio < 100 else f"{ratio:,.0f}"
    how_much = f"{told} times {'faster' if faster else 'slower'}"
    reasons = _reasons({row.label: row for row in rows}, faster)
    because = f" because {_listed(reasons[:3])}" if reasons else ""
    text = f"{how_much[0].upper()}{how_much[1:]} ({times}){because}."
    return text + (_new_limit(before, after) if reasons and faster else "") + _other_conditions(before, after)


def _reasons(rows: dict[str, Row], faster: bool) -> list[str]:
    """What moved in the direction that explains the change, strongest explanation first."""
    found: list[str] = []
    for label, phrases in _PHRASES.items():
        row = rows.get(label)
        if row is None or not row.is_noticeable or row.change is None or row.lower_is_better is None:
            continue
        improved = (row.change < 0) == row.lower_is_better
        if improved == faster:
            phrase = phrases[0] if faster else phrases[1]
            found.append(f"{phrase} ({row.before_text} -> {row.after_text})")
    waited = "less" if faster else "more"
    for label, row in rows.items():
        if not label.startswith(_STALL) or not row.is_noticeable or row.change is None:
            continue
        if (row.change < 0) == faster:
            reason = label.removeprefix(_STALL)
            found.append(f"warps wait {waited} for {reason} ({row.before_text} -> {row.after_text})")
    return found


_PHRASES: dict[str, tuple[str, str]] = {
    "Wasted global sectors": ("fewer bytes are wasted", "more bytes are wasted"),
    "Bank conflicts": ("there are fewer bank conflicts", "there are more bank conflicts"),
    "L2 hit rate": ("more accesses hit L2", "fewer accesses hit L2"),
    "L1 hit rate": ("more accesses hit L1", "fewer accesses hit L1"),
    "Sectors moved by L2": ("less data passes through L2", "more data passes through L2"),
    "Executed instructions": ("fewer instructions are executed", "more instructions are executed"),
    "Threads per instruction": (
        "more threads of a warp work together",
        "fewer threads of a warp work together",
    ),
    "Achieved occupancy": ("more warps are resident", "fewer warps are resident"),
    "Instructions issued per cycle and scheduler": (
        "instructions are issued more often",
        "instructions are issued less often",
    ),
}


def _new_limit(before: KernelProfile, after: KernelProfile) -> str:
    first, second = speed_of_light(before), speed_of_light(after)
    if first is None or second is None or first.bound is second.bound:
        return ""
    return f" Before: {VERDICTS[first.bound]}; now: {VERDICTS[second.bound]}."


def _other_conditions(before: KernelProfile, after: KernelProfile) -> str:
    """A warning when the two launches did not run under the same conditions."""
    if before.device_name and after.device_name and before.device_name != after.device_name:
        return f" They ran on different GPUs ({before.device_name}, {after.device_name})."
    clocks = [kernel.number("gpc__cycles_elapsed.avg.per_second") for kernel in (before, after)]
    if clocks[0] and clocks[1] and abs(clocks[0] / clocks[1] - 1) > NOTICEABLE_CHANGE:
        return f" The SM clock differed ({clocks[0] / 1e9:.2f} and {clocks[1] / 1e9:.2f} GHz): compare cycles too."
    return ""


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
