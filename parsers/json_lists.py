"""Cuts a large JSON file into pieces of whole list elements, wherever in its objects the lists are.

Brackets, commas and quotes are found with numpy, some millions at a time, so that a file is never decoded as a whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from parsers.files.unpacking_limit import BYTES_AT_ONCE, LimitedStream
from parsers.model.arrays import BOOL, I64, U8
from parsers.model.late import dataclass

_MAX_ELEMENT_BYTES = 64 << 20
_KEY_BYTES = 200
_QUOTE, _BACKSLASH, _COMMA = b'"\\,'
_STRUCTURAL = np.isin(np.arange(256), list(b"[]{},"))
_OPENING = np.isin(np.arange(256), list(b"[{"))
_CLOSING = np.isin(np.arange(256), list(b"]}"))


@dataclass(frozen=True, slots=True)
class Piece:
    """Whole elements of the list ``key``, as a JSON list; ``owner`` counts the objects of the outermost list."""

    key: str
    owner: int
    text: bytes


@dataclass(slots=True)
class _List:
    """A list whose elements are wanted; ``depth`` inside it, and where the elements not yet handed over begin."""

    key: str
    depth: int
    begin: int


@dataclass(slots=True)
class JsonLists:
    """Iterates over the pieces of the lists called ``wanted`` that lie at most ``deepest`` brackets inside the file.

    Afterwards ``damage`` says why reading ended before the end, if it did.
    """

    file: LimitedStream
    wanted: Collection[str]
    deepest: int
    owner_depth: int  # brackets around the contents of one owner
    damage: str = ""
    _depth: int = 0
    _in_text: bool = False
    _escaped: bool = False
    _owner: int = 0
    _list: _List | None = None

    def pieces(self) -> Iterator[Piece]:
        held, base = b"", 0  # text that is still needed, and its place in the file
        while block := self.file.read(BYTES_AT_ONCE):
            first = base + len(held)
            held += block
            place, depth, opening, comma = self._structure(np.frombuffer(block, np.uint8))
            place = place + first
            for at, inside, opens in self._shallow(place, depth, opening, comma):
                if opens:
                    self._open(at, inside, held, base)
                elif self._list is not None and inside == self._list.depth:
                    yield self._piece(held[self._list.begin - base : at - base])
                    self._list = None
            if self._list is not None:
                cuts = place[comma & (depth == self._list.depth) & (place >= self._list.begin)]
                if len(cuts):
                    yield self._piece(held[self._list.begin - base : int(cuts[-1]) - base])
                    self._list.begin = int(cuts[-1]) + 1
            keep = self._list.begin if self._list is not None else base + max(len(held) - _KEY_BYTES, 0)
            held, base = held[keep - base :], keep
            if len(held) > _MAX_ELEMENT_BYTES:
                self.damage = "an element of a list is impossibly long"
                return
        self.damage = self.file.damage or ("the file ends in the middle" if self._depth > 0 else "")

    def _piece(self, elements: bytes) -> Piece:
        assert self._list is not None
        return Piece(self._list.key, self._owner, b"[" + elements + b"]")

    def _open(self, at: int, inside: int, held: bytes, base: int) -> None:
        if inside == self.owner_depth and held[at - base : at - base + 1] == b"{":
            self._owner += 1
        if self._list is None and held[at - base : at - base + 1] == b"[":
            key = _key_at_the_end(held[max(at - base - _KEY_BYTES, 0) : at - base])
            if key in self.wanted:
                self._list = _List(key, inside, at + 1)

    def _shallow(self, place: I64, depth: I64, opening: BOOL, comma: BOOL) -> Iterator[tuple[int, int, bool]]:
        few = ~comma & (depth <= self.deepest)
        yield from zip(place[few].tolist(), depth[few].tolist(), opening[few].tolist(), strict=True)

    def _structure(self, block: U8) -> tuple[I64, I64, BOOL, BOOL]:
        """Where brackets and commas outside of texts are, the depth inside the bracket, and which of them they are."""
        quotes = np.flatnonzero(block == _QUOTE)
        slashes = block == _BACKSLASH
        if slashes.any() or self._escaped:
            quotes = quotes[~self._is_escaped(slashes, quotes)]
        places = np.flatnonzero(_STRUCTURAL[block])
        inside_text = (np.searchsorted(quotes, places) + self._in_text) % 2 == 1
        places = places[~inside_text]
        self._in_text ^= bool(len(quotes) % 2)
        marks = block[places]
        opening, closing = _OPENING[marks], _CLOSING[marks]
        after = self._depth + np.cumsum(opening.astype(np.int64) - closing)
        if len(after):
            self._depth = int(after[-1])
        return places, after + closing, opening, marks == _COMMA

    def _is_escaped(self, slashes: BOOL, places: I64) -> BOOL:
        """Whether an odd number of backslashes stands before each of these places."""
        count = len(slashes)
        others = np.where(~slashes, np.arange(count), -1 - self._escaped)
        last_other = np.maximum.accumulate(others) if count else others
        before = np.where(places > 0, last_other[np.maximum(places - 1, 0)], -1 - self._escaped)
        escaped = (places - 1 - before) % 2 == 1
        self._escaped = bool(count) and (count - 1 - int(last_other[-1])) % 2 == 1
        return np.asarray(escaped)


def _key_at_the_end(text: bytes) -> str:
    """The key of the value that follows this text; empty where an element of a list, or nothing known, follows."""
    text = text.rstrip()
    named = text[:-1].rstrip() if text.endswith(b":") else b""
    before, quote, key = named[:-1].rpartition(b'"') if named.endswith(b'"') else (b"", b"", b"")
    return key.decode("utf-8", "replace") if quote and not before.endswith(b"\\") else ""
