"""Names what kept a GPU idle: region, operator, API call or Python frame, in a reader's words."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from parsers.model import Trace
from rules.analysis.facts.host_language import is_python
from rules.analysis.idle.causes import Cause
from rules.analysis.idle.frames import UserFrames
from rules.analysis.idle.threads import Threads

I64 = npt.NDArray[np.int64]

OUTSIDE_REGIONS = "outside any region"
LONGEST_NAME = 300  # characters of a culprit in a sentence
_VERSION = re.compile(r"(_ptsz|_ptds|_v\d+|_spt)+$")

_NAME_BITS = 29
_CAUSE_BIT = 2 * _NAME_BITS


def _unpacked(key: int) -> tuple[int, int, int]:
    """Cause, and the names (or -1) of culprit and place, out of one number."""
    mask = (1 << _NAME_BITS) - 1
    return key >> _CAUSE_BIT, (key >> _NAME_BITS & mask) - 1, (key & mask) - 1


class Culprits:
    """Interns culprit names; an index stands for a name."""

    def __init__(self, trace: Trace, threads: Threads) -> None:
        self._trace = trace
        self._threads = threads
        self._index: dict[str, int] = {}
        self._of_keys: dict[int, int] = {}
        self._frames: dict[int, UserFrames] = {}
        self._outside = f"{'Python' if is_python(trace) else 'CPU code'} {OUTSIDE_REGIONS}"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._index)

    def in_order(self) -> tuple[tuple[str, ...], npt.NDArray[np.int32]]:
        """The names in an order that does not depend on which was met first, and the place there of each index."""
        by_cause = [self._of_keys[key] for key in sorted(self._of_keys)]
        order = list(dict.fromkeys((*by_cause, *range(len(self._index)))))
        place = np.empty(len(order), np.int32)
        place[order] = np.arange(len(order))
        names = self.names
        return tuple(names[index] for index in order), place

    def named(self, text: str) -> int:
        """The index of a name."""
        return self._index.setdefault(text, len(self._index))

    def of(
        self,
        cause: npt.NDArray[np.uint8],
        event: I64,
        call: I64,
        region: I64,
        operator: I64,
        start: I64,
        end: I64,
        main: int,
    ) -> npt.NDArray[np.int32]:
        """The culprit of each piece of idle time, given the innermost events of each sort (-1: none)."""
        where = region.copy()
        if main not in self._frames:
            self._frames[main] = UserFrames.of(self._threads, main)
        frames = self._frames[main]
        host = np.flatnonzero((cause == Cause.HOST) & (region < 0) & (event < 0))
        where[host] = frames.around(start[host], end[host])
        blocks = (cause == Cause.SYNCHRONIZATION) | (cause == Cause.ALLOCATOR)
        blocked = np.flatnonzero(blocks & (region < 0) & (event >= 0))
        where[blocked] = self._callers(event[blocked], cause[blocked], frames)
        bare = np.flatnonzero((where < 0) & ((cause == Cause.HOST) | (cause == Cause.LAUNCH)))
        where[bare] = self._threads.activity(main).regions.at(start[bare])
        bare = bare[where[bare] < 0]
        where[bare] = operator[bare]
        names = self._trace.events.name

        def name(events: I64) -> I64:
            return np.where(events < 0, np.int64(-1), names[np.maximum(events, 0)])

        key = (cause.astype(np.int64) << _CAUSE_BIT) + ((name(event) + 1) << _NAME_BITS) + name(where) + 1
        distinct, inverse = np.unique(key, return_inverse=True)
        return np.array([self._of_key(each) for each in distinct.tolist()], np.int32)[inverse]

    def _of_key(self, key: int) -> int:
        if key not in self._of_keys:
            self._of_keys[key] = self.named(self._text(*_unpacked(key)))
        return self._of_keys[key]

    def _callers(self, calls: I64, cause: npt.NDArray[np.uint8], frames: UserFrames) -> I64:
        """The Python frame around each blocking call, else its operator: any operator may allocate."""
        table = self._trace.events
        distinct, inverse = np.unique(calls, return_inverse=True)
        frame = frames.around(table.start[distinct], table.end[distinct])
        operator = np.full(len(distinct), -1, np.int64)
        thread = self._threads.of_events(distinct)
        for number in np.unique(thread[thread >= 0]).tolist():
            mine = thread == number
            operator[mine] = self._threads.activity(number).operators.at(table.start[distinct[mine]])
        frame, operator = frame[inverse], operator[inverse]
        return np.where((frame < 0) & (cause == Cause.SYNCHRONIZATION), operator, frame)

    def _text(self, cause: int, event: int, where: int) -> str:
        place = self._name(where)
        what = self._name(event)
        if cause == Cause.INPUT:
            return what
        if cause in (Cause.SYNCHRONIZATION, Cause.ALLOCATOR):
            return f"{what} in {place}" if place and place != what else what or place or self._outside
        if cause == Cause.HOST and what and what != place:
            return f"{what} in {place}" if place else what
        return place or self._outside

    def _name(self, string: int) -> str:
        text = _VERSION.sub("", self._trace.strings[string]) if string >= 0 else ""
        return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"
