"""Puts events in the order of the event table: by lane, then by row inside the lane, then by start."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from parsers.model.nesting import depths, stable_order
from parsers.model.progress import Progress

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


def in_row_order(start: I64, end: I64, lane: I32, progress: Progress) -> tuple[I64, I32]:
    """The permutation that sorts events by (lane, depth, start), and each event's depth after it."""
    count = len(start)
    order = stable_order(lane)
    depth = np.zeros(count, np.int32)
    sorted_lane = lane[order]
    edges = np.searchsorted(sorted_lane, np.arange(int(sorted_lane[-1]) + 1 if count else 0), side="right")
    first = 0
    for last in edges.tolist():
        if last > first:
            mine = order[first:last]
            begins, ends = start[mine], end[mine]
            if not _nesting_order(begins, ends):
                sorting = np.lexsort((-ends, begins))
                mine[:] = mine[sorting]
                begins, ends = begins[sorting], ends[sorting]
            rows = depths(begins, ends)
            if rows.any():
                sorting = stable_order(rows)
                mine[:] = mine[sorting]
                rows = rows[sorting]
            depth[first:last] = rows
            progress.step(0.1 + 0.6 * last / count, "nesting events")
        first = last
    return order, depth


def _nesting_order(start: I64, end: I64) -> bool:
    """Whether events are sorted by start, and the longer of those that start together come first."""
    later = start[1:] > start[:-1]
    return bool(np.all(later | ((start[1:] == start[:-1]) & (end[1:] <= end[:-1]))))
