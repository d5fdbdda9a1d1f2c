"""What a program loses while one of its threads is in a pause of a kind, such as a collection of garbage."""

from __future__ import annotations

from collections.abc import Callable

from parsers.model.late import dataclass
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, clip, intersect, length, union
from rules.analysis.cpu.cpu_time import cpu_time
from rules.losses.lost_time import Extent, extent


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
