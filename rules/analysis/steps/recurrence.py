"""Cycles in a sequence of names: marks that come once in each, and how much of the sequence they explain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parsers.model.arrays import I64

LEAST_CYCLES = 3
LEAST_SPAN = 0.5  # of the sequence, from the first cycle on: what repeats in a part of it is a part of a step
LONGEST_WORD = 8  # names that are looked at together: a transition is rarer than the names it joins
MOST_CANDIDATES = 48  # the most regular ones
LEAST_EXPLAINED = 0.9  # of the sequence, by a typical cycle
LEAST_ALIKE = 0.9  # of the cycles
ALIKE = 0.6  # what a cycle and a typical one have in common, over what either has
COMPLETE = 0.9  # of a typical cycle
AS_GOOD = 0.02  # difference in what is explained that an evaluation every few steps makes, too
MOST_COUNTS = 20_000_000  # cycles times names: a table of this size is still quick
OF_SPACINGS = 0.8  # most cycles are equally long; a first one that warms up need not be


@dataclass(frozen=True, slots=True)
class Cycles:
    """Where each cycle begins, as ascending places in the sequence; the last one may be cut off.

    ``explained`` is the share of the sequence after the first cycle that a typical cycle accounts for; ``before`` and
    ``after`` are what it does not account for before the first and from the last on, in typical cycles. ``length`` is
    how many operations a typical cycle has.
    """

    begins: I64
    length: int
    explained: float
    before: float
    after: float


def cycles_in(names: I64, kinds: I64) -> list[Cycles]:
    """All ways to cut a sequence into cycles that are alike and explain nearly all of it, the shortest cycles first.

    ``names`` are the exact names, ``kinds`` what is alike among them (a library picks another variant of a kernel for
    another size); both count from 0.
    """
    best: dict[int, tuple[float, int, I64]] = {}
    for words in (names, *_words(kinds)):
        for spread, votes, places in _regular_marks(words):
            known = best.get(len(places))
            votes += known[1] if known else 0
            if known is None or spread < known[0]:
                best[len(places)] = spread, votes, places
            else:
                best[len(places)] = known[0], votes, known[2]
    promising = sorted(best.values(), key=lambda each: (round(each[0], 1), -each[1]))[:MOST_CANDIDATES]
    found = [cycles for _, _, places in promising if (cycles := _judged(kinds, places)) is not None]
    most = max((each.explained for each in found), default=0.0)
    return sorted(
        (each for each in found if each.explained >= most - AS_GOOD), key=lambda each: -len(each.begins)
    )


def _words(kinds: I64) -> list[I64]:
    """The sequence as numbers of words of 1, 2, 4 and 8 kinds that begin at each place."""
    words, length = [kinds], 1
    while length < LONGEST_WORD:
        one = words[-1]
        other = np.concatenate((one[length:], np.full(min(length, len(one)), -1, np.int64)))
        words.append(
            np.unique(one * (int(one.max()) + 2) + other + 1, return_inverse=True)[1].astype(np.int64)
        )
        length *= 2
    return words


def _regular_marks(words: I64) -> list[tuple[float, int, I64]]:
    """For each count of places the word that comes that often and most evenly: (spread, how many words, places)."""
    inverse, counts = np.unique(words, return_inverse=True, return_counts=True)[1:]
    order = np.argsort(inverse, kind="stable")
    first = np.cumsum(counts) - counts
    found = []
    for count in np.unique(counts).tolist():
        if not LEAST_CYCLES <= count <= len(words) // 2:
            continue
        mine = np.flatnonzero(counts == count)
        places = order[first[mine][:, None] + np.arange(count)]
        places = places[(places[:, -1] - places[:, 0]) * count >= LEAST_SPAN * (count - 1) * len(words)]
        if not len(places):
            continue
        spacing = np.diff(places, axis=1)
        usual = np.median(spacing, axis=1)
        spread = np.quantile(np.abs(spacing - usual[:, None]), OF_SPACINGS, axis=1) / usual
        chosen = int(np.lexsort((places[:, 0], np.round(spread, 3)))[0])
        found.append((float(spread[chosen]), len(places), places[chosen].astype(np.int64)))
    return found


def _judged(kinds: I64, begins: I64) -> Cycles | None:
    """The cycles that begin at these places; None where they differ or leave much unexplained."""
    count, variety = len(begins), int(kinds.max()) + 1
    if count * variety > MOST_COUNTS:
        return None
    cycle = np.searchsorted(begins, np.arange(len(kinds)), side="right")  # 0 is what comes before the first
    held = np.bincount(cycle * variety + kinds, minlength=(count + 1) * variety).reshape(count + 1, variety)
    usual = np.median(held[2:count] if count > LEAST_CYCLES else held[1:count], axis=0)
    in_common = np.minimum(held, usual).sum(axis=1)
    alike = in_common / np.maximum(np.maximum(held, usual).sum(axis=1), 1)
    sizes = held.sum(axis=1)
    judged_from = 2 if count > LEAST_CYCLES else 1
    explained = float(in_common[judged_from:].sum() / max(sizes[judged_from:].sum(), 1))
    if explained < LEAST_EXPLAINED or np.mean(alike[judged_from:count] >= ALIKE) < LEAST_ALIKE:
        return None
    length = max(round(float(usual.sum())), 1)
    complete = np.flatnonzero((in_common[1:] >= COMPLETE * length) | (alike[1:] >= ALIKE))
    first, last = int(complete[0]), min(int(complete[-1]) + 1, count - 1)
    unexplained = sizes - in_common
    before, after = float(unexplained[: first + 1].sum()), float(unexplained[last + 1 :].sum())
    return Cycles(begins[first : last + 1], length, explained, before / length, after / length)
