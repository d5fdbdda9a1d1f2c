"""What a row of events looks like in pixel columns, at a cost that follows the columns and not the events."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from viewer.timeline.geometry.row_index import BLOCK, FINEST, Clock, Row
from viewer.timeline.geometry.scale import Scale

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

CELLS_A_COLUMN = 2  # the clock is used where a column is at least this many of its cells wide
WIDE = 2.0  # columns
SUMMED = 16  # events per column up to which durations are summed for each frame
_NO_EVENT = np.empty(0, np.int64)
_NO_EDGE = np.empty(0, np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """The edges of all columns of a view: exact, and as the first whole ns at or after each; ``step`` ns apart."""

    scale: Scale
    width: int
    step: float
    rate: float  # columns a ns
    times: F64
    edges: I64


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """One row in pixel columns.

    ``coverage`` is the share of each column that is busy (0 to 1), ``event`` an event that stands for the column
    (offset into the row; -1 where it is empty). ``wide`` are events at least ``WIDE`` columns wide, with their edges.
    """

    coverage: F64
    event: I64
    wide: I64
    left: F64
    right: F64


def grid(scale: Scale) -> Grid:
    """The columns of a view; made once a frame."""
    width = int(scale.width)
    step = scale.ns_per_pixel
    times: F64 = scale.t0 + np.arange(width + 1, dtype=np.float64) * step
    return Grid(scale, width, step, 1.0 / step, times, np.ceil(times).astype(np.int64))


def columns(row: Row, view: Grid) -> Columns | None:
    """What ``row`` shows in every column of ``view``; None when nothing of it is in view."""
    low, high = row.window(view.scale.t0, view.scale.t1)
    if high == low:
        return None
    if row.clock is not None and row.clock.cell * CELLS_A_COLUMN <= view.step:
        return _by_clock(row, row.clock, view)
    return _by_events(row, view, low, high)


def _by_clock(row: Row, clock: Clock, view: Grid) -> Columns:
    cell = np.rint((view.times - clock.origin) * (1.0 / clock.cell))
    edge = np.minimum(np.maximum(cell, 0), len(clock.begun) - 1).astype(np.int64)
    begun = clock.begun[edge].astype(np.int64)
    busy = clock.busy[edge].astype(np.float64)
    taken = (cell[1:] - cell[:-1]) * (clock.cell / clock.quantum)
    coverage = np.minimum((busy[1:] - busy[:-1]) / taken, 1.0)
    low, high = begun[:-1], begun[1:]
    count = high - low
    event = np.where(count > 0, (low + high) >> 1, np.where(coverage > 0, low - 1, -1))
    _take_dominant(row, event, low, high, count)
    wide, left, right = _wide(row, low[(count == 0) & (coverage > 0.999)] - 1, view)
    return Columns(coverage, event, wide, left, right)


def _by_events(row: Row, view: Grid, low: int, high: int) -> Columns:
    start, end = row.start[low:high], row.end[low:high]
    before = _begun_before(start, view)
    closed = np.empty(high - low + 1, np.int64)
    closed[0], closed[1:] = view.edges[0] - 1, end
    over = closed[before] - view.times
    held = over[:-1] > 0
    np.maximum(over, 0.0, out=over)
    few = high - low <= SUMMED * view.width or row.block_busy is None
    if few:
        duration = end - start
        spent = np.zeros(high - low + 1, np.int64)
        np.cumsum(duration, out=spent[1:])
        busy = spent[before] - over
    else:
        busy = _busy_before(row, before + low) - over
    coverage = (busy[1:] - busy[:-1]) * view.rate
    np.minimum(np.maximum(coverage, 0.0, out=coverage), 1.0, out=coverage)
    count = before[1:] - before[:-1]
    last = before[:-1] + (low - 1)
    event = np.where(held, last, -1)
    new = count.nonzero()[0]
    if len(new):
        first, many = before[new] + low, count[new]
        best = first
        if int(many.max()) > 1:
            best = _longest(duration[: before[-1]], before[new], low) if few else first + (many >> 1)
            if int(many.max()) >= 2 << FINEST:
                _take_dominant(row, best, first, first + many, many)
        both = held[new].nonzero()[0]
        if len(both):
            column, rival = new[both], best[both]
            keep = over[column] > np.minimum(row.end[rival], view.times[column + 1]) - row.start[rival]
            best[both] = np.where(keep, event[column], rival)
        event[new] = best
    wide, left, right = _wide(row, last[held & (count == 0)], view)
    return Columns(coverage, event, wide, left, right)


def _begun_before(start: I64, view: Grid) -> I64:
    """How many of the sorted ``start`` lie before each edge."""
    if len(start) > view.width:
        return start.searchsorted(view.edges, side="left")
    column = np.floor((start - view.scale.t0) * view.rate).astype(np.int64)
    np.minimum(np.maximum(column, -1, out=column), view.width, out=column)
    return np.cumsum(np.bincount(column + 1, minlength=view.width + 2)[: view.width + 1])


def _longest(duration: I64, begun: I64, low: int) -> I64:
    """The longest of the events from each of ``begun`` to the next one, as offsets into the row."""
    bits = len(duration).bit_length()
    longest = np.maximum.reduceat((duration << bits) | np.arange(len(duration)), begun)
    return (longest & ((1 << bits) - 1)) + low


def _take_dominant(row: Row, event: I64, low: I64, high: I64, count: I64) -> None:
    """Where at least 16 events share a column, put the dominant one of a run in its middle into ``event``."""
    if row.dominant is None or row.level is None:
        return
    many = (count >= 2 << FINEST).nonzero()[0]
    if len(many):
        level = np.minimum(np.frexp(count[many])[1] - 2 - FINEST, len(row.level) - 1)
        middle = (low[many] + high[many]) >> 1
        event[many] = row.dominant[row.level[level] + (middle >> (level + FINEST))]


def _wide(row: Row, candidate: I64, view: Grid) -> tuple[I64, F64, F64]:
    """Of the events that fill a whole column those that are wide, with their edges in columns, in order."""
    if not len(candidate):
        return _NO_EVENT, _NO_EDGE, _NO_EDGE
    fresh = np.empty(len(candidate), bool)
    fresh[0] = True
    np.not_equal(candidate[1:], candidate[:-1], out=fresh[1:])
    candidate = candidate[fresh]
    left = np.multiply(row.start[candidate] - view.scale.t0, view.rate, dtype=np.float64)
    right = np.multiply(row.end[candidate] - view.scale.t0, view.rate, dtype=np.float64)
    real = right - left >= WIDE
    return (candidate, left, right) if real.all() else (candidate[real], left[real], right[real])


def _busy_before(row: Row, count: I64) -> I64:
    """ns spent in the first ``count`` events of the row."""
    assert row.block_busy is not None
    block = count // BLOCK
    spent = row.block_busy[block]
    rest = count - block * BLOCK
    bound = len(row) - 1
    for offset in range(BLOCK - 1):
        event = np.minimum(block * BLOCK + offset, bound)
        spent = spent + np.where(offset < rest, row.end[event] - row.start[event], 0)
    return spent
