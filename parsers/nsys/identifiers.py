"""Nsight Systems' packed process and thread numbers, and small numbers for large ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from parsers.sqlite.database import ABSENT

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

UNKNOWN = ABSENT
FARTHEST_NS = -ABSENT // 2  # no clock of a recording is farther from its zero
_THREAD_MASK = 0xFFFFFF


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
        self._code: dict[int, int] = {}

    def one(self, value: int) -> int:
        """The number of one value."""
        code = self._code.get(value)
        if code is None:
            code = self._code[value] = len(self.values)
            self.values.append(value)
        return code

    def of(self, values: I64) -> I32:
        """The number of each value."""
        import pyarrow as pa

        encoded: Any = pa.array(values).dictionary_encode()
        codes = np.array([self.one(value) for value in encoded.dictionary.to_pylist()], np.int32)
        return codes[encoded.indices.to_numpy()] if len(codes) else np.empty(0, np.int32)


_MOST = 0xFFFFF


class RowCodes:
    """The same for rows of several values: ``keys[code]`` is the tuple.

    Beyond a million different values in one column, the further ones count as one.
    """

    def __init__(self, width: int) -> None:
        self._columns = [Codes() for _ in range(width)]
        self._rows = Codes()
        self.keys: list[tuple[int, ...]] = []

    def of(self, *columns: I64) -> I32:
        """The number of each row of equally long columns."""
        packed = np.zeros(len(columns[0]), np.int64)
        for codes, column in zip(self._columns, columns, strict=True):
            packed = packed << 20 | np.minimum(codes.of(column), _MOST)
        numbers = self._rows.of(packed)
        for row in self._rows.values[len(self.keys) :]:
            parts = []
            for codes in reversed(self._columns):
                parts.append(codes.values[row & _MOST])
                row >>= 20
            self.keys.append(tuple(reversed(parts)))
        return numbers
