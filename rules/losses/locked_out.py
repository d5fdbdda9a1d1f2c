"""How much of some idle time the launching threads waited for Python's lock."""

from __future__ import annotations

from parsers.model.late import dataclass
from parsers.model.units import percent
from rules.analysis.arithmetic.intervals import intersect, length, union
from rules.analysis.cpu.lock_waits import busiest_frame, lock_waits
from rules.losses.lost_time import IdleTime
from rules.wording.words import shortened

WORTH_A_WORD, MAJORITY = 0.2, 0.5  # of the idle time


@dataclass(frozen=True, slots=True)
class LockedOut:
    """How much of some idle time the launching threads waited for Python's lock, and the frame that others were in."""

    share: float
    frame: str

    @property
    def text(self) -> str:
        """A sentence that follows others; empty where the lock is not the matter."""
        if self.share < WORTH_A_WORD:
            return ""
        whose = f" of {self.frame}" if self.frame else ""
        return (
            f" For {percent(self.share)} of this time other threads hold the GIL: start with the work{whose}."
        )

    @property
    def is_most(self) -> bool:
        return self.share >= MAJORITY


def locked_out(waiting: IdleTime) -> LockedOut:
    """The same for one cause of idle time on the worst GPU."""
    analysis, (starts, ends) = waiting.analysis, waiting.intervals
    drivers = tuple(analysis.threads.drivers(waiting.device)[0])
    whole = int((ends - starts).sum())
    if not drivers or not whole:
        return LockedOut(0.0, "")
    waits = intersect(lock_waits(analysis, drivers), union(starts, ends))
    return LockedOut(length(waits) / whole, shortened(busiest_frame(analysis, drivers, waits)))
