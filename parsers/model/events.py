"""The event table: equal columns, ordered so that a window is two binary searches; and which event launched which."""

from __future__ import annotations

from dataclasses import field

import numpy as np

from parsers.model.arrays import BOOL, I32, I64, U8, place_if_there, stable_order
from parsers.model.late import dataclass

COLUMNS: dict[str, type[np.integer]] = {
    "start": np.int64,
    "end": np.int64,
    "name": np.int32,
    "lane": np.int32,
    "depth": np.int32,
    "kind": np.uint8,
    "source_row": np.int64,
}


@dataclass(frozen=True, slots=True, eq=False)
class EventTable:
    """Columns of equal length; times are int64 ns counted from the trace start.

    Sorted by (lane, depth, start); events of one row (lane, depth) never overlap, touching is allowed.
    The constructor checks both promises and makes the arrays read-only.
    """

    start: I64
    end: I64
    name: I32  # index into Trace.strings
    lane: I32  # index into Trace.lanes
    depth: I32
    kind: U8  # EventKind
    source_row: I64  # where the parser can find the event's arguments; -1: nowhere
    _rows: dict[tuple[int, int], slice] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        count = len(self.start)
        columns = (self.end, self.name, self.lane, self.depth, self.kind, self.source_row)
        if any(len(column) != count for column in columns):
            raise ValueError("event columns differ in length")
        if np.any(self.end < self.start):
            raise ValueError("an event ends before it starts")
        boundary = np.flatnonzero((np.diff(self.lane) != 0) | (np.diff(self.depth) != 0)) + 1
        firsts = np.concatenate(([0], boundary)) if count else np.empty(0, np.int64)
        lasts = np.append(firsts[1:], count).astype(np.int64) if count else np.empty(0, np.int64)
        same_row = np.ones(max(count - 1, 0), bool)
        same_row[boundary - 1] = False
        if np.any(same_row & (self.start[1:] < self.end[:-1])):
            raise ValueError("events of one row overlap")
        key = self.lane[firsts].astype(np.int64) << 32 | self.depth[firsts].astype(np.int64)
        if np.any(np.diff(key) <= 0):
            raise ValueError("events are not sorted by lane, depth and start")
        for column in (self.start, *columns):
            column.flags.writeable = False
        rows = {
            (int(self.lane[first]), int(self.depth[first])): slice(int(first), int(last))
            for first, last in zip(firsts, lasts, strict=True)
        }
        object.__setattr__(self, "_rows", rows)

    def __len__(self) -> int:
        return len(self.start)

    @property
    def duration(self) -> I64:
        """``end - start`` of every event, ns."""
        return self.end - self.start

    def spans(self, events: I64 | slice) -> tuple[I64, I64]:
        return self.start[events], self.end[events]

    def by_start(self, events: I64) -> I64:
        """The same events in the order in which they start, in which most come already."""
        order = stable_order(self.start[events])
        return events if order is None else events[order]

    def rows(self, lane: int) -> dict[int, slice]:
        """depth -> slice of events, of one lane."""
        found: dict[int, slice] = {}
        depth = 0
        while (row := self._rows.get((lane, depth))) is not None:
            found[depth] = row
            depth += 1
        return found

    def lane_slice(self, lane: int) -> slice:
        """All events of one lane (they are contiguous)."""
        return slice(
            int(np.searchsorted(self.lane, np.int32(lane), side="left")),
            int(np.searchsorted(self.lane, np.int32(lane), side="right")),
        )

    def window(self, lane: int, depth: int, t0: int, t1: int) -> slice:
        """The part of one row that touches [t0, t1)."""
        row = self._rows.get((lane, depth), slice(0, 0))
        low = row.start + int(np.searchsorted(self.end[row], t0, side="right"))
        high = row.start + int(np.searchsorted(self.start[row], t1, side="left"))
        return slice(low, max(low, high))

    def marked(self, events: I64) -> BOOL:
        """Of each event of the table, whether it is one of these."""
        found = np.zeros(len(self), bool)
        found[events] = True
        return found

    def of_kind(self, *kinds: int) -> I64:
        """Indices of the events of these kinds, in table order."""
        return of_kinds(self.kind, *kinds).nonzero()[0]

    def only(self, events: I64, *kinds: int) -> I64:
        """Those of some events that are of these kinds."""
        return np.asarray(events[of_kinds(self.kind[events], *kinds)])


def of_kinds(kind: U8 | I64, first: int, *others: int) -> BOOL:
    """Which of a column of small numbers are one of these: compared with each, far quicker than looked up.

    Numpy asks a member of an enumeration for much that it does not have: comparing with its number is quicker, too.
    """
    found = np.asarray(kind == int(first))
    for each in others:
        found |= kind == int(each)
    return found


_EMPTY = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """Pairs of event indices, sorted by ``operation``: each GPU operation has at most one launch.

    One launch may have many operations (a CUDA graph).
    """

    operation: I64
    launch: I64

    @staticmethod
    def empty() -> Links:
        return Links(_EMPTY, _EMPTY)

    @staticmethod
    def of(operation: I64, launch: I64) -> Links:
        order = np.argsort(operation, kind="stable")
        return Links(operation[order], launch[order])

    def launch_of(self, operations: I64) -> I64:
        """The launch event of each operation; -1 where none was recorded."""
        if not len(self.operation):
            return np.full(len(operations), -1, np.int64)
        place = place_if_there(operations, self.operation)
        return np.where(self.operation[place] == operations, self.launch[place], -1)

    def operations_of(self, launch: int) -> I64:
        """The GPU operations that one launch started, in event order."""
        started: I64 = self.operation[self.launch == launch]
        return started
