"""Stretches of many small gaps of one cause, which are too narrow to be labelled one by one."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from viewer.timeline.geometry.columns import Columns

LEAST_SHARE = 0.15  # of the time of a stretch that is idle
LEAST_CHANGES = (
    0.2  # of the columns of a bin begin another gap than the column before: it is not one long gap
)
LEAST_BINS = 6


@dataclass(frozen=True, slots=True)
class Stretch:
    """Columns [first, last) that are idle for ``share`` of their time, mostly because of ``cause``."""

    first: int
    last: int
    cause: int
    share: float


def dense_stretches(seen: Columns, causes: npt.NDArray[np.int32], width: int) -> list[Stretch]:
    """Runs of bins, each ``width`` columns wide, whose idle time has one main cause and is spread over many gaps.

    ``causes`` is the cause of every column's event, at most 15.
    """
    bins = len(seen.coverage) // width
    if bins < LEAST_BINS:
        return []
    used = bins * width
    coverage = np.where(seen.event[:used] >= 0, seen.coverage[:used], 0.0)
    number = np.repeat(np.arange(bins), width)
    weight = np.bincount(number * 16 + causes[:used], weights=coverage, minlength=bins * 16).reshape(bins, 16)
    idle = weight.sum(axis=1) / width
    changes = np.bincount(number[1:], weights=np.diff(seen.event[:used]) != 0, minlength=bins) / width
    main = np.where((idle >= LEAST_SHARE) & (changes >= LEAST_CHANGES), weight.argmax(axis=1), -1)
    edges = np.concatenate(([0], np.flatnonzero(np.diff(main)) + 1, [bins]))
    return [
        Stretch(int(first) * width, int(last) * width, int(main[first]), float(idle[first:last].mean()))
        for first, last in itertools.pairwise(edges)
        if main[first] >= 0 and last - first >= LEAST_BINS
    ]
