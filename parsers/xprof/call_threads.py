"""Which thread made the calls that XProf keeps apart from its other events, as on "Host Threads/1083".

The calls of one thread are inside its own events, and closest to those in which it launches them.
"""

from __future__ import annotations

from itertools import islice

import numpy as np

from parsers.model.arrays import BOOL, I64, rows_by
from parsers.model.nesting import depths

MAX_PAIRS = 1_000  # of threads that call and threads that may have: recordings have some dozens
MAX_LEVELS = 200  # of events inside one another that are looked at
MIN_INSIDE_SHARE = 0.9  # of a thread's calls: clocks are read twice, and some calls are made by other parts


def owners_of_calls(start: I64, end: I64, thread: I64, is_call: BOOL, is_work: BOOL) -> dict[int, int]:
    """The thread that made the calls of each thread that has nothing but calls; absent where none can be told.

    ``thread`` numbers threads; ``is_work`` marks the events of the runtime, whose innermost ones make calls.
    """
    working, calling = (np.flatnonzero(which) for which in (is_work, is_call))
    both = set(np.intersect1d(thread[working], thread[calling]).tolist())
    callers = [(each, calling[rows]) for each, rows in rows_by(thread[calling]) if each not in both]
    candidates = [(each, working[rows]) for each, rows in rows_by(thread[working]) if each not in both]
    if len(callers) * len(candidates) > MAX_PAIRS:
        return {}
    levels = [_levels(start[rows], end[rows]) for _, rows in candidates]
    found: dict[int, int] = {}
    for each, mine in callers if candidates else ():
        middle = (start[mine] + end[mine]) // 2
        closest = [_typical_surrounding(its, middle) for its in levels]
        best = int(np.argmin(closest))
        if closest[best] < np.inf:
            found[each] = candidates[best][0]
    return found


def _levels(start: I64, end: I64) -> list[tuple[I64, I64]]:
    """Starts and ends of nested events, those inside no other first."""
    order = np.lexsort((-end, start))
    start, end = start[order], end[order]
    return [(start[rows], end[rows]) for _, rows in islice(rows_by(depths(start, end)), MAX_LEVELS)]


def _typical_surrounding(levels: list[tuple[I64, I64]], moments: I64) -> float:
    """Median duration of the innermost events around these moments, ns; inf where too few are inside any."""
    length = np.full(len(moments), np.inf)
    for begins, ends in levels:
        place = np.searchsorted(begins, moments, side="right") - 1
        inside = (place >= 0) & (moments < ends[np.maximum(place, 0)])
        length[inside] = (ends - begins)[place[inside]]
    inside_any = np.isfinite(length)
    if not len(moments) or inside_any.mean() < MIN_INSIDE_SHARE:
        return float("inf")
    return float(np.median(length[inside_any]))
