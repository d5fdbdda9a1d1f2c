"""Types of the numpy columns that a recording is kept in, and how they are put in order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
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
_WORTH_COUNTING = (
    8  # times as many numbers as there are values: so many are counted sooner than the values are sorted
)

_WORTH_A_TABLE = 1_000  # of fewer values each is found sooner than a table is made


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
    """The distinct values ascending: the quickest where they come in a few stretches that ascend."""
    return _each_once(merged(values))


def distinct_values(values: npt.ArrayLike) -> Array:
    """The distinct values ascending. ``np.unique`` finds them with a table, which takes up to 60 times as long.

    It also loads numpy's masked arrays to ask whether it was given one, as ``np.median`` does. Values that ascend
    already, as most do, are not sorted, which takes ten times as long as to look.
    """
    flat = np.asarray(values).ravel()
    if (flat[1:] >= flat[:-1]).all():
        return _each_once(flat)
    if len(flat) >= _WORTH_A_TABLE and flat.dtype.kind == "i":
        low, high = int(flat.min()), int(flat.max())
        if high - low < _WORTH_COUNTING * len(flat):
            seen = np.bincount(np.subtract(flat, low, dtype=np.int64)).nonzero()[0]
            return np.asarray((seen + low).astype(flat.dtype))
    return _each_once(np.sort(flat))


def numbered_values(values: Array) -> tuple[Array, I64]:
    """The distinct values ascending, and which of them each is: counted where they are small numbers, else sorted."""
    if len(values) and np.can_cast(values.dtype, np.int64):
        low = min(int(values.min()), 0)
        if int(values.max()) - low < _WORTH_COUNTING * len(values):
            numbers = np.subtract(values, low, dtype=np.int64) if low else values
            seen = np.bincount(numbers) > 0
            return (seen.nonzero()[0] + low).astype(values.dtype), (seen.cumsum() - 1).take(numbers)
    distinct, which = np.unique(values, return_inverse=True)
    return distinct, which.reshape(-1)


def numbered_rows(*columns: Array) -> I64:
    """The same number for the same row of all columns, whole numbers; numbers rise like the rows."""
    number = np.zeros(len(columns[0]), np.int64)
    for column in columns if len(number) else ():
        place = numbered_values(column)[1]
        number = numbered_values(number * (int(place.max()) + 1) + place)[1]
    return number


def distinct_rows(rows: Array) -> Array:
    """The distinct rows of a table ascending."""
    return _numbered_rows(rows)[0]


def _numbered_rows(rows: Array) -> tuple[Array, I64]:
    """The same, and which of them each is."""
    which = numbered_rows(*rows.T)
    one_of_each = np.empty(int(which.max(initial=-1)) + 1, np.int64)
    one_of_each[which] = np.arange(len(which))
    return rows[one_of_each], which


def _each_once(ordered: Array) -> Array:
    first = np.empty(len(ordered), bool)
    first[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return np.asarray(ordered[first])


def among(values: Array, ascending: Array) -> BOOL:
    """Whether each value occurs in an ascending column."""
    if not len(ascending):
        return np.zeros(len(values), bool)
    return np.asarray(ascending[place_if_there(values, ascending)] == values)


def place_if_there(values: Array, ascending: Array) -> Array:
    """Where each value stands in an ascending column, which is not empty; of what is not in it any place.

    Many indices are looked up in a table, which takes up to a tenth of the time of searching for each.
    """
    if ascending.dtype.kind == "i" == values.dtype.kind and len(values) >= _WORTH_A_TABLE:
        last = int(ascending[-1])
        if last < _WORTH_COUNTING * len(values) and ascending[0] >= 0:
            table = np.zeros(last + 1, np.int32)
            table[ascending] = np.arange(len(ascending), dtype=np.int32)
            return np.asarray(table.take(values, mode="clip"))
    return np.minimum(ascending.searchsorted(values), len(ascending) - 1)


def place_in(keys: I64, wanted: I64) -> I64:
    """For each wanted number the place of the first equal one in ``keys``; -1 without one."""
    if not len(keys):
        return np.full(len(wanted), -1, np.int64)
    order = np.argsort(keys, kind="stable")
    at = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
    found = order[at]
    return np.where(keys[found] == wanted, found, -1)


def last_of_group(group: Array, start: I64, wanted: Array, when: I64) -> I64:
    """For each (wanted, when) the last place of (group, start), sorted, that is not after it; -1 without one."""
    both = np.concatenate((group, wanted)), np.concatenate((start, when))
    asked = np.concatenate((np.zeros(len(group), np.int8), np.ones(len(wanted), np.int8)))
    order = np.lexsort((asked, both[1], both[0]))
    before = np.cumsum(asked[order] == 0) - 1
    found = np.empty(len(wanted), np.int64)
    questions = asked[order] == 1
    found[order[questions] - len(group)] = before[questions]
    return found


def without(values: npt.ArrayLike, others: npt.ArrayLike) -> Array:
    """The distinct ``values`` that are none of the others, ascending."""
    found = distinct_values(values)
    return np.asarray(found[~among(found, np.sort(others, axis=None))])


def in_both(values: npt.ArrayLike, others: npt.ArrayLike) -> Array:
    """The distinct ``values`` that are among the others, too, ascending."""
    found = distinct_values(values)
    return np.asarray(found[among(found, np.sort(others, axis=None))])


def median_of(values: npt.ArrayLike, axis: int | None = None) -> Any:
    """``np.median``, twice as quick for a short column."""
    ordered, along = np.sort(values, axis=axis), axis or 0
    count = ordered.shape[along]
    if not count:
        return ordered.mean(along)
    last = ordered.take(-1, along)  # where NaN, which is no number, stands
    if axis is None:
        low, high = ordered[(count - 1) // 2], ordered[count // 2]
        if ordered.dtype.kind != "f":
            low, high = np.float64(low), np.float64(high)
        return (low + high) / 2 if last == last else last
    found = ordered.take([(count - 1) // 2, count // 2], along).mean(along)
    return np.where(last == last, found, last)


def percentile_of(values: npt.ArrayLike, percentile: float, axis: int | None = None) -> Any:
    """``np.percentile`` of numbers that are none of them NaN: between two of them on a straight line."""
    ordered, along = np.sort(values, axis=axis), axis or 0
    place = percentile / 100 * (ordered.shape[along] - 1)
    low, high = ordered.take([int(place), math.ceil(place)], along).swapaxes(0, along)
    part, apart = place - int(place), high - low
    return low + apart * part if part < 0.5 else high - apart * (1 - part)  # as numpy rounds


def per_value(values: Array, judge: Callable[[Any], Any], dtype: npt.DTypeLike = np.int64) -> Array:
    """What ``judge`` says of each value, or of each row as a list: asked once for each distinct one, ascending."""
    distinct, which = numbered_values(values) if values.ndim == 1 else _numbered_rows(values)
    return np.array([judge(each) for each in distinct.tolist()], dtype)[which]


def rows_by(keys: Array) -> Iterator[tuple[Any, I64]]:
    """Each distinct key, ascending, with the rows that bear it, ascending: one sort for all of them.

    ``keys`` is a column (n,), or (n, k) for keys of several numbers, which are given as lists.
    """
    if not len(keys):
        return
    order = np.argsort(keys, kind="stable") if keys.ndim == 1 else np.lexsort(keys.T[::-1])
    ordered = keys[order]
    changes = ordered[1:] != ordered[:-1]
    first = [0, *((changes if keys.ndim == 1 else changes.any(axis=1)).nonzero()[0] + 1).tolist()]
    for key, begin, end in zip(ordered[first].tolist(), first, [*first[1:], len(order)], strict=True):
        yield key, order[begin:end]
