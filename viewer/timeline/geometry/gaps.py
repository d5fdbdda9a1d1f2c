"""The idle time of a device as it is drawn: neighbouring intervals of one cause joined into one gap."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from parsers.model.arrays import BOOL, I32, I64
from viewer.timeline.geometry.row_index import Row, row_index

if TYPE_CHECKING:
    from rules.analysis.idle.causes import IdleTable


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
