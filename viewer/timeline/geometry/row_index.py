"""The level-of-detail index of a row of events, made once while a recording is opened.

A row is one (lane, depth) of the event table: sorted and free of overlap. Long rows get three small arrays:

* a clock: for equally spaced times, how many events began and how much time they took (about 2 bytes an event),
* the time spent before every ``BLOCK`` events (0.5 bytes),
* a pyramid: one event for every aligned run of 8, 16, 32 ... events, of the name with the most time in it (1 byte).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import combinations

import numpy as np

from parsers.model import I32, I64, U32, EventTable
from parsers.model.late import dataclass

SHORT = 2048  # rows of fewer events need no index
BLOCK = 16
FINEST = 3  # the pyramid's lowest level holds one entry for 2**FINEST events
EVENTS_A_CELL = 4  # of the clock, on average
_RUNS_AT_ONCE = 1 << 12  # their sums stay in the processor's cache
MIN_CELLS = 4096  # of the clock, so that a whole run fits a screen at two cells a column


@dataclass(frozen=True, slots=True, eq=False)
class Clock:
    """Equally spaced times: edge ``i`` lies ``i * cell`` ns after ``origin``.

    ``begun`` is how many events began before an edge, ``busy`` the time they took up to it in units of ``quantum`` ns.
    """

    origin: int
    cell: int
    begun: I32
    busy: U32
    quantum: float


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """Views of one row of the event table, and its index; offsets count from ``first``."""

    first: int
    start: I64
    end: I64
    name: I32
    clock: Clock | None = None
    block_busy: I64 | None = None  # ns before each block, one more than there are blocks
    dominant: I32 | None = None  # offsets of representative events, level after level
    level: I64 | None = None  # where each level begins in ``dominant``

    def __len__(self) -> int:
        return len(self.start)

    @property
    def index_bytes(self) -> int:
        clock = 0 if self.clock is None else self.clock.begun.nbytes + self.clock.busy.nbytes
        return clock + sum(each.nbytes for each in (self.block_busy, self.dominant) if each is not None)

    def window(self, t0: float, t1: float) -> tuple[int, int]:
        """Offsets [low, high) of the events that touch [t0, t1]."""
        low = int(self.end.searchsorted(math.floor(t0), side="left"))
        high = int(self.start.searchsorted(math.ceil(t1), side="right"))
        return low, max(low, high)


def row_index(start: I64, end: I64, name: I32, first: int = 0) -> Row:
    """Index one row; its arrays must stay unchanged afterwards."""
    if len(start) < SHORT:
        return Row(first, start, end, name)
    duration = end - start
    spent = np.concatenate((np.zeros(1, np.int64), np.cumsum(duration)))
    block_busy = np.append(spent[:-1:BLOCK], spent[-1])
    dominant, level = _pyramid(duration, name)
    return Row(first, start, end, name, _clock(start, end, spent), block_busy, dominant, level)


def lane_rows(events: EventTable, lane: int) -> list[Row]:
    """The indexed rows of one lane, outermost first."""
    return [
        row_index(*events.spans(part), events.name[part], part.start)
        for _, part in sorted(events.rows(lane).items())
    ]


def _clock(start: I64, end: I64, spent: I64) -> Clock:
    origin = int(start[0])
    cells = max(len(start) // EVENTS_A_CELL, MIN_CELLS)
    cell = max(-(-(int(end[-1]) - origin) // cells), 1)
    edges = origin + np.arange(cells + 1, dtype=np.int64) * cell
    begun = np.searchsorted(start, edges, side="left")
    last = np.maximum(begun - 1, 0)
    over = np.where(begun > 0, np.maximum(end[last] - edges, 0), 0)
    busy = spent[begun] - over
    quantum = max(float(busy[-1]) / (2**32 - 2), 1e-9)
    return Clock(origin, cell, begun.astype(np.int32), (busy / quantum).astype(np.uint32), quantum)


def _pyramid(duration: I64, name: I32) -> tuple[I32, I64]:
    """For every aligned run of 8, 16 ... events one event of the name with the most time; levels one after another."""
    size = 1 << FINEST
    blocks = -(-len(name) // size)
    chosen, weight = np.empty(blocks, np.int64), np.empty(blocks, np.int64)
    for first in range(0, blocks, _RUNS_AT_ONCE):
        part = slice(first * size, (first + _RUNS_AT_ONCE) * size)
        runs = slice(first, first + _RUNS_AT_ONCE)
        best, weight[runs] = _heaviest(*_runs(duration[part], name[part], size))
        chosen[runs] = np.arange(first, first + len(best)) * size + best
    levels = [chosen.astype(np.int32)]
    while len(chosen) > 1:
        chosen, weight = _merged(chosen, weight, name)
        levels.append(chosen.astype(np.int32))
    begins = np.cumsum([0, *(len(level) for level in levels[:-1])]).astype(np.int64)
    return np.concatenate(levels), begins


def _runs(duration: I64, name: I32, size: int) -> tuple[I64, I32]:
    """Time and name of the first, second ... events of aligned runs; -1 is the name of what is behind the last one."""
    runs = -(-len(name) // size)
    time, label = np.zeros(runs * size, np.int64), np.full(runs * size, -1, np.int32)
    time[: len(name)], label[: len(name)] = duration, name
    return np.ascontiguousarray(time.reshape(runs, size).T), np.ascontiguousarray(label.reshape(runs, size).T)


def _heaviest(time: I64, label: I32) -> tuple[I64, I64]:
    """Which event of each run is the first one of the name with the most time, and that time."""
    total = time.copy()
    for one, other in combinations(range(len(time)), 2):
        same = label[one] == label[other]
        total[one] += time[other] * same
        total[other] += time[one] * same
    total[label < 0] = -1
    best, weight = np.zeros(time.shape[1], np.int64), total[0]
    for index in range(1, len(time)):
        best = np.where(total[index] > weight, index, best)
        weight = np.maximum(weight, total[index])
    return best, weight


def _merged(chosen: I64, weight: I64, name: I32) -> tuple[I64, I64]:
    """Pairs joined into one: the same name adds up, of two names the heavier stays with what it is ahead."""
    if len(chosen) % 2:
        chosen, weight = np.append(chosen, chosen[-1]), np.append(weight, 0)
    one, other = chosen[0::2], chosen[1::2]
    one_weight, other_weight = weight[0::2], weight[1::2]
    same = name[one] == name[other]
    heavier = np.where(one_weight >= other_weight, one, other)
    return heavier, np.where(same, one_weight + other_weight, np.abs(one_weight - other_weight))


def event_at(events: EventTable, lane: int, depth: int, when: float, tolerance: float) -> int:
    """The event of a row at ``when``, else the nearest one within ``tolerance`` ns; -1 where there is none."""
    part = events.window(lane, depth, int(when - tolerance) - 1, int(when + tolerance) + 2)
    found = _nearest(*events.spans(part), when, tolerance)
    return part.start + found if found >= 0 else -1


def entry_at(row: Row, when: float, tolerance: float) -> int:
    """The same for the entries of a row as it is drawn: an offset in it."""
    low, high = row.window(when - tolerance - 1, when + tolerance + 2)
    found = _nearest(row.start[low:high], row.end[low:high], when, tolerance)
    return low + found if found >= 0 else -1


def _nearest(start: I64, end: I64, when: float, tolerance: float) -> int:
    if not len(start):
        return -1
    away = np.maximum(np.maximum(start - when, when - end), 0.0)
    nearest = int(np.argmin(away))
    inside = np.flatnonzero(away == away[nearest])
    best = int(inside[np.argmax((end - start)[inside])])
    return best if away[best] <= tolerance else -1


def neighbour(events: EventTable, event: int, step: int) -> int:
    """The next (+1) or previous (-1) event of the same row; the event itself at the end of the row."""
    other = event + step
    if not 0 <= other < len(events):
        return event
    same = events.lane[other] == events.lane[event] and events.depth[other] == events.depth[event]
    return other if same else event


def count_in(events: EventTable, lanes: Iterable[int], t0: int, t1: int) -> int:
    """How many events of these lanes touch [t0, t1)."""
    total = 0
    for lane in lanes:
        for depth in events.rows(lane):
            part = events.window(lane, depth, t0, t1)
            total += part.stop - part.start
    return total
