"""Which NVTX ranges are the steps of a run: outermost ranges with a word for a step and a rising number."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from parsers.model.names.steps import step_number

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


def steps_among(start: I64, end: I64, name: I32, thread: I64, strings: Sequence[str]) -> I64:
    """Indices of the ranges that are steps.

    A thread's ranges count when each has another number than the one before it, and no other range encloses them.
    """
    numbers = {index: step_number(strings[index]) for index in np.unique(name).tolist()}
    table = np.zeros(max(numbers, default=-1) + 1, bool)
    table[[index for index, number in numbers.items() if number is not None]] = True
    candidates = np.flatnonzero(table[name]) if len(table) else np.empty(0, np.int64)
    chosen = []
    for each in np.unique(thread[candidates]).tolist():
        mine = candidates[thread[candidates] == each]
        mine = mine[np.argsort(start[mine], kind="stable")]
        counted = [numbers[index] or 0 for index in name[mine].tolist()]
        rising = all(earlier < later for earlier, later in pairwise(counted))
        if (
            len(mine) >= 2
            and rising
            and not _enclosed(start, end, np.flatnonzero(thread == each), mine).any()
        ):
            chosen.append(mine)
    return np.concatenate(chosen) if chosen else np.empty(0, np.int64)


def _enclosed(start: I64, end: I64, ranges: I64, inner: I64) -> npt.NDArray[np.bool_]:
    """For each inner range, whether an earlier range of the thread still runs when it ends."""
    order = ranges[np.lexsort((-end[ranges], start[ranges]))]
    reach = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(end[order])[:-1]))
    place = np.empty(int(ranges.max()) + 1, np.int64)
    place[order] = np.arange(len(order))
    return reach[place[inner]] >= end[inner]
