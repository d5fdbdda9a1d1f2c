"""How many warps an SM can hold and does hold, what limits them, and whether that matters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum

from parsers.model import KernelProfile
from parsers.model.late import dataclass, regex
from rules.findings.base import Category
from rules.kernels.checks.speed_of_light import (
    LOW_PERCENT,
    KernelRuleResult,
    active_share,
    check,
    fills_the_gpu,
    first_number,
    holds_all_blocks,
    numbers,
    speed_of_light,
    waves_of,
)
from rules.kernels.checks.stalls import ISSUE_ACTIVE, LOW_ISSUE, Stall, capped, label_of, stalls
from rules.terms import NEARLY_ALL

THEORETICAL = "sm__maximum_warps_per_active_cycle_pct"
ACHIEVED = "sm__warps_active.avg.pct_of_peak_sustained_active"
LOW_THEORETICAL_SHARE = 0.8
FAR_FROM_THEORETICAL_POINTS = 10.0
LOW_OCCUPANCY_PERCENT = 50.0
MANY_WAVES = 4.0
MOSTLY_ACTIVE = 0.7
LIMITERS = {
    "launch__occupancy_limit_registers": "registers",
    "launch__occupancy_limit_shared_mem": "shared memory",
    "launch__occupancy_limit_warps": "warps that an SM holds",
    "launch__occupancy_limit_blocks": "blocks that an SM holds",
    "launch__occupancy_limit_barriers": "barriers",
}
_ASYNCHRONOUS = regex(
    r"wgmma|nvjet_|warpspecialized|tcgen05|sm90_xmma|sm100_|_gmma_|cutlass3x", re.IGNORECASE
)
_REMEDIES = {
    "registers": "use fewer registers per thread (__launch_bounds__, smaller tiles, fewer live variables)",
    "shared memory": "use less shared memory per block, or more threads per block that share it",
    "warps that an SM holds": "use blocks whose size divides the warps of an SM evenly",
    "blocks that an SM holds": "use larger blocks: an SM holds only so many blocks, however small they are",
    "barriers": "use fewer named barriers per block",
}


def limiters(kernel: KernelProfile) -> tuple[str, ...]:
    """What keeps more blocks from an SM: every resource that allows the fewest."""
    limits = {
        name: value for metric, name in LIMITERS.items() if (value := kernel.number(metric)) is not None
    }
    least = min(limits.values(), default=None)
    return tuple(name for name, value in limits.items() if value == least)


def has_room_for_few(kernel: KernelProfile) -> bool:
    """Whether the launch lets an SM hold less than 80 % of its warps."""
    possible = kernel.number(THEORETICAL)
    return possible is not None and possible < 100.0 * LOW_THEORETICAL_SHARE


def raised_limit(limiter: str) -> str:
    """What raises the limit."""
    return _REMEDIES.get(limiter, "lower what one block needs")


def advice_to_raise(limiter: str) -> str:
    """The same as a sentence."""
    text = raised_limit(limiter)
    return f"{text[0].upper()}{text[1:]}."


@check
def theoretical_occupancy(kernel: KernelProfile) -> Iterator[KernelRuleResult]:
    """Whether the launch lets an SM hold at least 80 % of its warps."""
    warps = numbers(
        kernel, "smsp__maximum_warps_avg_per_active_cycle", "smsp__warps_active.avg.peak_sustained"
    )
    if warps is None or warps[1] <= 0:
        return
    possible, most = warps
    share = possible / most
    fired = share < LOW_THEORETICAL_SHARE
    named = limiters(kernel)
    percent, is_global = capped(kernel, 1 - share) if fired else (None, True)
    text = f"The launch lets a scheduler hold {possible:.0f} of {most:.0f} warps ({100 * share:.0f} %)."
    if fired and named:
        text += f" What limits it: {' and '.join(named)}; {'; '.join(raised_limit(each) for each in named)}."
    yield KernelRuleResult(
        "TheoreticalOccupancy",
        "Occupancy",
        fired,
        text,
        Category.LOW_OCCUPANCY,
        percent,
        is_global,
        ", ".join(named),
    )


@check
def achieved_occupancy(kernel: KernelProfile) -> Iterator[KernelRuleResult]:
    """Whether the SMs really held about as many warps as the launch allows."""
    measured = numbers(kernel, THEORETICAL, ACHIEVED)
    if measured is None or measured[0] <= 0:
        return
    possible, achieved = measured[0], min(measured[1], 100.0)
    fired = possible - achieved > FAR_FROM_THEORETICAL_POINTS
    percent, is_global = capped(kernel, (possible - achieved) / possible) if fired else (None, True)
    text = f"The SMs held {achieved:.0f} % of their warps on average; the launch allows {possible:.0f} %."
    if fired:
        text += " Blocks ended early or unevenly, came too slowly, or were too few."
    yield KernelRuleResult(
        "AchievedOccupancy", "Occupancy", fired, text, Category.LOW_OCCUPANCY, percent, is_global
    )


class Advice(StrEnum):
    """The four ways the occupancy decision can end, and two where there is nothing to decide."""

    RAISE_OCCUPANCY = "raise the occupancy"
    FIX_THE_STALL = "fix the stall"
    DONE = "done"
    LAUNCH_MORE_WORK = "launch more work"
    BY_DESIGN = "few warps by design"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do about a kernel's occupancy, and why in one or two sentences."""

    advice: Advice
    text: str
    occupancy_percent: float | None = None
    limiters: tuple[str, ...] = ()
    stall: str = ""


