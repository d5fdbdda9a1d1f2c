"""What events of a row and sampled counters look like in pixel columns, at a cost that follows the columns.

The columns of a zoom lie on a fixed lattice in time, and what one of them shows depends on nothing but the row and its
place there. So what was worked out for one view holds for every view that was moved by whole pixels.
"""

from __future__ import annotations

import math

import numpy as np

from parsers.model import F64, I64, Counter
from parsers.model.late import dataclass
from viewer.timeline.geometry.row_index import BLOCK, FINEST, Clock, Row
from viewer.timeline.geometry.scale import Scale

CELLS_A_COLUMN = 2  # the clock is used where a column is at least this many of its cells wide
WIDE = 2.0  # columns
SURELY_NARROW = 1.9  # columns: what is shorter is not looked at more closely
SUMMED = 16  # events per column up to which durations are summed for each frame
STEP_BITS = 32  # of the distance of columns: the rest would only tell apart views that look alike
PLACES = 1 << 20  # of a column: where an event may begin
PHASES = 1 << 10  # of a column: where a view may; finer ones would change by rounding while one view is moved
_NO_EVENT = np.empty(0, np.int64)
_NO_EDGE = np.empty(0, np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """``width`` columns of the lattice of a zoom, from number ``first`` on: ``phase`` of a column after 0, ``step`` ns
    apart. Their edges are exact in ``times``, and in ``edges`` the first whole ns at or after each.
    """

    first: int
    width: int
    step: float
    phase: float
    rate: float  # columns a ns
    times: F64
    edges: I64

    @property
    def last(self) -> int:
        """The number of the column after the last."""
        return self.first + self.width

    @property
    def scale(self) -> Scale:
        return Scale(float(self.times[0]), float(self.times[-1]), self.width)

    def part(self, first: int, last: int) -> Grid:
        return _lattice(first, last - first, self.step, self.phase)

    def place(self, when: I64) -> F64:
        """Where times lie, in columns from the first of these, to the same small part of a column for every first."""
        place: F64 = np.multiply(when, self.rate * PLACES, dtype=np.float64)
        place -= self.phase * PLACES
        np.rint(place, out=place)
        place *= 1.0 / PLACES
        place -= self.first
        return place


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """One row in pixel columns.

    ``coverage`` is the share of each column that is busy (0 to 1), ``event`` an event that stands for the column
    (offset into the row; -1 where it is empty). ``wide`` are events at least ``WIDE`` columns wide, with their edges;
    each has columns [begin, end) to itself.
    """

    coverage: F64
    event: I64
    wide: I64
    left: F64
    right: F64
    begin: I64
    end: I64


def grid(scale: Scale) -> Grid:
    """The columns of a view, to a small part of a pixel; made once a frame."""
    mantissa, exponent = math.frexp(scale.ns_per_pixel)
    step = math.ldexp(round(math.ldexp(mantissa, STEP_BITS)), exponent - STEP_BITS)
    at = round(scale.t0 / step * PHASES)
    return _lattice(at // PHASES, int(scale.width), step, at % PHASES / PHASES)


def _lattice(first: int, width: int, step: float, phase: float) -> Grid:
    times: F64 = (np.arange(first, first + width + 1, dtype=np.float64) + phase) * step
    return Grid(first, width, step, phase, 1.0 / step, times, np.ceil(times).astype(np.int64))


def columns(row: Row, view: Grid) -> Columns | None:
    """What ``row`` shows in every column of ``view``; None when nothing of it is in view."""
    clock = row.clock if row.clock is not None and row.clock.cell * CELLS_A_COLUMN <= view.step else None
    reach = clock.cell if clock is not None else 0  # a clock moves an event by half a cell at most
    low, high = row.window(float(view.times[0]) - reach, float(view.times[-1]) + reach)
    if high == low:
        return None
    return _by_clock(row, clock, view) if clock is not None else _by_events(row, view, low, high)


def _by_clock(row: Row, clock: Clock, view: Grid) -> Columns:
    cell = np.rint((view.times - clock.origin) * (1.0 / clock.cell))
    edge = np.minimum(np.maximum(cell, 0), len(clock.begun) - 1).astype(np.int64)
    begun = clock.begun.take(edge).astype(np.int64)
    busy = clock.busy.take(edge).astype(np.float64)
    taken = (cell[1:] - cell[:-1]) * (clock.cell / clock.quantum)
    coverage = np.minimum((busy[1:] - busy[:-1]) / taken, 1.0)
    low, high = begun[:-1], begun[1:]
    count = high - low
    none = count == 0
    event = (low + high) >> 1
    event -= none  # where none begins, the one before
    event |= -(none & ~(coverage > 0)).astype(np.int64)  # -1 where that is over, too
    _take_dominant(row, event, low, high, count)
    alone = (none & (coverage > 0.999)).nonzero()[0]
    return Columns(coverage, event, *_wide(row, low[alone] - 1, alone, view))


def _by_events(row: Row, view: Grid, low: int, high: int) -> Columns:
    start, end = row.start[low:high], row.end[low:high]
    before = _begun_before(start, view)
    closed = np.empty(high - low + 1, np.int64)
    closed[0], closed[1:] = view.edges[0] - 1, end
    over = closed.take(before) - view.times
    held = over[:-1] > 0
    np.maximum(over, 0.0, out=over)
    few = high - low <= SUMMED * view.width or row.block_busy is None
    if few:
        duration = end - start
        spent = np.zeros(high - low + 1, np.int64)
        np.cumsum(duration, out=spent[1:])
        busy = spent.take(before)
    else:
        busy = _busy_before(row, before + low)
    coverage = ((busy[1:] - busy[:-1]) - (over[1:] - over[:-1])) * view.rate
    np.minimum(np.maximum(coverage, 0.0, out=coverage), 1.0, out=coverage)
    count = before[1:] - before[:-1]
    last = before[:-1] + (low - 1)
    event = held.astype(np.int64)
    event -= 1  # all bits where none is held
    event |= last
    new = count.nonzero()[0]
    if len(new):
        begun, many = before.take(new), count.take(new)
        best = first = begun + low
        if int(many.max()) > 1:
            best = _longest(duration[: before[-1]], begun, low) if few else _longest_of_few(row, first, many)
            if int(many.max()) >= 2 << FINEST:
                _take_dominant(row, best, first, first + many, many)
        both = held.take(new).nonzero()[0]
        if len(both):
            column, rival = new.take(both), best.take(both)
            taken = np.minimum(row.end.take(rival), view.times.take(column + 1)) - row.start.take(rival)
            best[both] = np.where(over.take(column) > taken, event.take(column), rival)
        event[new] = best
    alone = (held & (count == 0)).nonzero()[0]
    return Columns(coverage, event, *_wide(row, last.take(alone), alone, view))


def _begun_before(start: I64, view: Grid) -> I64:
    """How many of the sorted ``start`` lie before each edge."""
    if len(start) > view.width:
        return start.searchsorted(view.edges, side="left")
    edge = view.edges.searchsorted(start, side="right")
    return np.cumsum(np.bincount(edge, minlength=view.width + 2)[: view.width + 1])


def _longest(duration: I64, begun: I64, low: int) -> I64:
    """The longest of the events from each of ``begun`` to the next one, as offsets into the row."""
    bits = len(duration).bit_length()
    longest = np.maximum.reduceat((duration << bits) | np.arange(len(duration)), begun)
    return (longest & ((1 << bits) - 1)) + low


def _longest_of_few(row: Row, first: I64, many: I64) -> I64:
    """The same where fewer than ``2 << FINEST`` events begin in a column; of more the pyramid tells."""
    best = first + (many >> 1)
    some = (many < 2 << FINEST).nonzero()[0]
    if len(some):
        ahead = np.cumsum(many[some]) - many[some]
        event = np.repeat(first[some] - ahead, many[some]) + np.arange(int(many[some].sum()))
        best[some] = event[_longest(row.end[event] - row.start[event], ahead, 0)]
    return best


def _take_dominant(row: Row, event: I64, low: I64, high: I64, count: I64) -> None:
    """Where at least 16 events share a column, put the dominant one of a run in its middle into ``event``."""
    if row.dominant is None or row.level is None:
        return
    many = (count >= 2 << FINEST).nonzero()[0]
    if len(many):
        level = np.minimum(np.frexp(count[many])[1] - 2 - FINEST, len(row.level) - 1)
        middle = (low[many] + high[many]) >> 1
        event[many] = row.dominant[row.level[level] + (middle >> (level + FINEST))]


def _wide(row: Row, candidate: I64, column: I64, view: Grid) -> tuple[I64, F64, F64, I64, I64]:
    """Of the events that have some ``column`` to themselves those that are wide: events, left, right, begin, end."""
    if not len(candidate):
        return _NO_EVENT, _NO_EDGE, _NO_EDGE, _NO_EVENT, _NO_EVENT
    fresh = np.empty(len(candidate) + 1, bool)
    fresh[0] = fresh[-1] = True
    np.not_equal(candidate[1:], candidate[:-1], out=fresh[1:-1])
    run = fresh.nonzero()[0]
    each = candidate.take(run[:-1])
    start, end = row.start.take(each), row.end.take(each)
    long = (end - start >= int(view.step * SURELY_NARROW)).nonzero()[0]
    if not len(long):
        return _NO_EVENT, _NO_EDGE, _NO_EDGE, _NO_EVENT, _NO_EVENT
    left, right = view.place(np.stack((start.take(long), end.take(long))))
    real = right - left >= WIDE
    if not real.all():
        long, left, right = long[real], left[real], right[real]
    return each.take(long), left, right, column.take(run.take(long)), column.take(run.take(long + 1) - 1) + 1


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


def counter_columns(counter: Counter, scale: Scale) -> tuple[F64, F64] | None:
    """(value at its end, largest value in it) for each column; None where the counter has no samples.

    NaN before the first sample.
    """
    if not len(counter.time):
        return None
    edges = np.ceil(scale.t0 + np.arange(int(scale.width) + 1) * scale.ns_per_pixel).astype(np.int64)
    until = np.searchsorted(counter.time, edges, side="left")
    last = until[1:] - 1
    value = np.where(last >= 0, counter.value[np.maximum(last, 0)], np.nan)
    peak = value.copy()
    several = np.flatnonzero(until[1:] - until[:-1] > 1)
    if len(several):
        stop = int(until[several[-1] + 1])
        spans = np.column_stack((until[several], until[several + 1])).ravel()
        padded = np.append(counter.value[:stop], counter.value[stop - 1])
        peak[several] = np.maximum.reduceat(padded, spans)[::2]
    return value, np.fmax(value, peak)
