"""What a program loses in pauses of a kind, and pauses that only a few of its steps hold."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from parsers.model import I64
from parsers.model.arrays import median_of
from parsers.model.late import dataclass
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, clip, intersect, length, measure, union
from rules.analysis.cpu.cpu_time import CpuTime, cpu_time
from rules.losses.lost_time import Extent, extent
from rules.terms import MAJORITY, NEARLY_ALL


@dataclass(frozen=True, slots=True, eq=False)
class Pause:
    """The pauses of one thread: when a GPU idles meanwhile, or all of them in a program without one (``device`` -1)."""

    analysis: Analysis
    thread: int
    device: int
    intervals: Intervals

    @property
    def ns(self) -> int:
        return length(self.intervals)

    @property
    def extent(self) -> Extent:
        return extent(self.analysis, self.intervals, self.device)


def longest_pause(analysis: Analysis, of: Callable[[int], Intervals]) -> Pause | None:
    """The thread whose pauses, ``of`` a thread in ns, cost most; None where no thread has any."""
    if (alone := cpu_time(analysis)) is not None:
        found = Pause(analysis, alone.thread, -1, clip(of(alone.thread), *alone.window))
        return found if alone.is_all and found.ns else None
    best: Pause | None = None
    idle = analysis.idle
    for device in analysis.active_devices:
        paused = {thread: of(thread) for thread in analysis.threads.drivers(device)[0]}
        if not any(len(start) for start, _ in paused.values()):
            continue
        mine = idle.device == device
        waits = clip(union(idle.start[mine], idle.end[mine]), *analysis.window)
        for thread, pauses in paused.items():
            found = Pause(analysis, thread, device, intersect(pauses, waits))
            if found.ns > (best.ns if best is not None else 0):
                best = found
    return best


MIN_STEPS = 3  # of two, nobody knows which one is usual
MORE = 2.0  # times the median step has of a loss: less is what steps differ by


def few_of_steps(time: CpuTime, lost: Intervals) -> tuple[int, int]:
    """How few of how many steps hold nearly all of a loss, given as disjoint intervals; 0 where most share it."""
    of_step = measure(lost, *_steps(time))
    largest = np.cumsum(np.sort(of_step)[::-1])
    if len(of_step) < MIN_STEPS or not largest[-1]:
        return 0, len(of_step)
    few = int(np.searchsorted(largest, NEARLY_ALL * largest[-1])) + 1
    return few if few <= MAJORITY * len(of_step) else 0, len(of_step)


def rare_pauses(time: CpuTime, lost: Intervals) -> tuple[Intervals, Intervals]:
    """The longest intervals of the few steps that lose far more than the median one, and all others.

    As many of such a step as make it lose what the median one does.
    """
    begins, ends = _steps(time)
    of_step = measure(lost, begins, ends)
    start, end = lost
    rare = np.zeros(len(start), bool)
    usual = float(median_of(of_step)) if len(of_step) >= MIN_STEPS else np.inf
    for step in np.flatnonzero(of_step > MORE * usual).tolist():
        mine = np.flatnonzero((start < ends[step]) & (end > begins[step]))
        took = np.minimum(end[mine], ends[step]) - np.maximum(start[mine], begins[step])
        longest = np.argsort(-took, kind="stable")
        left = of_step[step] - np.cumsum(took[longest])
        rare[mine[longest[: int(np.count_nonzero(left > usual)) + 1]]] = True
    return (start[rare], end[rare]), (start[~rare], end[~rare])


def _steps(time: CpuTime) -> tuple[I64, I64]:
    """When the steady steps of the thread's rank begin and end."""
    rank = time.analysis.threads.keys[time.thread][0]
    steps = [each for each in time.analysis.steady_steps if each.rank is None or each.rank == rank]
    begins, ends = (
        np.array(each, np.int64) for each in ([of.start for of in steps], [of.end for of in steps])
    )
    return begins, ends
