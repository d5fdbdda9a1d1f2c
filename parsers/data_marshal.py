"""Python's marshal format, read as data alone: dictionaries, tuples, texts and numbers, as profilers write them."""

from __future__ import annotations

import struct
from typing import Any

MAX_DEPTH = 16
MAX_DIGITS = 8  # of 15 bits: no profile counts further
MAX_OBJECTS = 3_000_000  # a profile of 100,000 functions holds about as many
_REMEMBERED = 0x80  # of a type's byte: the object is referred to later
_TEXTS = {"s": (4, "utf-8"), "u": (4, "utf-8"), "t": (4, "utf-8"), "a": (4, "latin-1"), "A": (4, "latin-1")}
_SHORT_TEXTS = {"z": (1, "latin-1"), "Z": (1, "latin-1")}
_BITS_OF_DIGIT = 15


class NoData(ValueError):
    """The bytes are no such data."""


def loads(content: bytes) -> Any:
    """The one object in these bytes; raises ``NoData`` for code and all else that is no plain data."""
    try:
        return _Reader(content).read(0)
    except (IndexError, struct.error, OverflowError, TypeError) as error:
        raise NoData(str(error)) from error


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0
        self._remembered: list[Any] = []
        self._interned: list[str] = []  # what Python 2 refers to
        self._left = MAX_OBJECTS

    def read(self, depth: int) -> Any:
        self._left -= 1
        if depth > MAX_DEPTH or self._left < 0:
            raise NoData("too deep, or too large")
        byte = self._take(1)[0]
        kind, is_remembered = chr(byte & ~_REMEMBERED), bool(byte & _REMEMBERED)
        if kind == "r":
            return self._remembered[self._number(4)]
        place = len(self._remembered)
        if is_remembered:
            self._remembered.append(None)
        value = self._value(kind, depth)
        if is_remembered:
            self._remembered[place] = value
        return value

    def _value(self, kind: str, depth: int) -> Any:
        if kind in "NFT":
            return {"N": None, "F": False, "T": True}[kind]
        if kind == "i":
            return int.from_bytes(self._take(4), "little", signed=True)
        if kind == "l":
            return self._long()
        if kind == "g":
            return float(struct.unpack("<d", self._take(8))[0])
        if known := (_TEXTS | _SHORT_TEXTS).get(kind):
            width, encoding = known
            text = self._take(self._number(width)).decode(encoding, "replace")
            if kind == "t":
                self._interned.append(text)
            return text
        if kind == "R":
            return self._interned[self._number(4)]
        if kind in "()":
            length = self._number(1 if kind == ")" else 4)
            if length > len(self._content) - self._at:
                raise NoData("longer than the rest")
            return tuple(self.read(depth + 1) for _ in range(length))
        if kind == "{":
            return self._dictionary(depth)
        raise NoData(f"an object of type {kind!r}")

    def _dictionary(self, depth: int) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        while self._content[self._at] & ~_REMEMBERED != ord("0"):
            key = self.read(depth + 1)
            found[key] = self.read(depth + 1)
        self._at += 1
        return found

    def _long(self) -> int:
        count = int.from_bytes(self._take(4), "little", signed=True)
        if abs(count) > MAX_DIGITS:
            raise NoData("a number that is too large")
        digits = struct.unpack(f"<{abs(count)}H", self._take(2 * abs(count)))
        value = sum(int(digit) << (_BITS_OF_DIGIT * place) for place, digit in enumerate(digits))
        return -value if count < 0 else value

    def _number(self, width: int) -> int:
        return int.from_bytes(self._take(width), "little")

    def _take(self, length: int) -> bytes:
        taken = self._content[self._at : self._at + length]
        if len(taken) != length:
            raise NoData("cut off")
        self._at += length
        return taken
