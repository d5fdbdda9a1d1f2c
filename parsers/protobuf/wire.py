"""Reads protocol-buffer messages by field number, checking every length against what is there."""

from __future__ import annotations

import struct
from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
MAX_VARINT_LENGTH = 10
_LOW_64 = (1 << 64) - 1


class Damaged(ValueError):
    """The bytes are no complete protocol-buffer message."""


def fields(message: bytes | memoryview) -> Iterator[tuple[int, int, int | memoryview]]:
    """(field number, wire type, value) of a message; raises ``Damaged`` where it is cut or garbled.

    Varints come as unsigned 64-bit int, fixed widths and byte strings as memoryview.
    """
    view = memoryview(message)
    at, end = 0, len(view)
    while at < end:
        key, at = varint(view, at, end)
        wire, number = key & 7, key >> 3
        if number == 0:
            raise Damaged("field number 0")
        if wire == BYTES:
            size, at = varint(view, at, end)
            stop = at + size
            if stop > end:
                raise Damaged("a field ends beyond its message")
            yield number, wire, view[at:stop]
            at = stop
        elif wire == VARINT:
            value, at = varint(view, at, end)
            yield number, wire, value
        elif wire in (FIXED64, FIXED32):
            stop = at + (8 if wire == FIXED64 else 4)
            if stop > end:
                raise Damaged("a number ends beyond its message")
            yield number, wire, view[at:stop]
            at = stop
        else:
            raise Damaged(f"wire type {wire}")


def varint(view: memoryview, at: int, end: int) -> tuple[int, int]:
    """A number that begins at a place, and where it ends; raises ``Damaged`` where it is cut."""
    if at >= end:
        raise Damaged("a number is cut")
    byte = view[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    for position in range(at + 1, min(at + MAX_VARINT_LENGTH, end)):
        byte = view[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _LOW_64, position + 1
        shift += 7
    raise Damaged("a number is cut or too long")


def text(value: int | memoryview) -> str:
    """A string field; bytes that are no text become U+FFFD."""
    return "" if isinstance(value, int) else bytes(value).decode("utf-8", errors="replace")


def float32(value: int | memoryview) -> float:
    """A fixed32 field as IEEE single."""
    if isinstance(value, int) or len(value) != 4:
        raise Damaged("not a 32-bit number")
    return float(struct.unpack("<f", value)[0])


def float64(value: int | memoryview) -> float:
    """A fixed64 field as IEEE double."""
    if isinstance(value, int) or len(value) != 8:
        raise Damaged("not a 64-bit number")
    return float(struct.unpack("<d", value)[0])


def integer(value: int | memoryview) -> int:
    """A varint field."""
    if not isinstance(value, int):
        raise Damaged("no integer")
    return value


def message(value: int | memoryview) -> memoryview:
    """An embedded message."""
    if isinstance(value, int):
        raise Damaged("no message")
    return value


def packed(value: int | memoryview) -> Iterator[int]:
    """The numbers of a field, which stand alone or one behind the other; one that is cut is left out."""
    if isinstance(value, int):
        yield integer(value)
        return
    number, shift = 0, 0
    for byte in value:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield number
            number, shift = 0, 0
