"""What the waiting thread was in while a GPU idled, and how much of it waited for Python's lock."""

from __future__ import annotations

import numpy as np

from parsers.model import EventKind
from parsers.model.late import dataclass
from parsers.model.units import percent
from rules.analysis.arithmetic.intervals import contains, intersect, length, measure, union
from rules.analysis.cpu.interruptions import busiest_frame, lock_waits
from rules.analysis.idle.culprits import MAX_NAME_LENGTH
from rules.analysis.idle.threads import is_users_frame
from rules.analysis.stretches.program_frames import is_library_call
from rules.losses.lost_time import IdleTime
from rules.wording.words import listed, shortened

MAJORITY = 0.6  # of the idle time: then the frame says what it is
MIN_SAMPLES = 20
MIN_SHARE = 0.03  # of the samples
MAX_NAMED = 3


@dataclass(frozen=True, slots=True)
class Beneath:
    """``frame``: the deepest function of Python that holds most of the time; ``samples``: functions met most often.

    ``call`` is what that function calls in a library for most of the time; ``share`` is that of the call, or the frame.
    """

    frame: str = ""
    call: str = ""
    share: float = 0.0
    samples: tuple[tuple[str, float], ...] = ()

    @property
    def text(self) -> str:
        """A sentence that follows others; empty where the recording has neither."""
        if self.frame:
            what = f"{self.call} in {self.frame}" if self.call else self.frame
            return f" {percent(self.share)} of this time is {what}."
        if self.samples:
            met = listed([f"{name} ({percent(part)})" for name, part in self.samples])
            return f" CPU samples in that time: {met}."
        return ""

    def __bool__(self) -> bool:
        return bool(self.frame or self.samples)


def beneath(waiting: IdleTime) -> Beneath:
    """What lies beneath one cause of idle time on the thread that drives the worst GPU."""
    analysis = waiting.analysis
    trace, table = analysis.trace, analysis.trace.events
    main = analysis.threads.drivers(waiting.device)[1]
    starts, ends = waiting.intervals
    whole = int((ends - starts).sum())
    if main < 0 or not whole:
        return Beneath()
    events = analysis.threads.events(main)
    frames = table.only(events, EventKind.PYTHON)
    if len(frames):
        names = table.name[frames]
        spent = np.bincount(names, measure(waiting.intervals, *table.spans(frames)))
        depth = np.bincount(names, table.depth[frames]) / np.maximum(np.bincount(names), 1)
        most = [name for name in np.flatnonzero(spent >= MAJORITY * whole).tolist() if spent[name] <= whole]
        held = [name for name in most if is_users_frame(trace.strings[name])]
        if held:
            deepest = max(held, key=lambda name: depth[name])
            inside = [
                name for name in most if depth[name] > depth[deepest] and is_library_call(trace.strings[name])
            ]
            called = min(inside, key=lambda name: depth[name], default=-1)
            frame, call = (
                shortened(trace.strings[name], MAX_NAME_LENGTH) if name >= 0 else ""
                for name in (deepest, called)
            )
            return Beneath(frame, call, float(spent[called if call else deepest]) / whole)
    samples = table.only(events, EventKind.SAMPLE)
    samples = samples[contains(waiting.intervals, table.start[samples])]
    if len(samples) < MIN_SAMPLES:
        return Beneath()
    counts = np.bincount(table.name[samples])
    known = [
        name
        for name in np.argsort(-counts, kind="stable")[: 10 * MAX_NAMED].tolist()
        if counts[name] >= MIN_SHARE * len(samples) and not trace.strings[name].startswith("0x")
    ]
    return Beneath(
        samples=tuple(
            (shortened(trace.strings[name], MAX_NAME_LENGTH), float(counts[name]) / len(samples))
            for name in known[:MAX_NAMED]
        )
    )


WORTH_A_WORD, MOST = 0.2, 0.5  # of the idle time


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
        return self.share >= MOST


def locked_out(waiting: IdleTime) -> LockedOut:
    """The same for one cause of idle time on the worst GPU."""
    analysis, (starts, ends) = waiting.analysis, waiting.intervals
    drivers = tuple(analysis.threads.drivers(waiting.device)[0])
    whole = int((ends - starts).sum())
    if not drivers or not whole:
        return LockedOut(0.0, "")
    waits = intersect(lock_waits(analysis, drivers), union(starts, ends))
    return LockedOut(length(waits) / whole, shortened(busiest_frame(analysis, drivers, waits)))
