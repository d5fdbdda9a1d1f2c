"""Which call of one step corresponds to which of another: by name, operator, shapes and place."""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL, I64
from parsers.model.late import dataclass
from rules.comparison.calls import NONE, Calls

# What must be equal, the strictest first; the n-th call of a key is the n-th of the same key on the other side.
_BY_NAME = (
    ("name", "outer", "operator", "dims", "region"),
    ("name", "operator", "region"),
    ("name", "region"),
    ("name",),
)
_BY_SITE = (
    ("family", "outer", "operator", "dims", "region"),
    ("family", "operator", "dims", "region"),
    ("family", "outer", "operator", "region"),
    ("base", "family", "region"),
    ("family", "operator"),
)
_KNOWN = "operator"  # a site without one says nothing


@dataclass(frozen=True, slots=True, eq=False)
class Matched:
    """Places in two ``Calls``: ``same`` and ``counterpart`` are pairs (n, 2); of what is left, ``run_before`` and
    ``run_after`` number the stretch between matched heavy kernels in which a call lies (-1: it is matched)."""

    same: I64
    counterpart: I64
    run_before: I64
    run_after: I64


def match(before: Calls, after: Calls) -> Matched:
    """Match two steps; the work grows as sorting them does."""
    free = np.ones(len(before), bool), np.ones(len(after), bool)
    same = [_join(before, after, free, key) for key in _BY_NAME]
    sites = [_join(before, after, free, key) for key in _BY_SITE]
    pairs = np.concatenate([*same, *sites])
    anchors = _in_order(pairs)
    runs = [
        np.where(left, np.searchsorted(anchors[:, side], np.arange(len(left))), NONE)
        for side, left in enumerate(free)
    ]
    placed = _by_place(before, after, free, runs)
    return Matched(
        np.concatenate(same),
        np.concatenate([*sites, placed]),
        np.where(free[0], runs[0], NONE),
        np.where(free[1], runs[1], NONE),
    )


def _join(before: Calls, after: Calls, free: tuple[BOOL, BOOL], key: tuple[str, ...]) -> I64:
    """Pairs of free calls whose ``key`` is equal; they are free no more."""
    left = [
        np.flatnonzero(
            is_free & (getattr(calls, _KNOWN) >= 0 if _KNOWN in key and "name" not in key else True)
        )
        for calls, is_free in zip((before, after), free, strict=True)
    ]
    columns = [
        np.concatenate(
            [getattr(calls, name)[places] for calls, places in zip((before, after), left, strict=True)]
        )
        for name in key
    ]
    pairs = _paired(columns, left[0], left[1])
    free[0][pairs[:, 0]] = False
    free[1][pairs[:, 1]] = False
    return pairs


def _paired(columns: list[I64], before: I64, after: I64) -> I64:
    """The n-th of each key before with the n-th after; ``columns`` hold the keys of both, one after the other."""
    if not len(before) or not len(after):
        return np.empty((0, 2), np.int64)
    key = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        key = np.unique(key * (int(column.max()) + 2) + column + 1, return_inverse=True)[1]
    numbered = [_numbered(part) for part in (key[: len(before)], key[len(before) :])]
    most = max(len(before), len(after)) + 1
    one, other = (
        part * most + nth
        for part, nth in zip((key[: len(before)], key[len(before) :]), numbered, strict=True)
    )
    _, first, second = np.intersect1d(one, other, assume_unique=True, return_indices=True)
    return np.column_stack((before[first], after[second]))


def _numbered(key: I64) -> I64:
    """How many equal keys come before each."""
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    begins = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    nth = np.arange(len(key)) - np.repeat(begins, np.diff(np.append(begins, len(key))))
    found = np.empty(len(key), np.int64)
    found[order] = nth
    return found


def _in_order(pairs: I64) -> I64:
    """Pairs that come in one order on both sides: those furthest out of place are dropped, round by round."""
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
    while len(pairs):
        place = np.argsort(np.argsort(pairs[:, 1], kind="stable"), kind="stable")
        away = np.abs(place - np.arange(len(pairs)))
        if not away.any():
            break
        pairs = pairs[away <= away.max() // 2]
    return pairs


def _by_place(before: Calls, after: Calls, free: tuple[BOOL, BOOL], runs: list[I64]) -> I64:
    """Pairs of what is left, of one kind and one stretch, where a stretch has as many of it on both sides."""
    left = np.flatnonzero(free[0]), np.flatnonzero(free[1])
    kinds = [
        np.column_stack((runs[side][left[side]], calls.family[left[side]]))
        for side, calls in enumerate((before, after))
    ]
    if not len(left[0]) or not len(left[1]):
        return np.empty((0, 2), np.int64)
    _, key = np.unique(np.concatenate(kinds), axis=0, return_inverse=True)
    key = key.reshape(-1)
    counts = [
        np.bincount(part, minlength=int(key.max()) + 1) for part in (key[: len(left[0])], key[len(left[0]) :])
    ]
    equal = counts[0] == counts[1]
    chosen = [
        part[equal[own]] for part, own in zip(left, (key[: len(left[0])], key[len(left[0]) :]), strict=True)
    ]
    pairs = _paired(
        [
            np.concatenate([runs[0][chosen[0]], runs[1][chosen[1]]]),
            np.concatenate([before.family[chosen[0]], after.family[chosen[1]]]),
        ],
        chosen[0],
        chosen[1],
    )
    free[0][pairs[:, 0]] = False
    free[1][pairs[:, 1]] = False
    return pairs
