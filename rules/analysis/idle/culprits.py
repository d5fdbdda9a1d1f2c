"""Finds out what kept a GPU idle: region, operator, API call or Python frame."""

from __future__ import annotations

from dataclasses import replace
from threading import RLock

import numpy as np

from parsers.model import I32, I64, U8, EventKind, Trace
from parsers.model.arrays import numbered_values, per_value
from parsers.model.events import of_kinds
from parsers.model.late import regex
from parsers.model.names.steps import engine_step
from rules.analysis.idle.causes import Cause
from rules.analysis.idle.threads import Threads, UserFrames
from rules.analysis.names.host_language import is_python
from rules.terms import Culprit, CulpritKind

MAX_NAME_LENGTH = 300  # characters of a culprit in a sentence
_VERSION = regex(r"(_ptsz|_ptds|_v\d+|_spt){1,4}$")

_KINDS = {
    EventKind.API: CulpritKind.CALL,
    EventKind.CPU_OP: CulpritKind.OPERATOR,
    EventKind.PYTHON: CulpritKind.FRAME,
}
_KIND_BITS = 5
_SIDE_BITS = _KIND_BITS + 25  # a kind and a name: culprit, place and cause make one number


class Culprits:
    """Interns culprits; an index stands for one. ``main`` is the main thread, -1 for none.

    Several threads of this program may ask at once.
    """

    def __init__(self, trace: Trace, threads: Threads, main: int) -> None:
        self._trace = trace
        self._threads = threads
        self._main = main
        self._frames = UserFrames.of(threads, main) if main >= 0 else UserFrames(trace, ())
        self._index: dict[Culprit, int] = {}
        self._of_keys: dict[int, int] = {}
        self._one_at_a_time = RLock()
        self._code = "Python" if is_python(trace) else "CPU code"
        self._outside = Culprit(CulpritKind.OUTSIDE, f"{self._code} outside any region")

    @property
    def found(self) -> tuple[Culprit, ...]:
        return tuple(self._index)

    def in_order(self) -> tuple[tuple[Culprit, ...], I32]:
        """The culprits in an order that does not depend on which was met first, and the place there of each index."""
        by_cause = [self._of_keys[key] for key in sorted(self._of_keys)]
        order = list(dict.fromkeys((*by_cause, *range(len(self._index)))))
        place = np.empty(len(order), np.int32)
        place[order] = np.arange(len(order))
        found = self.found
        return tuple(found[index] for index in order), place

    def index_of(self, culprit: Culprit) -> int:
        with self._one_at_a_time:
            return self._index.setdefault(culprit, len(self._index))

    def of(self, cause: U8, event: I64, call: I64, region: I64, operator: I64, start: I64, end: I64) -> I32:
        """The culprit of each piece of idle time, given the innermost events of each sort (-1: none)."""
        where, main = region.copy(), self._threads.activity(self._main)
        host = np.flatnonzero(of_kinds(cause, Cause.HOST) & (region < 0) & (event < 0))
        where[host] = self._frames.around(start[host], end[host])
        blocks = of_kinds(cause, Cause.SYNCHRONIZATION, Cause.ALLOCATOR)
        blocked = np.flatnonzero(blocks & (region < 0) & (event >= 0))
        where[blocked] = self._callers(event[blocked], cause[blocked])
        bare = np.flatnonzero((where < 0) & (of_kinds(cause, Cause.HOST, Cause.LAUNCH)))
        where[bare] = main.regions.at(start[bare])
        bare = bare[where[bare] < 0]
        where[bare] = operator[bare]
        bare = bare[(where[bare] < 0) & (event[bare] < 0)]
        where[bare] = main.engine_steps.at(start[bare])
        table = self._trace.events

        def packed(events: I64) -> I64:
            known = np.maximum(events, 0)
            kind, name = table.kind[known].astype(np.int64), table.name[known].astype(np.int64) + 1
            return np.where(events < 0, 0, name << _KIND_BITS | kind)

        key = cause.astype(np.int64) << 2 * _SIDE_BITS | packed(event) << _SIDE_BITS | packed(where)
        return per_value(key, self._of_key, np.int32)

    def _of_key(self, key: int) -> int:
        with self._one_at_a_time:
            if key not in self._of_keys:
                side = (1 << _SIDE_BITS) - 1
                what, place = self._named(key >> _SIDE_BITS & side), self._named(key & side)
                self._of_keys[key] = self.index_of(self._culprit(key >> 2 * _SIDE_BITS, what, place))
            return self._of_keys[key]

    def _callers(self, calls: I64, cause: U8) -> I64:
        """The Python frame around each blocking call, else its operator: any operator may allocate."""
        table = self._trace.events
        distinct, inverse = numbered_values(calls)
        frame = self._frames.around(*table.spans(distinct))
        operator = np.full(len(distinct), -1, np.int64)
        for activity, mine in self._threads.by_thread(distinct):
            operator[mine] = activity.operators.at(table.start[distinct[mine]])
        frame, operator = frame[inverse], operator[inverse]
        return np.where((frame < 0) & of_kinds(cause, Cause.SYNCHRONIZATION), operator, frame)

    def _culprit(self, cause: int, what: Culprit | None, place: Culprit | None) -> Culprit:
        if cause == Cause.INPUT and what is not None:
            return what
        if what is None and place is not None and (step := engine_step(place.name)):
            return Culprit(CulpritKind.OUTSIDE, f"{self._code} inside {step}s")
        blocks = cause in (Cause.SYNCHRONIZATION, Cause.ALLOCATOR)
        if what is None or not (blocks or cause == Cause.HOST) or (place and place.name == what.name):
            return (what if blocks else None) or place or self._outside
        return replace(what, place=place)

    def _named(self, packed: int) -> Culprit | None:
        """The culprit that an event's name and kind make; None for no event (0), and for one without a name."""
        if not packed:
            return None
        name, kind = self._trace.strings[(packed >> _KIND_BITS) - 1], packed & (1 << _KIND_BITS) - 1
        if kind == EventKind.API:
            name = _VERSION.sub("", name)
        name = name if len(name) <= MAX_NAME_LENGTH else f"{name[: MAX_NAME_LENGTH - 1]}…"
        return Culprit(_KINDS.get(EventKind(kind), CulpritKind.REGION), name) if name else None
