"""Tells events that lie far away in time from all others: clocks that were never set, garbage in a field."""

from __future__ import annotations

import numpy as np

from parsers.model.arrays import BOOL, I64

LEAST_GAP_NS = 3_600 * 1_000_000_000  # recordings do not pause longer than this ...
GAP_TO_SPAN = 20  # ... nor does one event last many times longer than all of them
MOST_FAR_SHARE = 0.05  # a cluster with more events than this is no accident


def main_cluster(start: I64) -> tuple[int, int]:
    """First and last start of the events that belong together; what lies far away is cut off at both ends."""
    if int(start.max()) - int(start.min()) <= LEAST_GAP_NS:
        return int(start.min()), int(start.max())
    ordered = np.sort(start)
    gaps = np.diff(ordered)
    breaks = np.flatnonzero(gaps > LEAST_GAP_NS)
    if not len(breaks):
        return int(ordered[0]), int(ordered[-1])
    firsts = np.concatenate(([0], breaks + 1))
    lasts = np.append(breaks, len(ordered) - 1)
    sizes = lasts - firsts + 1
    main = int(np.argmax(sizes))
    low = high = main
    while low > 0 and sizes[low - 1] > MOST_FAR_SHARE * len(ordered):
        low -= 1
    while high < len(sizes) - 1 and sizes[high + 1] > MOST_FAR_SHARE * len(ordered):
        high += 1
    return int(ordered[firsts[low]]), int(ordered[lasts[high]])


def longest_plausible(first: int, last: int) -> int:
    """How long one event of a recording may last, ns, given its first and last start."""
    return max(GAP_TO_SPAN * (last - first), LEAST_GAP_NS)


def far_away(start: I64, end: I64) -> BOOL | None:
    """Which events neither touch the time of the others nor last as long as events can; None when there are none."""
    if not len(start) or int(end.max()) - int(start.min()) <= LEAST_GAP_NS:
        return None
    first, last = main_cluster(start)
    found = (end < first) | (start > last) | (end - start > longest_plausible(first, last))
    return found if found.any() and not found.all() else None
