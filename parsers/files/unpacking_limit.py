"""What may be read: not more than fits into memory, nor more than a packed file can be worth."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import IO

from parsers.files.base import Source
from parsers.files.source import READ_ERRORS, open_bytes
from parsers.model import Progress, TraceError

MAX_UNPACKED = 16 * 1024**3
ALWAYS_ALLOWED = 64 * 1024**2
MAX_RATIO = 200
MAX_WHOLE_BYTES = 64 << 20  # of what a person or a table of results writes: megabytes at most
BYTES_AT_ONCE = 1 << 20


class UnpackingLimit:
    """Counts unpacked bytes and the objects made of them; raises ``TraceError`` when no recording has so many.

    Bytes alone do not tell: an object that takes no byte in a packed file takes a kilobyte of memory here.
    """

    def __init__(self, source: Source, holds_packed: bool = False) -> None:
        """``holds_packed`` says that parts of a plain file are packed."""
        self._source = source
        self._packed = max(source.path.stat().st_size, 1)
        self._largest = MAX_UNPACKED
        if source.compression or holds_packed:
            self._largest = min(MAX_UNPACKED, max(ALWAYS_ALLOWED, MAX_RATIO * self._packed))
        self._made: dict[str, int] = {}
        self.unpacked = 0

    @property
    def path(self) -> Path:
        return self._source.path

    def add(self, count: int) -> None:
        self.unpacked += count
        if self.unpacked > self._largest:
            raise TraceError(
                self._source.path,
                f"It unpacks to more than {self._largest // 1024**2:,} MB, "
                "far more than a recording of its size would.",
                "Unpack it yourself if you trust it, and open the unpacked file.",
            )

    def make(self, what: str, count: int, free: int, least_bytes: float, most: int) -> None:
        """Count objects, which ``what`` names in the plural.

        ``free`` are always allowed, more of them need ``least_bytes`` of the packed file each, up to ``most``.
        """
        made = self._made[what] = self._made.get(what, 0) + count
        allowed = min(max(free, int(self._packed / least_bytes)), most)
        if made > allowed:
            raise TraceError(
                self._source.path,
                f"It holds more than {allowed:,} {what}, far more than a recording of its size would.",
                "Record or export it again.",
            )

    @property
    def share(self) -> float:
        """About how much of the file was read, 0 to 1."""
        usual = 10 if self._source.compression else 1
        return min(self.unpacked / (self._packed * usual), 1.0)


class LimitedStream:
    """The unpacked content, read in parts: counts them, reports them, and ends where the packed data is damaged.

    ``damage`` then says why it ended.
    """

    def __init__(self, stream: IO[bytes], source: Source, progress: Progress, text: str) -> None:
        self._stream, self._progress, self._text = stream, progress, text
        self._limit = UnpackingLimit(source)
        self.damage = ""
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        self._progress.step(self._limit.share, self._text)
        try:
            block = self._stream.read(BYTES_AT_ONCE if size < 0 else size)
        except READ_ERRORS as error:
            self.damage = str(error) or type(error).__name__
            return b""
        self._limit.add(len(block))
        return block

    def whole(self, hint: str, most: int = MAX_WHOLE_BYTES) -> bytes:
        """All of it, where it is read at once; raises ``TraceError`` where that is more than ``most`` bytes."""
        parts, length = [], 0
        while part := self.read():
            parts.append(part)
            length += len(part)
            if length > most:
                raise TraceError(
                    self._limit.path, f"It is larger than {most >> 20:,} MB, too large to read at once.", hint
                )
        return b"".join(parts)

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


def whole_content(
    source: Source, progress: Progress, text: str, hint: str, most: int = MAX_WHOLE_BYTES
) -> bytes:
    """What a source holds, up to where its packed data is damaged; raises ``TraceError`` as ``LimitedStream`` does."""
    with open_bytes(source) as stream:
        return LimitedStream(stream, source, progress, text).whole(hint, most)


_SHARE = 0.9
_MEMINFO = Path("/proc/meminfo")


def available_bytes() -> int | None:
    """Memory that programs can still get, bytes; None where the system does not tell."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in _MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    with contextlib.suppress(AttributeError, OSError, ValueError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def require_memory(path: Path, events: int, bytes_an_event: int, hint: str) -> None:
    """Raise ``TraceError`` when ``events`` need more memory than there is; says both numbers."""
    there_is = available_bytes()
    needed = events * bytes_an_event
    if there_is is not None and needed > there_is * _SHARE:
        raise TraceError(
            path,
            f"It holds about {events:,} events, which need {needed / 1e9:,.1f} GB of memory; "
            f"{there_is / 1e9:,.1f} GB are free.",
            hint,
        )
