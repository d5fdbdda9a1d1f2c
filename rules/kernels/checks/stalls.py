"""How often the schedulers issue an instruction, and what warps wait for when they do not."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from parsers.model import KernelProfile
from parsers.model.late import dataclass
from rules.findings.base import Category
from rules.kernels.checks.explanations import stall_reasons
from rules.kernels.checks.memory import local_share
from rules.kernels.checks.speed_of_light import COMPUTE, KernelRuleResult, check, memory_percent, numbers

ISSUE_ACTIVE = "smsp__issue_active.avg.per_cycle_active"
WARP_LATENCY = "smsp__average_warp_latency_per_inst_issued.ratio"
LOW_ISSUE = 0.6
FULL_ISSUE = 0.8
LARGE_STALL_SHARE = 0.3
_STALL_PREFIX, _STALL_SUFFIX = "smsp__average_warps_issue_stalled_", "_per_issue_active.ratio"
_SAMPLE_PREFIX = "smsp__pcsamp_warps_issue_stalled_"
CATEGORY_OF_STALL = {
    "barrier": Category.BARRIER_STALL,
    "membar": Category.BARRIER_STALL,
    "math_pipe_throttle": Category.PIPE_SATURATED,
    "branch_resolving": Category.DIVERGENCE,
}
_NOT_WAITING = frozenset({"selected"})


@dataclass(frozen=True, slots=True)
class Stall:
    """One reason: cycles per issued instruction, and its share of all cycles between two instructions."""

    reason: str
    cycles: float
    share: float


def stalls(kernel: KernelProfile) -> list[Stall]:
    """Every measured stall reason, largest first, "selected" (not a wait) included.

    Shares come from the warp-state counters; from the sampled program counters where those are missing.
    """
    cycles = _by_reason(kernel, _STALL_PREFIX, _STALL_SUFFIX)
    total = kernel.number(WARP_LATENCY) or sum(cycles.values())
    if not cycles:
        cycles = _by_reason(kernel, _SAMPLE_PREFIX, "")
        total = sum(cycles.values())
    if total <= 0:
        return []
    found = [Stall(reason, value, value / total) for reason, value in cycles.items()]
    return sorted(found, key=lambda each: (-each.cycles, each.reason))


def _by_reason(kernel: KernelProfile, prefix: str, suffix: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for metric, reason in _reasons(tuple(kernel.metrics), prefix, suffix):
        if (value := kernel.number(metric)) is not None:
            found[reason] = value
    return found


@lru_cache(maxsize=64)
def _reasons(metrics: tuple[str, ...], prefix: str, suffix: str) -> tuple[tuple[str, str], ...]:
    """Metrics and their reasons; launches of one report have the same metrics, some thousand of them."""
    found = []
    for metric in metrics:
        if metric.startswith(prefix) and metric.endswith(suffix) and not metric.endswith("_not_issued"):
            reason = metric[len(prefix) : len(metric) - len(suffix)]
            found.append((metric, "no_instruction" if reason == "no_instructions" else reason))
    return tuple(found)


def issue_slot_saving(kernel: KernelProfile) -> float | None:
    """The share of time that full issue slots could save at most; None when the slots are busy enough."""
    issued, compute, memory = kernel.number(ISSUE_ACTIVE), kernel.number(COMPUTE), memory_percent(kernel)
    if issued is None or issued >= LOW_ISSUE:
        return None
    return min(1.0 - issued, 1.0 - max(compute or 0.0, memory or 0.0) / 100.0)


def capped(kernel: KernelProfile, saving: float) -> tuple[float, bool]:
    """Percent and whether it is of the whole kernel: no more than what free issue slots allow."""
    limit = issue_slot_saving(kernel)
    if limit is None:
        return 100.0 * saving, False
    return 100.0 * min(saving, limit), True


@check
def issue_slots(kernel: KernelProfile) -> Iterator[KernelRuleResult]:
    """Whether the schedulers find an instruction to issue often enough."""
    issued = kernel.number(ISSUE_ACTIVE)
    if issued is None:
        return
    saving = issue_slot_saving(kernel)
    every = f"one every {1 / issued:.1f} cycles" if issued > 0 else "none at all"
    text = f"Each scheduler could issue one instruction a cycle and issues {every}."
    resident = numbers(
        kernel,
        "smsp__warps_active.avg.per_cycle_active",
        "smsp__warps_eligible.avg.per_cycle_active",
        "smsp__maximum_warps_avg_per_active_cycle",
    )
    if saving is not None and resident is not None:
        active, eligible, theoretical = resident
        text += f" Of {active:.1f} resident warps per scheduler only {eligible:.2f} are ready on average."
        if active < 1:
            text += " There is less than one warp to choose from: give every SM more warps."
        elif theoretical > 0 and active / theoretical < 0.8:
            text += f" {theoretical:.0f} could be resident: see the occupancy and the size of the grid."
        else:
            text += " The warps are there but they wait: see the stall reasons."
    yield KernelRuleResult(
        "IssueSlotUtilization",
        "SchedulerStats",
        saving is not None,
        text,
        Category.LATENCY_BOUND,
        None if saving is None else 100.0 * saving,
        False,
    )


@check
def warp_stalls(kernel: KernelProfile) -> Iterator[KernelRuleResult]:
    """The stall reasons that take more than 30 % of a warp's time between two instructions."""
    measured, reasons = numbers(kernel, ISSUE_ACTIVE, WARP_LATENCY), stalls(kernel)
    if measured is None or not reasons:
        return
    issued, latency = measured
    found = [each for each in reasons if each.reason not in _NOT_WAITING] if latency > 0 else []
    loud = [each for each in found if each.share > LARGE_STALL_SHARE] if issued < FULL_ISSUE else []
    for stall in loud:
        percent, is_global = capped(kernel, stall.share)
        explanation = stall_reasons().get(stall.reason)
        meaning = f" {explanation.meaning}" if explanation else ""
        yield KernelRuleResult(
            "CPIStall",
            "WarpStateStats",
            True,
            f"Warps spend {stall.cycles:.1f} of the {latency:.1f} cycles between two instructions"
            f" ({100 * stall.share:.0f} %) in the stall “{label_of(stall.reason)}”.{meaning}",
            CATEGORY_OF_STALL.get(stall.reason, Category.LATENCY_BOUND),
            percent,
            is_global,
            stall.reason,
        )
    if not loud:
        text = "No single stall reason holds the warps up."
        if issued >= FULL_ISSUE:
            text = "The schedulers issue nearly every cycle: what single warps wait for costs nothing."
        yield KernelRuleResult("CPIStall", "WarpStateStats", False, text)


def label_of(reason: str) -> str:
    """A stall reason as people read it: "long scoreboard"."""
    explanation = stall_reasons().get(reason)
    return explanation.label if explanation else reason.replace("_", " ")


# An optimised instruction waits 1 to 6 cycles for one that takes a fixed time; without optimisation each waits the most
# that its encoding can state, 15, and every variable lies in local memory.
UNOPTIMISED_CYCLES = 8.0
MIN_LOCAL_SHARE = 0.10


def compiled_for_debugging(kernel: KernelProfile) -> bool:
    """Whether it waits behind each instruction, for nothing else as long, and keeps its variables in memory."""
    longest = next(iter(stalls(kernel)), None)
    waits = longest is not None and longest.reason == "wait" and longest.cycles >= UNOPTIMISED_CYCLES
    return waits and local_share(kernel) >= MIN_LOCAL_SHARE
