"""The same numbers in a row again and again, and rounds over pairs that are not all alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from parsers.model import BOOL, I64
from parsers.model.arrays import median_of
from rules.terms import MAJORITY


class Rounds(NamedTuple):
    """From place ``first`` on, the next ``body`` numbers, again and again for ``length`` numbers in all."""

    first: int
    body: int
    length: int

    @property
    def times(self) -> int:
        return self.length // self.body


def rounds_in(token: I64, apart: I64, least: int, longest_body: int) -> Iterator[Rounds]:
    """Where at least ``least`` rounds of the same tokens follow one another, the longest stretch first.

    A round lies within one value of ``apart``. It may contain rounds of its own; both are told.
    """
    candidates: list[tuple[int, int, int]] = []  # negative length, body, first
    for body in range(1, min(longest_body, len(token) - 1) + 1):
        same = (token[body:] == token[:-body]) & (apart[body:] == apart[:-body])
        edges = np.flatnonzero(np.diff(np.concatenate(([False], same, [False])).astype(np.int8)))
        starts, ends = edges[::2], edges[1::2]
        long = ends - starts >= body * (least - 1)
        candidates += [
            (start - end - body, body, start)
            for start, end in zip(starts[long].tolist(), ends[long].tolist(), strict=True)
        ]
    around = np.full(len(token), len(token))  # numbers in a round of the innermost rounds found so far
    for length, body, first in sorted(candidates):
        outer = around[first : first - length]
        if -length <= outer[0] and (outer == outer[0]).all():
            around[first : first - length] = body
            yield Rounds(first, body, -length)


MIN_PAIR = 2  # rows that one of the rounds picks in a row: a step through time picks one


def uneven_rounds(
    name: I64,
    apart: I64,
    picks: BOOL,
    least: int,
    longest: int,
    *,
    in_pairs: bool = True,
    alike: float = MAJORITY,
) -> Iterator[I64]:
    """Where ``least`` or more rounds follow one another that begin with a pick: where each begins, and the last ends.

    A round lies within one value of ``apart``, has at most ``longest`` numbers, and goes on behind its picks as the
    others do; at least half of what it and a usual one hold is the same (``alike``). Some round picks several in a row
    (``in_pairs``), or they are not all as long.
    """
    begins = np.flatnonzero(picks & ~np.append(False, picks[:-1]))
    others = np.flatnonzero(~picks)
    following = (
        others[np.minimum(np.searchsorted(others, begins), len(others) - 1)] if len(others) else begins
    )
    if len(begins) < least:
        return
    goes_on = (np.diff(name[following]) == 0) & (np.diff(apart[begins]) == 0) & (np.diff(begins) <= longest)
    edges = np.flatnonzero(np.diff(np.concatenate(([False], goes_on, [False])).astype(np.int8)))
    for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        rounds = begins[first : last + 1]
        rounds = np.append(rounds, min(int(rounds[-1] + np.diff(rounds).min()), len(name)))
        if len(rounds) <= least:
            continue
        differ = (
            (following - begins)[first : last + 1] >= MIN_PAIR
            if in_pairs
            else np.diff(rounds, 2)[:-1] != 0  # how far the last one goes is not known
        )
        if differ.any() and _hold_the_same(name, rounds, alike):
            yield rounds


def _hold_the_same(name: I64, rounds: I64, alike: float) -> bool:
    length = np.diff(rounds)
    if length.min() < alike**2 * length.max():  # the usual one can't be like both; sorting takes longer
        return False
    known, kind = np.unique(name[rounds[0] : rounds[-1]], return_inverse=True)
    number = np.repeat(np.arange(len(rounds) - 1), np.diff(rounds))
    counts = np.bincount(number * len(known) + kind.reshape(-1), minlength=(len(rounds) - 1) * len(known))
    counts = counts.reshape(-1, len(known))
    usual = median_of(counts, axis=0)
    same = np.minimum(counts, usual).sum(axis=1)
    return bool((same >= alike * np.maximum(counts.sum(axis=1), usual.sum())).all())
