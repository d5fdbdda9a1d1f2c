"""Finding many ascending times, or numbers, in an ascending column: whichever of the two is shorter is searched for."""

from __future__ import annotations

import numpy as np

from parsers.model import I64

_WORTH_COUNTING = 1 / 8  # of as many entries as there are times; fewer are repeated, in a third of the time


def last_not_after(column: I64, times: I64) -> I64:
    """For each time the place of the last entry of the ascending ``column`` that is not after it; -1 before the first.

    The times may come in any order; ascending ones are found several times faster.
    """
    if len(times) < 2 or not len(column) or (times[1:] < times[:-1]).any():
        return np.asarray(column.searchsorted(times, side="right") - 1)
    low, high = column.searchsorted(times[:: len(times) - 1], side="right").tolist()
    between = column[low:high]
    if 2 * len(between) > len(times):
        return np.asarray(between.searchsorted(times, side="right") + (low - 1))
    first = times.searchsorted(between, side="left")
    if len(between) > _WORTH_COUNTING * len(times):
        return np.asarray(np.cumsum(np.bincount(first, minlength=len(times))) + (low - 1))
    edges = np.empty(len(between) + 2, np.int64)
    edges[0], edges[1:-1], edges[-1] = 0, first, len(times)
    return np.arange(low - 1, high).repeat(edges[1:] - edges[:-1])
