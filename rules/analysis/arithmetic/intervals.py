"""Interval arithmetic on int64 columns: union, intersection, subtraction, clipped length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import overload

import numpy as np

from parsers.model import BOOL, F64, I64, Trace
from parsers.model.arrays import merged, stable_order
from rules.analysis.arithmetic.ascending_search import last_not_after


@overload
def durations(trace: Trace, events: int) -> int: ...


@overload
def durations(trace: Trace, events: I64) -> I64: ...


def durations(trace: Trace, events: I64 | int) -> I64 | int:
    """ns of one event or of several, without computing those of all the others."""
    found = trace.events.end[events] - trace.events.start[events]
    return int(found) if isinstance(events, int) else found


def time_by_name(trace: Trace, events: I64) -> F64:
    """ns of some events added up by their names: a value for each of the trace's strings."""
    took = np.bincount(trace.events.name[events], durations(trace, events), minlength=len(trace.strings))
    return took.astype(np.float64, copy=False)


Intervals = tuple[I64, I64]  # starts and ends, sorted, disjoint, no empty interval

EMPTY: Intervals = (np.empty(0, np.int64), np.empty(0, np.int64))


def union(start: I64, end: I64) -> Intervals:
    """The disjoint union of any intervals, in any order; touching ones join, empty ones vanish."""
    real = end > start
    if not real.all():
        start, end = start[real], end[real]
    if not len(start):
        return EMPTY
    if (order := stable_order(start)) is not None:
        start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    first = np.concatenate(([True], start[1:] > reach[:-1]))
    if first.all():
        return start, reach
    return start[first], reach[np.concatenate((first[1:], [True]))]


def length(intervals: Intervals) -> int:
    """Total ns covered."""
    return int((intervals[1] - intervals[0]).sum())


def clip(intervals: Intervals, t0: int, t1: int) -> Intervals:
    """The part inside [t0, t1)."""
    start, end = np.maximum(intervals[0], t0), np.minimum(intervals[1], t1)
    inside = end > start
    return start[inside], end[inside]


def complement(intervals: Intervals, t0: int, t1: int) -> Intervals:
    """What [t0, t1) has outside the intervals."""
    start, end = clip(intervals, t0, t1)
    gap_start, gap_end = np.concatenate(([t0], end)), np.concatenate((start, [t1]))
    real = gap_end > gap_start
    return gap_start[real], gap_end[real]


def intersect(a: Intervals, b: Intervals) -> Intervals:
    """What both cover."""
    if not len(a[0]) or not len(b[0]):
        return EMPTY
    start = np.concatenate((a[0][contains(b, a[0])], b[0][_strictly_inside(a, b[0])]))
    end = np.concatenate((a[1][contains(b, a[1] - 1)], b[1][_strictly_inside(a, b[1])]))
    return union(merged(start), merged(end))


def subtract(a: Intervals, b: Intervals) -> Intervals:
    """What ``a`` covers and ``b`` does not."""
    if not len(a[0]) or not len(b[0]):
        return union(*a)
    return intersect(a, complement(b, int(a[0][0]), int(a[1][-1])))


def measure(intervals: Intervals, start: I64, end: I64) -> I64:
    """How many ns of each window [start, end) the intervals cover."""
    return covered_before(intervals, end) - covered_before(intervals, np.minimum(start, end))


def covered_before(intervals: Intervals, times: I64) -> I64:
    """How many ns the intervals cover before each time."""
    first, last = intervals
    if not len(first):
        return np.zeros(len(times), np.int64)
    total = np.concatenate(([0], np.cumsum(last - first)))
    index = last_not_after(first, times)
    inside = np.maximum(index, 0)
    part = np.minimum(np.maximum(times - first[inside], 0), last[inside] - first[inside])
    return np.where(index < 0, 0, total[inside] + part)


def contains(intervals: Intervals, times: I64) -> BOOL:
    """Whether each time lies inside an interval (its start included, its end not)."""
    first, last = intervals
    if not len(first):
        return np.zeros(len(times), bool)
    index = last_not_after(first, times)
    return (index >= 0) & (times < last[np.maximum(index, 0)])


def _strictly_inside(intervals: Intervals, times: I64) -> BOOL:
    first, last = intervals
    index = last_not_after(first, times)
    at = np.maximum(index, 0)
    return np.asarray((index >= 0) & (first[at] < times) & (times < last[at]))


class Pairs(Sequence[tuple[int, int]]):
    """Intervals that read as plain (start, end) pairs; a million of them stay two columns."""

    __slots__ = ("columns",)

    def __init__(self, columns: Intervals) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns[0])

    @overload
    def __getitem__(self, index: int) -> tuple[int, int]: ...
    @overload
    def __getitem__(self, index: slice) -> Pairs: ...
    def __getitem__(self, index: int | slice) -> tuple[int, int] | Pairs:
        start, end = self.columns
        if isinstance(index, slice):
            return Pairs((start[index], end[index]))
        return int(start[index]), int(end[index])

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return (self[index] for index in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        if isinstance(other, Pairs):
            return all(np.array_equal(*sides) for sides in zip(self.columns, other.columns, strict=True))
        return len(self) == len(other) and all(mine == its for mine, its in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash((len(self), *chain.from_iterable(self[:4])))

    def __repr__(self) -> str:
        return f"Pairs({list(self[:4])}{', ...' if len(self) > 4 else ''})"


def pairs(intervals: Intervals) -> Pairs:
    """The intervals as plain (start, end) pairs."""
    return Pairs(intervals)


def columns_of(listed: Iterable[tuple[int, int]]) -> Intervals:
    """Plain (start, end) pairs as two columns."""
    if isinstance(listed, Pairs):
        return listed.columns
    columns = np.array(list(listed), np.int64).reshape(-1, 2)
    return columns[:, 0], columns[:, 1]


def of_pairs(listed: Iterable[tuple[int, int]]) -> Intervals:
    """The union of plain (start, end) pairs."""
    return union(*columns_of(listed))
