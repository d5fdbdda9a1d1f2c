"""Rounds that do the same, although not every one makes each call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from parsers.model.arrays import I64, median_of
from parsers.model.late import dataclass
from rules.terms import NEARLY_ALL


@dataclass(frozen=True, slots=True, eq=False)
class Rounds:
    """Where the rounds of a step begin (host nodes), and where the last of them ends (exclusive)."""

    starts: I64
    end: int


def number_of(steps: Sequence[Rounds]) -> str:
    """How many rounds the steps have: "8", or "up to 8"."""
    fewest, most = min(len(each.starts) for each in steps), max(len(each.starts) for each in steps)
    return f"{most}" if fewest == most else f"up to {most}"


def make_the_same_calls(kinds: I64, starts: I64, ends: I64, first: Sequence[float] = ()) -> bool:
    """Whether calls of the same kinds are made between each of these starts and its end (exclusive).

    ``first``: how much of the calls of the first rounds and the usual one of the others have to be the same.
    """
    calls = [np.bincount(kinds[start:end] - kinds.min()) for start, end in zip(starts, ends, strict=True)]
    width = max(map(len, calls))
    counts = np.array([np.pad(each, (0, width - len(each))) for each in calls])
    usual = median_of(counts[min(len(first), len(counts) - 1) :], axis=0)
    same = np.minimum(counts, usual).sum(axis=1)
    least = np.full(len(counts), NEARLY_ALL)
    least[: len(first)] = first
    return not bool((same < least * np.maximum(counts.sum(axis=1), usual.sum())).any())
