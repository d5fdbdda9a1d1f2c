"""Cuts the stream of a trace file into chunks of whole events, and keeps what stands around the event list."""

from __future__ import annotations

import re
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO

import zstandard

CHUNK_BYTES = 2 << 20  # the objects of one chunk then stay in the processor's cache
MOST_HEADER_BYTES = 128 << 20
MOST_EVENT_BYTES = 64 << 20

_LIST = re.compile(rb'"traceEvents"\s*:\s*\[')
_BARE_LIST = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[")
BOUNDARY = re.compile(
    rb'\}(\s*,\s*)(?=\{\s*"(?:ph|name|cat|pid|tid|ts|dur|id|args|s|bp|sf|tts|cname|id2|scope|tdur|esf)")'
)
_BOM = b"\xef\xbb\xbf"
_TAIL_BYTES = 1 << 16


@dataclass(slots=True)
class Chunk:
    """``data``: whole events separated by commas, without brackets; ``offset``: where it starts, unpacked."""

    number: int
    offset: int
    data: bytes
    last: bool = False  # the rest of the file: an event, the end of the list, and what follows it


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

    _rest: bytes = field(default=b"", init=False)

    def __iter__(self) -> Iterator[Chunk]:
        start = self._find_list()
        if start < 0:
            return
        buffer = self._rest[start:]
        offset = start
        number = 0
        while True:
            block = self._read()
            if not block:
                break
            buffer += block
            if len(buffer) < CHUNK_BYTES:
                continue
            cut = last_boundary(buffer)
            if cut is None:
                if len(buffer) > MOST_EVENT_BYTES:
                    self.damage = f"no event ends within {MOST_EVENT_BYTES >> 20} MB"
                    break
                continue
            yield Chunk(number, offset, buffer[: cut[0]])
            number += 1
            offset += cut[1]
            buffer = buffer[cut[1] :]
        cut = last_boundary(buffer)
        if cut is not None:
            yield Chunk(number, offset, buffer[: cut[0]])
            number += 1
            offset += cut[1]
            buffer = buffer[cut[1] :]
        yield Chunk(number, offset, buffer, last=True)

    def _find_list(self) -> int:
        buffer = b""
        while block := self._read():
            buffer += block
            bare = _BARE_LIST.match(buffer)
            found = bare or _LIST.search(buffer, max(0, len(buffer) - len(block) - 64))
            if found:
                self.header = b"" if bare else buffer[: found.start()].removeprefix(_BOM)
                self._rest = buffer
                self.has_list = True
                return found.end()
            if len(buffer) > MOST_HEADER_BYTES:
                break
        self.header = buffer.removeprefix(_BOM)
        return -1

    def _read(self) -> bytes:
        """``CHUNK_BYTES`` of the file; less only at its end, so that the cuts do not depend on the source."""
        parts = []
        missing = CHUNK_BYTES
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
        self.consumed += CHUNK_BYTES - missing
        if self.consumed > self.most_bytes:
            self.damage = (
                f"the file unpacks to more than {self.most_bytes >> 20:,} MB, far more than its size tells"
            )
            return b""
        return parts[0] if len(parts) == 1 else b"".join(parts)


def last_boundary(buffer: bytes) -> tuple[int, int] | None:
    """(end of an event, start of the next one) for the last place where one ends and another begins."""
    span = _TAIL_BYTES
    while True:
        first = max(0, len(buffer) - span)
        if found := deque(BOUNDARY.finditer(buffer, first), maxlen=1):
            return found[0].start(1), found[0].end(1)
        if first == 0:
            return None
        span *= 16
