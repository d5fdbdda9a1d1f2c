"""The order in which a replay goes through its instructions: a valid one whatever the times become."""

from __future__ import annotations

import numpy as np

from parsers.model.arrays import I64

MOST_PASSES = 200


class NoOrder(Exception):
    """What waits for what forms a circle: the recorded times contradict one another."""


def keys_in_order(key: I64, chains: I64, first: I64, second: I64, together: I64) -> I64:
    """Recorded times, moved later as far as needed so that whatever comes first has the smaller key.

    ``chains`` numbers the chain (stream or thread) of each instruction, ascending, whose members follow one another.
    ``second`` instructions come after ``first`` ones. Instructions with the same number in ``together`` (>= 0) get the
    same key. Raises NoOrder where no such keys exist.
    """
    key = key.copy()
    place = np.arange(len(key))
    begins = np.append(True, chains[1:] != chains[:-1]) if len(key) else np.empty(0, bool)
    edges = np.flatnonzero(begins)
    meeting = np.flatnonzero(together >= 0)
    for _ in range(MOST_PASSES):
        before = key.copy()
        key = _rising(key, place, edges)
        np.maximum.at(key, second, key[first] + 1)
        if len(meeting):
            latest = np.full(int(together.max()) + 1, np.iinfo(np.int64).min)
            np.maximum.at(latest, together[meeting], key[meeting])
            key[meeting] = latest[together[meeting]]
        if np.array_equal(before, key):
            return key
    raise NoOrder


def _rising(key: I64, place: I64, edges: I64) -> I64:
    """The keys with every chain strictly ascending."""
    found = key - place
    for start, end in zip(edges.tolist(), [*edges[1:].tolist(), len(key)], strict=True):
        np.maximum.accumulate(found[start:end], out=found[start:end])
    return found + place
