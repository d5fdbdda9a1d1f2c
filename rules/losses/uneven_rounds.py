"""Loops over pairs, whose rounds pick two rows and are not all alike: some labels differ, others are the same."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from parsers.model import BOOL, I64
from parsers.model.arrays import median_of
from rules.terms import MAJORITY

MIN_PAIR = 2  # rows that one of the rounds picks in a row: a step through time picks one


def uneven_rounds(name: I64, apart: I64, picks: BOOL, least: int, longest: int) -> Iterator[I64]:
    """Where ``least`` or more rounds follow one another that begin with a pick: where each begins, and the last ends.

    A round lies within one value of ``apart``, has at most ``longest`` numbers, and goes on behind its picks as the
    others do; at least half of what it and a usual one hold is the same.
    """
    begins = np.flatnonzero(picks & ~np.append(False, picks[:-1]))
    others = np.flatnonzero(~picks)
    following = (
        others[np.minimum(np.searchsorted(others, begins), len(others) - 1)] if len(others) else begins
    )
    if len(begins) < least:
        return
    alike = (np.diff(name[following]) == 0) & (np.diff(apart[begins]) == 0) & (np.diff(begins) <= longest)
    edges = np.flatnonzero(np.diff(np.concatenate(([False], alike, [False])).astype(np.int8)))
    for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        rounds = begins[first : last + 1]
        rounds = np.append(rounds, min(int(rounds[-1] + np.diff(rounds).min()), len(name)))
        pairs = (following - begins)[first : last + 1] >= MIN_PAIR
        if len(rounds) > least and pairs.any() and _hold_the_same(name, rounds):
            yield rounds


def _hold_the_same(name: I64, rounds: I64) -> bool:
    known, kind = np.unique(name[rounds[0] : rounds[-1]], return_inverse=True)
    number = np.repeat(np.arange(len(rounds) - 1), np.diff(rounds))
    counts = np.bincount(number * len(known) + kind.reshape(-1), minlength=(len(rounds) - 1) * len(known))
    counts = counts.reshape(-1, len(known))
    usual = median_of(counts, axis=0)
    same = np.minimum(counts, usual).sum(axis=1)
    return bool((same >= MAJORITY * np.maximum(counts.sum(axis=1), usual.sum())).all())
