"""What Kineto's memory events state, as columns: each allocation and release, and the totals after it."""

from __future__ import annotations

from array import array
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
    """Gathers them row by row."""

    _rows: array[int] = field(default_factory=lambda: array("q"))

    def __len__(self) -> int:
        return len(self._rows) // len(_FIELDS)

    def add(self, start: int, thread: Any, stated: MemoryArguments | Arguments) -> None:
        """The state of one allocator after it gave or took; ``start`` in ns."""
        self._rows.extend(
            (
                _number(stated.memory_device_type),
                _number(stated.memory_device),
                start,
                _number(stated.allocated),
                _number(stated.reserved),
                _number(stated.changed_bytes),
                _number(stated.address),
                _number(thread, -1),
            )
        )

    def packed(self) -> bytes:
        """All rows as bytes, for another process on the same machine."""
        return self._rows.tobytes()

    def unpack(self, data: bytes) -> None:
        self._rows.frombytes(data)

    def columns(self) -> MemoryColumns:
        table = np.array(self._rows, np.int64).reshape(-1, len(_FIELDS))
        return MemoryColumns(*(np.ascontiguousarray(column) for column in table.T))


def _number(value: Any, otherwise: int = 0) -> int:
    number = whole_number(value)
    return number if number is not None and _MIN_NUMBER < number < _MAX_NUMBER else otherwise
