"""The same numbers in a row again and again, and rounds over pairs that are not all alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from parsers.model import BOOL, I64
from parsers.model.arrays import median_of, numbered_values
from rules.terms import MAJORITY


class Rounds(NamedTuple):
    """From place ``first`` on, the next ``body`` numbers, again and again for ``length`` numbers in all."""

    first: int
    body: int
    length: int

    @property
    def times(self) -> int:
        return self.length // self.body


_FACTOR = np.int64(1_000_003)


def numbers_in_a_row(values: I64, length: int, at: I64 | slice = slice(None)) -> I64:
    """A number for so many values in a row from each place: the same for the same ones, hardly ever for others."""
    rows = np.lib.stride_tricks.sliding_window_view(values, length)[at]
    return np.asarray((rows * np.power(_FACTOR, np.arange(length))).sum(axis=1))  # it may overflow


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


MIN_SHARED = 3  # numbers, where all but one are: then the rounds are short
MIN_OTHERS = 0.2  # of such rounds are longer or shorter: fewer end a loop each
MIN_PAIR = 2  # rows that one of the rounds picks in a row: a step through time picks one


def rounds_of_pairs(name: I64, apart: I64, picks: BOOL, least: int, longest: int) -> Iterator[I64]:
    """Where ``least`` or more rounds follow one another that begin with a pick: where each begins, and the last ends.

    A round lies within one value of ``apart``, has at most ``longest`` numbers, and goes on behind its picks as the
    others do; at least half of what it and a usual one hold is the same. Some round picks several in a row.
    """
    begins = np.flatnonzero(picks & ~np.append(False, picks[:-1]))
    others = np.flatnonzero(~picks)
    if not len(others):
        return
    following = others[np.minimum(np.searchsorted(others, begins), len(others) - 1)]
    for mine in _in_a_row(name, apart, begins, following, np.zeros(len(begins), np.int64), least, longest):
        rounds = _with_end(begins[mine], len(name))
        if ((following - begins)[mine] >= MIN_PAIR).any() and _hold_the_same(name, rounds, MAJORITY):
            yield rounds


def uneven_rounds(name: I64, apart: I64, least: int, longest: int, alike: float) -> Iterator[I64]:
    """The same for rounds that begin with any number, of different lengths; the longest first, and they don't overlap.

    Of what a round and a usual one hold, the part ``alike`` is the same, or all but one number of four or more
    where a fifth of the rounds or more have another length than most.
    """
    begins = np.flatnonzero(np.append(True, np.diff(name) != 0)[: len(name)])
    kinds, kind = numbered_values(name)
    order = np.argsort(kind[begins], kind="stable")
    begins, following = begins[order], np.append(begins[1:], begins[-1:] - 1)[order]
    often = np.bincount(kind, minlength=len(kinds)) > least
    stretches = _in_a_row(name, apart, begins, following, kind[begins], least, longest)
    candidates = [_with_end(begins[mine], len(name)) for mine in stretches if often[kind[begins[mine.start]]]]
    free = np.ones(len(name), bool)
    for rounds in sorted(candidates, key=lambda each: int(each[0] - each[-1])):
        # what was found is at least as long: it lies over one of the ends
        if not (free[rounds[0]] and free[rounds[-1] - 1]):
            continue
        differ = np.diff(rounds, 2)[:-1] != 0  # how far the last one goes is not known
        like = (each for each in (rounds, rounds[:-1]) if differ.any() and _hold_the_same(name, each, alike))
        if (found := next(like, None)) is not None:
            free[found[0] : found[-1]] = False
            yield found


def _in_a_row(
    name: I64, apart: I64, begins: I64, following: I64, kind: I64, least: int, longest: int
) -> Iterator[slice]:
    """Which rounds of one kind follow one another and go on with the same number, if they are ``least`` or more."""
    goes_on = (np.diff(kind) == 0) & (np.diff(name[following]) == 0) & (np.diff(apart[begins]) == 0)
    goes_on &= np.diff(begins) <= longest
    edges = np.flatnonzero(np.diff(np.concatenate(([False], goes_on, [False])).astype(np.int8)))
    firsts, lasts = edges[::2], edges[1::2]
    enough = lasts - firsts >= least - 1
    for first, last in zip(firsts[enough].tolist(), lasts[enough].tolist(), strict=True):
        yield slice(first, last + 1)


def _with_end(begins: I64, length: int) -> I64:
    """The last round is as long as the shortest."""
    return np.append(begins, min(int(begins[-1] + np.diff(begins).min()), length))


def _hold_the_same(name: I64, rounds: I64, alike: float) -> bool:
    length = np.diff(rounds)
    # the usual one can't be like both; sorting takes longer
    if length.min() < alike**2 * length.max() and length.max() > length.min() + 2:
        return False
    known, kind = numbered_values(name[rounds[0] : rounds[-1]])
    number = np.repeat(np.arange(len(length)), length)
    counts = np.bincount(number * len(known) + kind, minlength=len(length) * len(known))
    counts = counts.reshape(-1, len(known))
    usual = median_of(counts, axis=0)
    same = np.minimum(counts, usual).sum(axis=1)
    most = np.maximum(counts.sum(axis=1), usual.sum())
    least = alike * most
    if np.bincount(length).max() <= (1 - MIN_OTHERS) * len(length):
        least = np.minimum(least, np.maximum(most - 1, MIN_SHARED))
    return bool((same >= least).all())
