"""Writes protocol-buffer messages for tests: pairs of field number and value become bytes."""

from __future__ import annotations

import struct


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def message(*fields: tuple[int, int | float | str | bytes]) -> bytes:
    """Integers as varints, floats as doubles, texts and bytes as they are."""
    parts = []
    for number, value in fields:
        if isinstance(value, float):
            parts.append(varint(number << 3 | 1) + struct.pack("<d", value))
        elif isinstance(value, int):
            parts.append(varint(number << 3) + varint(value))
        else:
            content = value.encode() if isinstance(value, str) else value
            parts.append(varint(number << 3 | 2) + varint(len(content)) + content)
    return b"".join(parts)
