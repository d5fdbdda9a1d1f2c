"""Decodes lists of JSON records of which some may be damaged."""

from __future__ import annotations

import contextlib
from typing import Generic, TypeVar

import msgspec

from parsers.files.decoders import UNREADABLE

R = TypeVar("R")
_RAW = msgspec.json.Decoder(list[msgspec.Raw])


class Records(Generic[R]):
    """Records of one kind; a list is decoded at once, and one by one only where that fails."""

    def __init__(self, kind: type[R]) -> None:
        self._whole = msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]
        self._single = msgspec.json.Decoder(kind)

    def decoded(self, text: bytes) -> tuple[list[R], int]:
        """The records of a JSON list, and how many others cannot be read; a text that is no list counts as one."""
        with contextlib.suppress(*UNREADABLE):
            return self._whole.decode(text), 0
        raw: list[msgspec.Raw] = []
        with contextlib.suppress(*UNREADABLE):
            raw = _RAW.decode(text)
        found: list[R] = []
        for each in raw:
            with contextlib.suppress(*UNREADABLE):
                found.append(self._single.decode(each))
        return found, max(len(raw), 1) - len(found)
