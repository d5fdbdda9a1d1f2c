"""Puts events in the order of the event table: by lane, then by row inside the lane, then by start."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from parsers.model.arrays import I32, I64
from parsers.model.nesting import depths, stable_order
from parsers.model.progress import Progress
from parsers.model.threads import side_by_side


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
