"""Nsight Systems' packed process and thread numbers, and small numbers for large ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from parsers.model.arrays import ABSENT, BOOL, I32, I64

UNKNOWN = ABSENT
FARTHEST_NS = -ABSENT // 2  # no clock of a recording is farther from its zero
_THREAD_MASK = 0xFFFFFF


def is_possible(time: I64) -> BOOL:
    """Which times some clock may have stated."""
    return (time > -FARTHEST_NS) & (time < FARTHEST_NS)


def global_process(global_id: int) -> int:
    """The globalPid that a globalTid belongs to; ids may be negative."""
    return global_id & ~_THREAD_MASK


def process_id(global_id: int) -> int:
    """The operating system's process number inside a globalPid or globalTid."""
    return (global_id >> 24) & 0xFFFFFF


def thread_id(global_tid: int) -> int:
    """The operating system's thread number inside a globalTid."""
    return global_tid & _THREAD_MASK


class Codes:
    """Gives each different 64-bit value the next small number, over many batches."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self._known: I64 = np.empty(0, np.int64)  # sorted
        self._code_of_known: I32 = np.empty(0, np.int32)
        self._code_from_low: I32 = np.empty(
            0, np.int32
        )  # by distance from the lowest; -1 for what is not known

    def of(self, values: I64) -> I32:
        if not len(values):
            return np.empty(0, np.int32)
        low, high = values.min(), values.max()
        if low == high:
            return np.broadcast_to(self._of_distinct(values[:1]), len(values))
        if len(self._code_from_low) and self._known[0] <= low and high <= self._known[-1]:
            known: I32 = self._code_from_low[values - self._known[0]]
            if known.min() >= 0:
                return known
        import pyarrow as pa

        encoded: Any = pa.array(values).dictionary_encode()
        codes: I32 = self._of_distinct(encoded.dictionary.to_numpy())[encoded.indices.to_numpy()]
        return codes

    def _of_distinct(self, values: I64) -> I32:
        new = np.setdiff1d(values, self._known, assume_unique=True) if len(self._known) else values
        if len(new):
            new = values[np.isin(values, new)]  # in the order they came
            codes = np.arange(len(self.values), len(self.values) + len(new), dtype=np.int32)
            self.values += new.tolist()
            known = np.concatenate((self._known, new))
            order = np.argsort(known)
            self._known = known[order]
            self._code_of_known = np.concatenate((self._code_of_known, codes))[order]
            self._code_from_low = self._by_distance()
        found: I32 = self._code_of_known[np.searchsorted(self._known, values)]
        return found

    def _by_distance(self) -> I32:
        """The codes as an array over the known values; empty where these lie far apart."""
        reach = int(self._known[-1]) - int(self._known[0])
        if reach > _MAX_CODE:
            return np.empty(0, np.int32)
        codes = np.full(reach + 1, -1, np.int32)
        codes[self._known - self._known[0]] = self._code_of_known
        return codes


_MAX_CODE = 0xFFFFF


class RowCodes:
    """The same for rows of several values: ``keys[code]`` is the tuple.

    Beyond a million different values in one column, the further ones count as one.
    """

    def __init__(self, width: int) -> None:
        self._columns = [Codes() for _ in range(width)]
        self._rows = Codes()
        self.keys: list[tuple[int, ...]] = []

    def of(self, *columns: I64) -> I32:
        packed = np.zeros(len(columns[0]), np.int64)
        for codes, column in zip(self._columns, columns, strict=True):
            packed = packed << 20 | np.minimum(codes.of(column), _MAX_CODE)
        numbers = self._rows.of(packed)
        for row in self._rows.values[len(self.keys) :]:
            parts = []
            for codes in reversed(self._columns):
                parts.append(codes.values[row & _MAX_CODE])
                row >>= 20
            self.keys.append(tuple(reversed(parts)))
        return numbers
