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


def columns(row: Row, scale: Scale) -> Columns | None:
    """What ``row`` shows in ``scale.width`` (a whole number of) columns; None when nothing of it is in view."""
    low, high = row.window(scale.t0, scale.t1)
    if high == low:
        return None
    times: F64 = scale.t0 + np.arange(int(scale.width) + 1, dtype=np.float64) * scale.ns_per_pixel
    if row.clock is not None and row.clock.cell * CELLS_A_COLUMN <= scale.ns_per_pixel:
        return _by_clock(row, row.clock, times, scale)
    return _by_events(row, times, scale, low, high)


def _by_clock(row: Row, clock: Clock, times: F64, scale: Scale) -> Columns:
    cell = np.rint((times - clock.origin) * (1.0 / clock.cell))
    edge = np.clip(cell, 0, len(clock.begun) - 1).astype(np.int64)
    begun = clock.begun[edge].astype(np.int64)
    coverage = np.diff(clock.busy[edge].astype(np.float64)) * (clock.quantum / scale.ns_per_pixel)
    np.clip(coverage, 0.0, 1.0, out=coverage)
    low, high = begun[:-1], begun[1:]
    count = high - low
    event = np.where(count > 0, (low + high) >> 1, np.where(coverage > 0, low - 1, -1))
    _take_dominant(row, event, low, high, count)
    wide, left, right = _wide(row, low[(count == 0) & (coverage > 0.999)] - 1, scale)
    return Columns(coverage, event, wide, left, right)


def _by_events(row: Row, times: F64, scale: Scale, low: int, high: int) -> Columns:
    edges = np.ceil(times).astype(np.int64)
    before = np.searchsorted(row.start[low:high], edges, side="left")
    last = np.maximum(before - 1, 0) + low
    over = np.where(before > 0, row.end[last] - times, 0.0)
    running = over > 0
    np.maximum(over, 0.0, out=over)
    few = high - low <= 16 * scale.width or row.block_busy is None
    if few:
        duration = row.end[low:high] - row.start[low:high]
        spent = np.concatenate((np.zeros(1, np.int64), np.cumsum(duration)))[before]
    else:
        spent = _busy_before(row, before + low)
    coverage = np.diff(spent - over) * (1.0 / scale.ns_per_pixel)
    np.clip(coverage, 0.0, 1.0, out=coverage)
    begun, ended = before[:-1], before[1:]
    count = ended - begun
    held = running[:-1]
    event = np.where(held, last[:-1], -1)
    new = np.flatnonzero(count > 0)
    if len(new):
        first, until = begun[new] + low, ended[new] + low
        best = _longest(duration[: before[-1]], begun[new], low) if few else (first + until) >> 1
        _take_dominant(row, best, first, until, count[new])
        overlap = np.minimum(row.end[best], times[new + 1]) - row.start[best]
        keep = held[new] & (over[new] > overlap)
        event[new] = np.where(keep, event[new], best)
    wide, left, right = _wide(row, last[:-1][held & (count == 0)], scale)
    return Columns(coverage, event, wide, left, right)


def _longest(duration: I64, begun: I64, low: int) -> I64:
    """The longest of the events from each of ``begun`` to the next one, as offsets into the row."""
    bits = len(duration).bit_length()
    longest = np.maximum.reduceat((duration << bits) | np.arange(len(duration)), begun)
    return (longest & ((1 << bits) - 1)) + low


def _take_dominant(row: Row, event: I64, low: I64, high: I64, count: I64) -> None:
    """Where at least 16 events share a column, put the dominant one of a run in its middle into ``event``."""
    if row.dominant is None or row.level is None:
        return
    many = np.flatnonzero(count >= 2 << FINEST)
    if len(many):
        level = np.minimum(np.frexp(count[many])[1] - 2 - FINEST, len(row.level) - 1)
        middle = (low[many] + high[many]) >> 1
        event[many] = row.dominant[row.level[level] + (middle >> (level + FINEST))]


def _wide(row: Row, candidate: I64, scale: Scale) -> tuple[I64, F64, F64]:
    """Of the events that fill a whole column those that are wide, with their edges in columns, in order."""
    if len(candidate):
        candidate = candidate[np.concatenate(([True], candidate[1:] != candidate[:-1]))]
    left = ((row.start[candidate] - scale.t0) / scale.ns_per_pixel).astype(np.float64)
    right = ((row.end[candidate] - scale.t0) / scale.ns_per_pixel).astype(np.float64)
    real = right - left >= WIDE
    return candidate[real], left[real], right[real]


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
