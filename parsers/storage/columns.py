"""Named columns and a few words in one file: mapped when they are read back, refused when a byte of them changed.

The columns lie one after the other, aligned; a directory follows them, and then its length and checksum, so that a file
that was cut has no directory.
"""

from __future__ import annotations

import io
import mmap
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import msgspec
import numpy as np
from isal.isal_zlib import crc32

from parsers.files.decoders import from_msgpack
from parsers.files.private_folder import hold
from parsers.model import U8, Array, Progress

Columns = Mapping[str, Array]
_MAGIC = b"STALLCOL"
_END = struct.Struct("<QI8s")  # length of the directory, its checksum, what the file is
_ALIGNMENT = 64
_CHECKED_AT_ONCE = 4 << 20  # bytes; some milliseconds
_NUMBERS = "biuf"


class NotAsWritten(ValueError):
    """The file was cut or changed, or is something else."""


class _Place(msgspec.Struct, array_like=True, frozen=True):
    dtype: str
    count: int
    offset: int
    checksum: int


class _Directory(msgspec.Struct, array_like=True, frozen=True):
    columns: dict[str, _Place]
    words: bytes


def write(path: Path, columns: Columns, words: bytes = b"") -> None:
    """Write one-dimensional columns of numbers to a new file of its owner's alone; raises ``OSError``.

    An array that stands under several names is written once.
    """
    with os.fdopen(hold(path), "wb") as file:
        write_to(file, columns, words)


def encoded(columns: Columns, words: bytes = b"") -> bytes:
    """What ``write`` would write."""
    file = io.BytesIO()
    write_to(file, columns, words)
    return file.getvalue()


def write_to(file: BinaryIO, columns: Columns, words: bytes = b"") -> None:
    """Write the same to an open file."""
    places: dict[int, _Place] = {}
    progress = Progress()
    named: dict[str, _Place] = {}
    for name, column in columns.items():
        if id(column) not in places:
            places[id(column)] = _append(file, column, progress)
        named[name] = places[id(column)]
    directory = msgspec.msgpack.encode(_Directory(named, words))
    file.write(directory)
    file.write(_END.pack(len(directory), crc32(directory), _MAGIC))


def read(path: Path, progress: Progress | None = None) -> tuple[bytes, dict[str, Array]]:
    """The words and the columns of a file; the columns are mapped and read-only.

    Raises ``NotAsWritten``, ``OSError`` and ``msgspec.MsgspecError``.
    """
    if path.stat().st_size < _END.size:
        raise NotAsWritten(f"{path} is too short")
    return _read(np.memmap(path, np.uint8, "r").view(np.ndarray), str(path), progress or Progress())


def let_go(columns: Columns) -> None:
    """Give mapped columns back to the system, which maps again what is looked at; the file stays as it is."""
    owners = {id(owner): owner for column in columns.values() if (owner := _mapping(column)) is not None}
    for owner in owners.values():
        owner.madvise(mmap.MADV_DONTNEED)


def _mapping(column: Array) -> mmap.mmap | None:
    """The mapping that a column is part of, where its pages can be given back."""
    owner: object = column
    while isinstance(owner, (np.ndarray, memoryview)):
        owner = owner.base if isinstance(owner, np.ndarray) else owner.obj
    return owner if isinstance(owner, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED") else None


def decoded(content: bytes) -> tuple[bytes, dict[str, Array]]:
    """The words and the columns of what ``encoded`` gave; raises ``NotAsWritten`` and ``msgspec.MsgspecError``."""
    if len(content) < _END.size:
        raise NotAsWritten("it is too short")
    return _read(np.frombuffer(content, np.uint8), "it", Progress())


def _read(whole: U8, path: str, progress: Progress) -> tuple[bytes, dict[str, Array]]:
    length, checksum, magic = _END.unpack(whole[-_END.size :].tobytes())
    first = len(whole) - _END.size - length
    if magic != _MAGIC or first < 0:
        raise NotAsWritten(f"{path} ends in something else than a directory of columns")
    listed = whole[first : first + length].tobytes()
    if crc32(listed) != checksum:
        raise NotAsWritten(f"the directory of {path} has changed")
    directory = from_msgpack(listed, _Directory)
    mapped: dict[_Place, Array] = {}
    for name, place in directory.columns.items():
        if place not in mapped:
            mapped[place] = _mapped(whole[:first], place, name, progress)
    return directory.words, {name: mapped[place] for name, place in directory.columns.items()}


def _append(file: BinaryIO, column: Array, progress: Progress) -> _Place:
    file.write(b"\0" * (-file.tell() % _ALIGNMENT))
    data = np.ascontiguousarray(column)
    place = _Place(data.dtype.str, len(data), file.tell(), _checksum(data.view(np.uint8), progress))
    file.write(data.view(np.uint8).data)
    return place


def _mapped(whole: U8, place: _Place, name: str, progress: Progress) -> Array:
    dtype = np.dtype(place.dtype)
    end = place.offset + place.count * dtype.itemsize
    if dtype.kind not in _NUMBERS or min(place.offset, place.count) < 0 or end > len(whole):
        raise NotAsWritten(f"there is no room for the column {name}")
    data = whole[place.offset : end]
    if _checksum(data, progress) != place.checksum:
        raise NotAsWritten(f"the column {name} has changed")
    return data.view(dtype)


def _checksum(data: U8, progress: Progress) -> int:
    checksum = 0
    for first in range(0, len(data), _CHECKED_AT_ONCE):
        progress.stop_if_wanted()
        checksum = crc32(data[first : first + _CHECKED_AT_ONCE], checksum)
    return checksum