def occupancy_verdict(kernel: KernelProfile) -> Verdict:
    """The occupancy decision: occupancy only matters when warps stall and nothing else can be issued meanwhile."""
    measured = first_number(kernel, ACHIEVED, THEORETICAL)
    occupancy = None if measured is None else min(measured, 100.0)
    sol = speed_of_light(kernel)
    issued = kernel.number(ISSUE_ACTIVE)
    if occupancy is None or sol is None:
        lacking = "occupancy" if occupancy is None else "speed-of-light"
        return Verdict(Advice.UNKNOWN, f"The report has no {lacking} section.", occupancy)
    held = f"{occupancy:.0f} % occupancy"
    worst = _worst_stall(kernel)
    if sol.best >= LOW_PERCENT or (issued is not None and issued >= LOW_ISSUE):
        text = f"{held} is enough: the kernel keeps {sol.limiter} busy. More warps would not make it faster."
        if sol.best < LOW_PERCENT and active_share(kernel) < MOSTLY_ACTIVE:
            text = (
                f"The SMs work well while they work, but they are active only {100 * active_share(kernel):.0f} % of the"
                " time: there are too few blocks, or some run much longer than others."
            )
            return Verdict(Advice.LAUNCH_MORE_WORK, text, occupancy)
        if sol.best < LOW_PERCENT:
            active = f"{100 * active_share(kernel):.0f} % of the time"
            text = (
                f"{held} is enough: while an SM is active, {active}, its schedulers issue an instruction in "
                f"{100 * (issued or 0.0):.0f} % of the cycles."
            )
        return Verdict(Advice.DONE, text, occupancy, limiters(kernel))
    if not fills_the_gpu(kernel):
        text = "Many SMs get no block at all: a larger grid helps more than anything inside the kernel."
        return Verdict(Advice.LAUNCH_MORE_WORK, text, occupancy)
    if holds_all_blocks(kernel):
        return Verdict(Advice.LAUNCH_MORE_WORK, f"{held}: {_room_enough(kernel)}", occupancy)
    waiting = "" if worst is None else _waiting(worst)
    if occupancy < LOW_OCCUPANCY_PERCENT and is_warp_specialised(kernel):
        text = f"{held} is what kernels with asynchronous tensor-core instructions are built for."
        return Verdict(Advice.BY_DESIGN, text, occupancy, limiters(kernel), worst.reason if worst else "")
    if worst is None and not stalls(kernel):
        return _without_stalls(kernel, occupancy, held, issued)
    possible = kernel.number(THEORETICAL)
    has_room = (waves_of(kernel) or 1.0) < 1.0
    if has_room and occupancy < LOW_OCCUPANCY_PERCENT:
        text = f"{held}{f', while {waiting}' if waiting else ''}: {_room_enough(kernel)}"
        return Verdict(Advice.LAUNCH_MORE_WORK, text, occupancy, (), worst.reason if worst else "")
    if worst is None and possible is not None and possible < LOW_OCCUPANCY_PERCENT:
        named = limiters(kernel)
        because = f", limited by {' and '.join(named)}" if named else ""
        text = f"{held}{because}: the few warps take turns, and all of them often wait at once. More warps would help."
        return Verdict(Advice.RAISE_OCCUPANCY, text, occupancy, named)
    if worst is None:
        text = "No warp waits long and yet the units are idle: launch more threads, or give each thread more work."
        return Verdict(Advice.LAUNCH_MORE_WORK, text, occupancy)
    if occupancy >= LOW_OCCUPANCY_PERCENT:
        text = f"{held}, and still {waiting}: more warps will not hide it, remove the wait itself."
        return Verdict(Advice.FIX_THE_STALL, text, occupancy, (), worst.reason)
    reached = possible is not None and occupancy >= NEARLY_ALL * possible
    if possible is not None and possible >= LOW_OCCUPANCY_PERCENT and not reached:
        text = f"{held} although {possible:.0f} % would fit, while {waiting}: {_why_not_full(kernel)}."
        return Verdict(Advice.LAUNCH_MORE_WORK, text, occupancy, (), worst.reason)
    named = limiters(kernel)
    because = f", limited by {' and '.join(named)}" if named else ""
    text = f"{held}{because}, while {waiting}: more warps per SM would fill the time."
    return Verdict(Advice.RAISE_OCCUPANCY, text, occupancy, named, worst.reason)


