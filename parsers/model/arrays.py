"""Types of the numpy columns that a recording is kept in, and how they are put in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
BOOL = npt.NDArray[np.bool_]
F64 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]

MAX_NUMBER = 1 << 62  # two of them add up to no more than 64 bits hold
ABSENT = -MAX_NUMBER  # stands for a number that is not there


def stable_order(values: Array, within: Array | None = None) -> I64 | None:
    """What sorts ``values``, or ``values`` inside equal numbers ``within``; None where they are sorted."""
    falls = values[1:] < values[:-1]
    if within is not None:
        falls = ((within[1:] == within[:-1]) & falls) | (within[1:] < within[:-1])
    if not falls.any():
        return None
    return np.argsort(values, kind="stable") if within is None else np.lexsort((values, within))


def merged(values: Array) -> Array:
    """The values ascending; quick where they come in a few stretches that ascend, which are only merged."""
    return np.sort(values, kind="stable")


def ascending(values: Array) -> Array:
    """The distinct values ascending: where most ascend already, which is far quicker than ``np.unique``."""
    ordered = merged(values)
    distinct: Array = ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]]
    return distinct


def rows_by(keys: Array) -> Iterator[tuple[Any, I64]]:
    """Each distinct key, ascending, with the rows that bear it, ascending: one sort for all of them.

    ``keys`` is a column (n,), or (n, k) for keys of several numbers, which are given as lists.
    """
    if not len(keys):
        return
    order = np.argsort(keys, kind="stable") if keys.ndim == 1 else np.lexsort(keys.T[::-1])
    ordered = keys[order]
    changes = ordered[1:] != ordered[:-1]
    first = np.flatnonzero(np.append(True, changes if keys.ndim == 1 else changes.any(axis=1)))
    yield from zip(ordered[first].tolist(), np.split(order, first[1:]), strict=True)
