"""What Kineto's memory events state, as columns: each allocation and release, and the totals after it."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np

from parsers.chrome.decode.records import Arguments
from parsers.chrome.decode.stated import whole_number
from parsers.chrome.decode.usual_records import MemoryArguments
from parsers.model.arrays import I64, Array
from parsers.model.late import dataclass

CPU = 0  # c10::DeviceType
_FIELDS = ("device_type", "device", "start", "allocated", "reserved", "bytes", "address", "thread")
_MIN_NUMBER, _MAX_NUMBER = -(1 << 62), 1 << 62


@dataclass(frozen=True, slots=True, eq=False)
class MemoryColumns:
    """Columns of equal length in the order of the file: times in ns, sizes in bytes, ``bytes`` negative if released.

    Where a file does not state an address or its size, both are 0; ``thread`` is -1 where it is no number.
    """

    device_type: I64
    device: I64
    start: I64
    allocated: I64
    reserved: I64
    bytes: I64
    address: I64
    thread: I64

    def chosen(self, which: Array) -> MemoryColumns:
        """Some of the rows, by a mask or by their numbers."""
        return MemoryColumns(*(getattr(self, each)[which] for each in _FIELDS))


@dataclass(slots=True)
class MemorySamples:
    """Gathers them chunk by chunk, row by row."""

    _rows: array[int] = field(default_factory=lambda: array("q"))

    def __len__(self) -> int:
        return len(self._rows) // len(_FIELDS)

    def add(self, start: I64, thread: list[Any], stated: Sequence[MemoryArguments | Arguments]) -> None:
        """The states of allocators after they gave or took; ``start`` in ns."""
        rows = np.empty((len(start), len(_FIELDS)), np.int64)
        for number, column in enumerate(
            (
                _numbers([each.memory_device_type for each in stated]),
                _numbers([each.memory_device for each in stated]),
                start,
                _numbers([each.allocated for each in stated]),
                _numbers([each.reserved for each in stated]),
                _numbers([each.changed_bytes for each in stated]),
                _numbers([each.address for each in stated]),
                _numbers(thread, -1),
            )
        ):
            rows[:, number] = column
        self._rows.frombytes(rows.tobytes())

    def packed(self) -> bytes:
        """All rows as bytes, for another process on the same machine."""
        return self._rows.tobytes()

    def unpack(self, data: bytes) -> None:
        self._rows.frombytes(data)

    def columns(self) -> MemoryColumns:
        table = np.array(self._rows, np.int64).reshape(-1, len(_FIELDS))
        return MemoryColumns(*(np.ascontiguousarray(column) for column in table.T))


def _numbers(values: list[Any], otherwise: int = 0) -> I64:
    """The whole numbers that these are; ``otherwise`` for what is none, or too large a one."""
    if set(map(type, values)) != {int}:
        values = [otherwise if (number := whole_number(value)) is None else number for value in values]
    try:
        column = np.fromiter(values, np.int64, len(values))
    except OverflowError:
        column = np.array([max(_MIN_NUMBER, min(value, _MAX_NUMBER)) for value in values], np.int64)
    column[(column <= _MIN_NUMBER) | (column >= _MAX_NUMBER)] = otherwise
    return column
