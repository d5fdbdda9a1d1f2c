"""Depth of every event of a lane: nested where intervals nest, another row where they only overlap."""

from __future__ import annotations

import heapq

import numpy as np

from parsers.model.arrays import I32, I64

_FEW = 1 << 15  # numpy sorts 16-bit numbers by counting them


def stable_order(numbers: I32) -> I64:
    """The permutation that sorts numbers that are not negative, and leaves equal ones in their order."""
    small = len(numbers) == 0 or int(numbers.max()) < _FEW
    return np.argsort(numbers.astype(np.int16) if small else numbers, kind="stable")


def depths(start: I64, end: I64) -> I32:
    """Depth per event of one lane.

    The input is sorted by (start, -end). An event's depth is the number of events still open when it starts.
    Where that puts two overlapping events on one row (they overlap without nesting), the connected group is laid
    out again: each event takes the lowest row that is free.
    """
    count = len(start)
    if not count:
        return np.empty(0, np.int32)
    closing = np.maximum(end, start + 1)
    if np.all(closing[:-1] <= start[1:]):
        return np.zeros(count, np.int32)
    closing = np.sort(closing)
    depth = (np.arange(count) - np.searchsorted(closing, start, side="right")).astype(np.int32)
    for first, last in _groups_with_conflict(start, end, depth):
        depth[first:last] = _lowest_free_rows(start[first:last], end[first:last])
    return depth


def _groups_with_conflict(start: I64, end: I64, depth: I32) -> list[tuple[int, int]]:
    """Maximal runs of connected events, as [first, last), in which two events of one depth overlap."""
    by_row = stable_order(depth)
    same_row = depth[by_row[1:]] == depth[by_row[:-1]]
    conflict = same_row & (start[by_row[1:]] < end[by_row[:-1]])
    if not conflict.any():
        return []
    reach = np.maximum.accumulate(np.maximum(end, start + 1))
    firsts = np.flatnonzero(np.concatenate(([True], start[1:] >= reach[:-1])))
    lasts = np.append(firsts[1:], len(start))
    groups = np.unique(np.searchsorted(firsts, by_row[1:][conflict], side="right") - 1)
    return [(int(firsts[group]), int(lasts[group])) for group in groups]


def _lowest_free_rows(start: I64, end: I64) -> I32:
    rows = np.empty(len(start), np.int32)
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    used = 0
    for index, (begin, finish) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        while busy and busy[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            row = heapq.heappop(free)
        else:
            row, used = used, used + 1
        rows[index] = row
        heapq.heappush(busy, (max(finish, begin + 1), row))
    return rows
