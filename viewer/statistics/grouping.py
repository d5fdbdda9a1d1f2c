"""Count, total and percentiles of values that are grouped by an integer key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from parsers.model.arrays import F64, I64, Array


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Equal columns, one row for each key that occurs, sorted by key; values are in the unit of the input."""

    key: I64
    count: I64
    total: I64
    least: I64
    median: I64
    p99: I64
    most: I64

    @property
    def mean(self) -> F64:
        return self.total / np.maximum(self.count, 1)


def grouped(key: npt.NDArray[np.integer], value: I64) -> Groups:
    """Statistics of ``value`` for each distinct ``key``; percentiles are values that occur (nearest rank)."""
    order = np.lexsort((value, key))
    keys: I64 = key[order].astype(np.int64)
    value = value[order]
    first = (
        np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
        if len(keys)
        else np.empty(0, np.int64)
    )
    last = np.append(first[1:], len(keys))[: len(first)]
    count = last - first
    cumulated = np.concatenate(([0], np.cumsum(value)))

    def rank(share: float) -> I64:
        return value[first + np.ceil(share * count).astype(np.int64).clip(1) - 1] if len(first) else value[:0]

    return Groups(
        keys[first],
        count,
        cumulated[last] - cumulated[first],
        rank(0.0),
        rank(0.5),
        rank(0.99),
        rank(1.0),
    )


def clipped(start: I64, end: I64, t0: int, t1: int) -> I64:
    """How much of each interval lies in [t0, t1); never negative."""
    inside: I64 = np.maximum(np.minimum(end, t1) - np.maximum(start, t0), 0)
    return inside


def ordered(columns: Mapping[str, Array], by: str) -> dict[str, Array]:
    """Equal columns with the largest value of one of them first; what is equal keeps its order."""
    order = np.argsort(-columns[by], kind="stable")
    return {name: column[order] for name, column in columns.items()}
