"""Cuts the stream of a trace file into chunks of whole events, and keeps what stands around the event list."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import field
from functools import cache
from typing import IO

import zstandard

from parsers.chrome.decode.records import EVENT
from parsers.files.decoders import UNREADABLE
from parsers.model.late import dataclass, regex

BYTES_AT_ONCE = 2 << 20  # the objects of one chunk then stay in the processor's cache
MAX_HEADER_BYTES = 128 << 20
MAX_EVENT_BYTES = 16 << 20

_LIST = regex(rb'"traceEvents"\s*:\s*\[')
_LIST_AFTER_LIST = regex(rb'\s*+\}?+[\s\0]*+\[\s*+\{\s*+"')
_BARE_LIST = regex(rb"(?:\xef\xbb\xbf)?\s*\[")
# as DFTracer writes them: with nothing between two events
_ONE_A_LINE = regex(rb"\s*+\{[^\n]++(?<=\})\n\s*+\{")
# of the trace event format
_FIRST_KEYS = rb"ph|name|cat|pid|tid|ts|dur|id|args|s|bp|sf|tts|cname|id2|scope|tdur|esf"
_FIRST_KEY = regex(rb'[\s,{}]*?\{\s*"((?:[^"\\]|\\.){1,64})"')
_BOM = b"\xef\xbb\xbf"
_TAIL_AT_ONCE = 1 << 13
_DAMAGED_BYTES = 8 << 20
_MAX_PLACES = 32
_MAX_PARTS = 8  # of one event, between places that look like boundaries


@dataclass(slots=True)
class Chunk:
    """Whole events separated by commas, without brackets: ``buffer`` up to ``end``.

    ``offset`` is where it starts in the unpacked file.
    """

    number: int
    offset: int
    buffer: bytes
    end: int
    boundary: re.Pattern[bytes]
    last: bool = False  # the rest of the file: an event, the end of the list, and what follows it

    @property
    def data(self) -> bytes:
        return self.buffer[: self.end]

    @property
    def as_list(self) -> bytes:
        return b"".join((b"[", memoryview(self.buffer)[: self.end], b"]"))


@dataclass(slots=True)
class EventStream:
    """Iterates over the chunks of one unpacked stream; afterwards ``header`` and ``trailer`` are known.

    The cuts depend on the content only, so that a chunk's number finds it again.
    """

    file: IO[bytes]
    header: bytes = b""
    trailer: bytes = b""
    has_list: bool = False
    damage: str = ""  # why reading ended before the end of the file
    consumed: int = 0  # unpacked bytes
    most_bytes: int = 1 << 62  # unpacked bytes after which reading stops
    # numbers of chunks of a plain file that nobody here looks at
    passed_over: Callable[[int], bool] | None = None

    _rest: bytes = field(default=b"", init=False)
    _lacks_commas: bool = field(default=False, init=False)
    # where commas are lacking: the last byte ended one
    _behind_event: bool = field(default=False, init=False)

    def __iter__(self) -> Iterator[Chunk]:
        start = self._find_list()
        if start < 0:
            return
        buffer = self._rest[start:]
        boundary = boundary_of(buffer)
        offset = start
        number = 0
        while True:
            if self.passed_over is not None and not self._lacks_commas and self.passed_over(number):
                rest = self._after_next_block(boundary)
                if rest is not None:
                    buffer, offset, number = rest, self.consumed - len(rest), number + 1
                    continue
            block = self._read()
            if not block:
                break
            buffer += block
            if len(buffer) < BYTES_AT_ONCE:
                continue
            cut = last_boundary(buffer, boundary)
            if cut is None:
                if len(buffer) > MAX_EVENT_BYTES:
                    self.damage = f"no event ends within {MAX_EVENT_BYTES >> 20} MB"
                    break
                continue
            yield Chunk(number, offset, buffer, cut[0], boundary)
            number += 1
            offset += cut[1]
            buffer = buffer[cut[1] :]
        cut = last_boundary(buffer, boundary)
        if cut is not None:
            yield Chunk(number, offset, buffer, cut[0], boundary)
            number += 1
            offset += cut[1]
            buffer = buffer[cut[1] :]
        yield Chunk(number, offset, buffer, len(buffer), boundary, last=True)

    def _find_list(self) -> int:
        buffer = b""
        while block := self._read():
            buffer += block
            bare = _BARE_LIST.match(buffer)
            found = bare or _LIST.search(buffer, max(0, len(buffer) - len(block) - 64))
            if found:
                self.header = b"" if bare else buffer[: found.start()].removeprefix(_BOM)
                self._lacks_commas = _ONE_A_LINE.match(buffer, found.end()) is not None
                self._rest = self._with_commas(buffer) if self._lacks_commas else buffer
                self.has_list = True
                return found.end()
            if len(buffer) > MAX_HEADER_BYTES:
                break
        self.header = buffer.removeprefix(_BOM)
        return -1

    def _after_next_block(self, boundary: re.Pattern[bytes]) -> bytes | None:
        """What a chunk that ends in the next block leaves of it, found at its end alone; None where it must be read."""
        end = self.consumed + BYTES_AT_ONCE
        if BYTES_AT_ONCE >= _TAIL_AT_ONCE and self.file.seek(0, os.SEEK_END) >= end:
            self.file.seek(end - _TAIL_AT_ONCE)
            tail = self.file.read(_TAIL_AT_ONCE)
            cut, _ = _sure_boundary(tail, 0, boundary)
            if cut is not None:
                self.consumed = end
                return tail[cut[1] :]
        self.file.seek(self.consumed)
        return None

    def _read(self) -> bytes:
        """``BYTES_AT_ONCE`` of the file; less only at its end, so that the cuts do not depend on the source."""
        parts = []
        missing = BYTES_AT_ONCE
        while missing and not self.damage:
            try:
                block = self.file.read(missing)
            except (EOFError, OSError, zlib.error, zstandard.ZstdError) as error:
                self.damage = f"the packed data ends early or is damaged ({error})"
                break
            if not block:
                break
            parts.append(block)
            missing -= len(block)
        self.consumed += BYTES_AT_ONCE - missing
        if self.consumed > self.most_bytes:
            self.damage = (
                f"the file unpacks to more than {self.most_bytes >> 20:,} MB, far more than its size suggests"
            )
            return b""
        block = parts[0] if len(parts) == 1 else b"".join(parts)
        return self._with_commas(block) if self._lacks_commas else block

    def _with_commas(self, block: bytes) -> bytes:
        """The block of a file with one event a line, with a comma for each newline behind an event."""
        behind, self._behind_event = self._behind_event, block.endswith(b"}")
        if behind and block.startswith(b"\n"):
            block = b"," + block[1:]
        return block.replace(b"}\n", b"},")


def holds_a_list(text: bytes) -> bool:
    """Whether a list of events begins in what follows one."""
    return _LIST.search(text) is not None or _LIST_AFTER_LIST.match(text) is not None


def boundary_of(events: bytes) -> re.Pattern[bytes]:
    """Matches where one event ends and another begins; group 1 is what stands between them.

    An event is told from an object inside another event by its first key: one of the format's own, or the first key
    of the first event.
    """
    first = _FIRST_KEY.match(events[:4096])
    return _between(first[1] if first else b"")


@cache
def _between(key: bytes) -> re.Pattern[bytes]:
    keys = _FIRST_KEYS + (b"|" + re.escape(key) if key else b"")
    return re.compile(rb'\}(\s*,\s*)(?=\{\s*"(?:' + keys + rb')")')


def last_boundary(buffer: bytes, boundary: re.Pattern[bytes]) -> tuple[int, int] | None:
    """(end of an event, start of the next one) for the last place where one ends and another begins.

    Objects in an event's arguments may look like events, so what stands before the place must be an event, unless
    the text is damaged over such a length that any likely place will do. None when there is no such place.
    """
    span = _TAIL_AT_ONCE
    while True:
        first = max(0, len(buffer) - span)
        sure, likely = _sure_boundary(buffer, first, boundary, (0,) if first == 0 else ())
        if sure is not None:
            return sure
        if likely is not None and len(buffer) > _DAMAGED_BYTES:
            return likely
        if first == 0:
            return None
        span *= 16


def _sure_boundary(
    buffer: bytes, first: int, boundary: re.Pattern[bytes], begins: tuple[int, ...] = ()
) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    """The last place after ``first`` that stands behind an event, and the last one that looks as if it did.

    An event begins at ``begins``, and after every place that looks like a boundary.
    """
    places = [found.span(1) for found in boundary.finditer(buffer, first)]
    begins = (*begins, *(end for _, end in places))
    for place in reversed(places[-_MAX_PLACES:]):
        before = [begin for begin in begins if begin <= place[0]][-_MAX_PARTS:]
        if any(is_event(buffer[begin : place[0]]) for begin in reversed(before)):
            return place, places[-1]
    return None, places[-1] if places else None


def is_event(text: bytes) -> bool:
    """Whether this is exactly one event."""
    try:
        return EVENT.decode(text).ph is not None
    except UNREADABLE:
        return False
