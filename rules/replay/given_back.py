"""Memory that a program gives back to the driver beside something else that it does in the same place of each step."""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL
from parsers.model.names.calls import Call
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.replay.replay import replay_of
from rules.replay.surroundings import surroundings_of
from rules.terms import MAJORITY

MIN_FREED = 2.0  # calls each time


def given_back_beside(analysis: Analysis, long: BOOL) -> BOOL:
    """The calls that allocate and free memory, if the program frees most of it right beside ``long`` times.

    ``long`` says of host nodes whether such a time lies before their call. What PyTorch frees inside of an operator,
    because memory ran full, does not count.
    """
    host = replay_of(analysis).host
    allocates, frees = _allocating(analysis)
    # a run of calls that free, one directly behind the other, and whether a long time is before or behind it
    same = host.thread[1:] == host.thread[:-1]
    begins = frees & ~(np.append(False, frees[:-1]) & np.append(False, same))
    begins |= frees & long
    run = np.cumsum(begins)
    behind = np.append(long[1:], False) & np.append(same, False)
    beside = np.bincount(run[frees], (long | behind)[frees], minlength=int(run.max(initial=0)) + 1) > 0
    asked = frees & beside[run] & (surroundings_of(analysis).whole_operator < 0)
    counted = int(np.count_nonzero(asked))
    if counted < max(MIN_FREED * np.count_nonzero(long), 1) or counted < MAJORITY * frees.sum():
        return np.zeros(len(host), bool)
    return allocates


def empties_cache(analysis: Analysis) -> bool:
    """Whether a program gives memory back by itself, which its operators then allocate anew."""
    allocates, frees = _allocating(analysis)
    outside = surroundings_of(analysis).whole_operator < 0
    return bool(
        np.count_nonzero(frees & outside) > MAJORITY * np.count_nonzero(frees)
        and np.count_nonzero(allocates & ~frees & ~outside) > MAJORITY * np.count_nonzero(allocates & ~frees)
    )


def _allocating(analysis: Analysis) -> tuple[BOOL, BOOL]:
    """The calls that allocate and free memory, and those of them that free it."""
    host = replay_of(analysis).host
    allocates = np.asarray(host.call == Call.ALLOCATE)
    return allocates, allocates & named(analysis.trace, host.event, lambda name: "Free" in name)
