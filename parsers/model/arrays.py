"""Types of the numpy columns that a recording is kept in."""

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
