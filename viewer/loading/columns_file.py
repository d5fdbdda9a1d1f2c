"""Named columns in one file, mapped when they are read back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

Columns = Mapping[str, npt.NDArray[Any]]
_ALIGNMENT = 64
_LENGTH_BYTES = 8


def write(path: Path, columns: Columns) -> None:
    """Write one-dimensional columns; raises ``OSError``."""
    places: list[tuple[str, str, int, int]] = []
    offset = 0
    for name, column in columns.items():
        places.append((name, column.dtype.str, len(column), offset))
        offset += -(-column.nbytes // _ALIGNMENT) * _ALIGNMENT
    directory = msgspec.msgpack.encode(places)
    with path.open("wb") as file:
        file.write(len(directory).to_bytes(_LENGTH_BYTES, "little"))
        file.write(directory)
        _pad(file.tell(), file.write)
        for column in columns.values():
            np.ascontiguousarray(column).tofile(file)
            file.flush()
            _pad(file.tell(), file.write)


def read(path: Path) -> dict[str, npt.NDArray[Any]]:
    """The columns of a file, read-only; what is wrong with it raises whatever it raises."""
    whole = np.memmap(path, np.uint8, "r").view(np.ndarray)
    length = int.from_bytes(whole[:_LENGTH_BYTES].tobytes(), "little")
    directory = whole[_LENGTH_BYTES : _LENGTH_BYTES + length].tobytes()
    places = msgspec.msgpack.decode(directory, type=list[tuple[str, str, int, int]])
    first = -(-(_LENGTH_BYTES + length) // _ALIGNMENT) * _ALIGNMENT
    columns: dict[str, npt.NDArray[Any]] = {}
    for name, kind, count, offset in places:
        dtype = np.dtype(kind)
        begin = first + offset
        columns[name] = whole[begin : begin + count * dtype.itemsize].view(dtype)
    return columns


def _pad(position: int, write: Any) -> None:
    write(b"\0" * (-position % _ALIGNMENT))
