"""Rounds that do the same, although not every one makes each call."""

from __future__ import annotations

import numpy as np

from parsers.model import I64

ALIKE = 0.9  # of the calls of each round: what else it does, such as telling a loss, need not come in each


def make_the_same_calls(kinds: I64, starts: I64, ends: I64) -> bool:
    """Whether calls of the same kinds are made between each of these starts and its end (exclusive)."""
    calls = [np.bincount(kinds[start:end] - kinds.min()) for start, end in zip(starts, ends, strict=True)]
    width = max(map(len, calls))
    counts = np.array([np.pad(each, (0, width - len(each))) for each in calls])
    usual = np.median(counts, axis=0)
    same = np.minimum(counts, usual).sum(axis=1)
    return not bool((same < ALIKE * np.maximum(counts.sum(axis=1), usual.sum())).any())