def _room_enough(kernel: KernelProfile) -> str:
    return (
        f"the grid is only {100 * (waves_of(kernel) or 0.0):.0f} % of what the SMs can hold at once, so that room for "
        "more warps would stay empty. A larger grid helps more than anything inside the kernel."
    )


def _without_stalls(kernel: KernelProfile, occupancy: float, held: str, issued: float | None) -> Verdict:
    named = limiters(kernel)
    possible = kernel.number(THEORETICAL)
    if issued is None:
        text = "The report does not say what warps wait for: record it with --set full."
        if possible is not None and has_room_for_few(kernel) and named:
            text += (
                f" An SM holds only {possible:.0f} % of its warps, limited by {' and '.join(named)}: more would help "
                "if they wait for memory or for each other."
            )
        return Verdict(Advice.UNKNOWN, text, occupancy, named)
    waiting = f"the schedulers issue in only {100 * issued:.0f} % of the cycles"
    if possible is not None and possible < LOW_OCCUPANCY_PERCENT:
        because = f", limited by {' and '.join(named)}" if named else ""
        text = f"{held}{because}, while {waiting}: more warps per SM would fill the time."
        return Verdict(Advice.RAISE_OCCUPANCY, text, occupancy, named)
    text = f"{held}, and {waiting}; a report with warp states (--set full) says which stall it is."
    return Verdict(Advice.FIX_THE_STALL, text, occupancy)


def _waiting(stall: Stall) -> str:
    return f"warps wait {100 * stall.share:.0f} % of the time ({label_of(stall.reason)})"


def _why_not_full(kernel: KernelProfile) -> str:
    waves = waves_of(kernel)
    if waves is not None and waves < 1:
        return f"the grid is only {100 * waves:.0f} % of what the SMs can hold at once"
    if waves is not None and waves >= MANY_WAVES:
        return "the blocks end so soon that the SMs wait for new ones; give each thread more work"
    return "some blocks end much later than others"


def is_warp_specialised(kernel: KernelProfile) -> bool:
    """Whether the kernel feeds the tensor cores asynchronously, which needs few warps."""
    metrics = (
        "sm__inst_executed_pipe_tensor_op_gmma.avg.pct_of_peak_sustained_active",
        "sm__inst_executed_pipe_tensor_op_gmma.avg.pct_of_peak_sustained_elapsed",
        "sm__inst_executed_pipe_tma.avg.pct_of_peak_sustained_active",
        "smsp__average_warps_issue_stalled_gmma_per_issue_active.ratio",
    )
    measured = any((kernel.number(metric) or 0.0) > 0.1 for metric in metrics)
    return measured or _ASYNCHRONOUS.search(kernel.name) is not None


_HARMLESS = frozenset({"selected", "not_selected"})


def _worst_stall(kernel: KernelProfile) -> Stall | None:
    waits = [each for each in stalls(kernel) if each.reason not in _HARMLESS]
    return waits[0] if waits and waits[0].share > 0.2 else None
