"""Stretches of many small gaps of one cause, which are too narrow to be labelled one by one."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from parsers.model.arrays import BOOL, I32, I64
from viewer.timeline.geometry.columns import Columns

LEAST_SHARE = 0.15  # of the time of a stretch that is idle
LEAST_BINS = 6
BRIDGED = 3  # bins: so short a pause does not end a stretch


@dataclass(frozen=True, slots=True)
class Stretch:
    """Columns [first, last) that are idle for ``share`` of their time, mostly because of ``cause``."""

    first: int
    last: int
    cause: int
    share: float


def dense_stretches(seen: Columns, causes: I32, width: int, labelled: float) -> list[Stretch]:
    """Runs of bins, each ``width`` columns wide, whose idle time has one main cause.

    ``causes`` is the cause of every column's event, at most 15. Bins that hold part of a gap at least ``labelled``
    columns wide do not count: such a gap is told by itself.
    """
    bins = len(seen.coverage) // width
    if bins < LEAST_BINS:
        return []
    used = bins * width
    coverage = np.where(seen.event[:used] >= 0, seen.coverage[:used], 0.0)
    number = np.repeat(np.arange(bins), width)
    weight = np.bincount(number * 16 + causes[:used], weights=coverage, minlength=bins * 16).reshape(bins, 16)
    idle = weight.sum(axis=1) / width
    main = np.where(idle >= LEAST_SHARE, weight.argmax(axis=1), -1)
    alone = np.zeros(bins, bool)
    for gap in np.flatnonzero(seen.right - seen.left >= labelled):
        alone[max(int(seen.left[gap]) // width, 0) : int(seen.right[gap]) // width + 1] = True
    _bridge(main, alone)
    main[alone] = -1
    edges = np.concatenate(([0], np.flatnonzero(np.diff(main)) + 1, [bins]))
    return [
        Stretch(int(first) * width, int(last) * width, int(main[first]), float(idle[first:last].mean()))
        for first, last in pairwise(edges)
        if main[first] >= 0 and last - first >= LEAST_BINS
    ]


def _bridge(main: I64, alone: BOOL) -> None:
    """Give a few bins between two bins of one cause that cause, too."""
    found = np.flatnonzero((main >= 0) & ~alone)
    for before, after in pairwise(found.tolist()):
        if (
            1 < after - before <= BRIDGED + 1
            and main[before] == main[after]
            and not alone[before:after].any()
        ):
            main[before:after] = main[before]
