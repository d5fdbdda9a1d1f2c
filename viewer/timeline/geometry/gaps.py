"""The idle time of a device as it is drawn: neighbouring intervals of one cause joined into one gap."""

from __future__ import annotations

import itertools
from functools import lru_cache
from itertools import pairwise

import numpy as np

from parsers.model.arrays import BOOL, I32, I64
from parsers.model.late import dataclass
from rules.analysis.idle.causes import Cause, IdleTable
from viewer.timeline.geometry.columns import Columns
from viewer.timeline.geometry.row_index import Row, row_index

PERIOD = 24  # fine lines: every pattern repeats after this many


@lru_cache(maxsize=8)
def hatching(line: int) -> BOOL:
    """Which pixels of a tile are painted: causes x rows x columns; ``line`` is the width of a fine line in pixels."""
    y, x = np.mgrid[0 : PERIOD * line, 0 : PERIOD * line] // line
    rising, falling = x + y, x - y
    tiles = {
        Cause.LAUNCH: rising % 6 < 1,
        Cause.INPUT: falling % 8 < 2,
        Cause.HOST: rising % 8 < 2,
        Cause.SYNCHRONIZATION: falling % 6 < 1,
        Cause.ALLOCATOR: (rising % 8 < 1) | (falling % 8 < 1),
        Cause.DEPENDENCY: x % 6 < 1,
        Cause.UNKNOWN: rising % 12 < 1,
        Cause.NEIGHBOURS: y % 6 < 1,
    }
    return np.stack([tiles[cause] for cause in Cause])


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """``row`` holds the joined gaps, its names are causes; ``first`` is the row of the idle table each begins with.

    ``culprit`` is, for each gap, the culprit that costs most of it; ``several`` says that there are others.
    """

    row: Row
    first: I64
    culprit: I32
    several: BOOL


def device_gaps(idle: IdleTable) -> dict[int, Gaps]:
    """The gaps of every device."""
    if not len(idle):
        return {}
    edges = np.concatenate(([0], np.flatnonzero(np.diff(idle.device)) + 1, [len(idle)]))
    parts = [slice(int(first), int(last)) for first, last in itertools.pairwise(edges)]
    return {int(idle.device[part.start]): _joined(idle, part) for part in parts}


def _joined(idle: IdleTable, part: slice) -> Gaps:
    start, end, cause, culprit = idle.start[part], idle.end[part], idle.cause[part], idle.culprit[part]
    fresh = np.concatenate(([True], (start[1:] != end[:-1]) | (cause[1:] != cause[:-1])))
    first = np.flatnonzero(fresh)
    last = np.append(first[1:], len(start)) - 1
    gap = np.cumsum(fresh) - 1
    order = np.lexsort((culprit, gap))
    pair = np.concatenate(([True], (np.diff(gap[order]) != 0) | (np.diff(culprit[order]) != 0)))
    begins = np.flatnonzero(pair)
    spent = np.add.reduceat((end - start)[order], begins)
    owner, blamed = gap[order][begins], culprit[order][begins]
    ranked = np.lexsort((-spent, owner))
    heaviest = ranked[np.concatenate(([True], np.diff(owner[ranked]) != 0))]
    row = row_index(start[first].copy(), end[last].copy(), cause[first].astype(np.int32))
    return Gaps(row, first + part.start, blamed[heaviest].astype(np.int32), np.bincount(owner) > 1)


MIN_SHARE = 0.15  # of the time of a stretch that is idle
MIN_BINS = 6
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
    if bins < MIN_BINS:
        return []
    used = bins * width
    coverage = np.where(seen.event[:used] >= 0, seen.coverage[:used], 0.0)
    number = np.repeat(np.arange(bins), width)
    weight = np.bincount(number * 16 + causes[:used], weights=coverage, minlength=bins * 16).reshape(bins, 16)
    idle = weight.sum(axis=1) / width
    main = np.where(idle >= MIN_SHARE, weight.argmax(axis=1), -1)
    alone = np.zeros(bins, bool)
    for gap in np.flatnonzero(seen.right - seen.left >= labelled):
        alone[max(int(seen.left[gap]) // width, 0) : int(seen.right[gap]) // width + 1] = True
    _bridge(main, alone)
    main[alone] = -1
    edges = np.concatenate(([0], np.flatnonzero(np.diff(main)) + 1, [bins]))
    return [
        Stretch(int(first) * width, int(last) * width, int(main[first]), float(idle[first:last].mean()))
        for first, last in pairwise(edges)
        if main[first] >= 0 and last - first >= MIN_BINS
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
