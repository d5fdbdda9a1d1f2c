"""Which thread made the calls that XProf keeps apart from its other events, as on "Host Threads/1083".

The calls of one thread are inside its own events, and closest to those in which it launches them.
"""

from __future__ import annotations

import numpy as np

from parsers.model.arrays import BOOL, I64
from parsers.model.nesting import depths

LEAST_INSIDE = 0.9  # of the calls of a thread: clocks are read twice, and some calls are made by other parts


def owners_of_calls(start: I64, end: I64, thread: I64, is_call: BOOL, is_work: BOOL) -> dict[int, int]:
    """The thread that made the calls of each thread that has nothing but calls; absent where none can be told.

    ``thread`` numbers threads; ``is_work`` marks the events of the runtime, whose innermost ones make calls.
    """
    candidates = [each for each in np.unique(thread[is_work]).tolist() if not np.any(is_call[thread == each])]
    found: dict[int, int] = {}
    for each in np.unique(thread[is_call]).tolist():
        mine = thread == each
        if not candidates or np.any(is_work[mine]):
            continue
        middle = (start[mine & is_call] + end[mine & is_call]) // 2
        closest = [
            _typical_surrounding(start[theirs], end[theirs], middle)
            for theirs in (np.flatnonzero((thread == other) & is_work) for other in candidates)
        ]
        best = int(np.argmin(closest))
        if closest[best] < np.inf:
            found[each] = candidates[best]
    return found


def _typical_surrounding(start: I64, end: I64, moments: I64) -> float:
    """Median duration of the innermost events around these moments, ns; inf where too few are inside any."""
    order = np.lexsort((-end, start))
    start, end = start[order], end[order]
    depth = depths(start, end)
    length = np.full(len(moments), np.inf)
    for row in range(int(depth.max()) + 1 if len(depth) else 0):
        begins, ends = start[depth == row], end[depth == row]
        place = np.searchsorted(begins, moments, side="right") - 1
        inside = (place >= 0) & (moments < ends[np.maximum(place, 0)])
        length[inside] = (ends - begins)[place[inside]]
    inside_any = np.isfinite(length)
    if not len(moments) or inside_any.mean() < LEAST_INSIDE:
        return float("inf")
    return float(np.median(length[inside_any]))
