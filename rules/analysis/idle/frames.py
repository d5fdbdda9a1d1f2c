"""Which Python frame of the user's own code a thread was in."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from parsers.model import I64, EventKind, Trace
from parsers.model.arrays import rows_by
from parsers.model.events import of_kinds
from parsers.model.late import dataclass, regex
from rules.analysis.arithmetic.ascending_search import last_not_after
from rules.analysis.arithmetic.intervals import Intervals, measure
from rules.analysis.idle.threads import Threads

MIN_FRAME_SHARE = 0.8
_FOREIGN_FRAME = regex(
    r"^(<built-in|nn\.Module|torch[./\\]|.*[/\\]torch[/\\]|threading\.py|.*[/\\](site|dist)-packages[/\\]torch|"
    r"contextlib\.py|.*[/\\]contextlib\.py|<string>|<frozen|runpy|.*importlib)"
)


def is_users_frame(name: str) -> bool:
    """Whether a frame is neither PyTorch's nor Python's own."""
    return not _FOREIGN_FRAME.match(name)


@dataclass(frozen=True, slots=True, eq=False)
class UserFrames:
    """The user's own frames of one thread, one column of events by start for each depth; none without stacks."""

    trace: Trace
    rows: tuple[tuple[I64, I64], ...]  # events, and their starts

    @staticmethod
    def of(
        threads: Threads,
        thread: int,
        is_own: Callable[[str], bool] = is_users_frame,
        kinds: tuple[EventKind, ...] = (EventKind.PYTHON,),
    ) -> UserFrames:
        """The frames of a thread whose names ``is_own`` accepts: those that are neither PyTorch's nor Python's own."""
        trace, table = threads.trace, threads.trace.events
        events = threads.events(thread)
        frames = events[of_kinds(table.kind[events], *kinds)]
        if not len(frames):
            return UserFrames(trace, ())
        distinct, inverse = np.unique(table.name[frames], return_inverse=True)
        own = np.fromiter((is_own(trace.strings[name]) for name in distinct), bool, len(distinct))
        frames = frames[own[inverse]]
        rows = [frames[which] for _, which in rows_by(table.depth[frames])]
        rows = [table.by_start(row) for row in rows]
        return UserFrames(trace, tuple((row, table.start[row]) for row in rows))

    def around(self, start: I64, end: I64) -> I64:
        """The deepest frame around most of each interval; -1 where there is none."""
        table = self.trace.events
        found = np.full(len(start), -1, np.int64)
        for row, starts in self.rows if len(start) else ():
            frame = row[np.maximum(last_not_after(starts, (start + end) // 2), 0)]
            shared = np.minimum(table.end[frame], end) - np.maximum(table.start[frame], start)
            through = shared >= MIN_FRAME_SHARE * (end - start)
            found[through] = frame[through]
        return found

    def holding(self, stretches: Intervals) -> list[int]:
        """From the outermost depth in: a frame of the name that holds most of some stretches, where one does."""
        table, found = self.trace.events, []
        begin, end = stretches
        for row, starts in self.rows if len(begin) else ():
            low = max(int(np.searchsorted(starts, begin[0], side="right")) - 1, 0)
            frames = row[low : int(np.searchsorted(starts, end[-1]))]
            if not len(frames):
                continue
            held = measure(stretches, *table.spans(frames))
            _, first, which = np.unique(table.name[frames], return_index=True, return_inverse=True)
            shared = np.bincount(which, held)
            most = int(shared.argmax())
            if shared[most] >= MIN_FRAME_SHARE * (end - begin).sum():
                found.append(int(frames[first[most]]))
        return found
