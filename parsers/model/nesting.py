"""Depth of every event of a lane, another row where they only overlap; and the order of the event table by it."""

from __future__ import annotations

import heapq
from itertools import pairwise

import numpy as np

from parsers.model.arrays import I32, I64, distinct_values, merged
from parsers.model.progress import Progress
from parsers.model.threads import side_by_side


def stable_order(numbers: I32) -> I64:
    """The permutation that sorts numbers that are not negative, and leaves equal ones in their order."""
    # numpy sorts 16-bit numbers by counting them
    small = len(numbers) == 0 or int(numbers.max()) <= np.iinfo(np.int16).max
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
    closing = merged(closing)
    depth = (np.arange(count) - np.searchsorted(closing, start, side="right")).astype(np.int32)
    for first, last in _groups_with_conflict(start, end, depth):
        depth[first:last] = lowest_free_rows(start[first:last], end[first:last])
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
    groups = distinct_values(np.searchsorted(firsts, by_row[1:][conflict], side="right") - 1)
    return [(int(firsts[group]), int(lasts[group])) for group in groups]


def lowest_free_rows(start: I64, end: I64) -> I32:
    """The lowest row that is free for each event, in order of start, so that none of a row overlap."""
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


def parents(start: I64, end: I64, depth: I32) -> I64:
    """For each event the one directly around it, as an index; -1 at the outermost level. Sorted as for ``depths``."""
    parent = np.full(len(start), -1, np.int64)
    deepest = int(depth.max(initial=0))
    if not deepest:
        return parent
    by_depth = stable_order(depth)
    edges = np.searchsorted(depth[by_depth], np.arange(deepest + 2))
    outer = by_depth[: edges[1]]
    for level in range(1, deepest + 1):
        mine = by_depth[edges[level] : edges[level + 1]]
        place = np.searchsorted(start[outer], start[mine], side="right") - 1
        candidate = outer[np.maximum(place, 0)]
        around = (place >= 0) & (end[candidate] >= end[mine])
        parent[mine] = np.where(around, candidate, -1)
        outer = mine
    return parent


def in_row_order(start: I64, end: I64, lane: I32, progress: Progress) -> tuple[I64, I32]:
    """The permutation that sorts events by (lane, depth, start), and each event's depth after it."""
    count = len(start)
    order = stable_order(lane)
    depth = np.zeros(count, np.int32)
    sorted_lane = lane[order]
    edges = np.searchsorted(sorted_lane, np.arange(int(sorted_lane[-1]) + 1 if count else 0), side="right")
    bounds = np.concatenate(([0], edges)).tolist()
    lanes = [slice(first, last) for first, last in pairwise(bounds) if last > first]

    def sort(part: slice) -> None:
        order[part], depth[part] = _rows_of_lane(order[part], start, end)

    sorting = side_by_side(sort, lanes, count // max(len(lanes), 1))
    for part, _ in zip(lanes, sorting, strict=True):
        progress.step(0.1 + 0.6 * part.stop / count, "nesting events")
    return order, depth


def _rows_of_lane(mine: I64, start: I64, end: I64) -> tuple[I64, I32]:
    """The events of one lane by row and start, and the row of each."""
    begins, ends = start[mine], end[mine]
    if not _nesting_order(begins, ends):
        sorting = np.lexsort((-ends, begins))
        mine, begins, ends = mine[sorting], begins[sorting], ends[sorting]
    rows = depths(begins, ends)
    if not rows.any():
        return mine, rows
    sorting = stable_order(rows)
    return mine[sorting], rows[sorting]


def _nesting_order(start: I64, end: I64) -> bool:
    """Whether events are sorted by start, and the longer of those that start together come first."""
    later = start[1:] > start[:-1]
    return bool(np.all(later | ((start[1:] == start[:-1]) & (end[1:] <= end[:-1]))))
