"""Compressed databases, unpacked into the program's cache folder."""

from __future__ import annotations

import gzip
from pathlib import Path

import zstandard

from parsers.base import Source
from parsers.model import Malformed, Progress, TraceError
from parsers.source import open_bytes
from parsers.sqlite.private_copy import private_copy, room_for_more

LARGEST_RATIO = 200
ALWAYS_ALLOWED = 1024**3
_BLOCK = 4 * 1024**2


def unpacked(source: Source, progress: Progress, suffix: str = ".sqlite") -> Path:
    """The unpacked file; made once. Raises ``TraceError`` when it is damaged, or too large for the disk."""

    def fill(target: Path) -> None:
        packed = max(source.path.stat().st_size, 1)
        limit = min(room_for_more(target.parent), max(packed * LARGEST_RATIO, ALWAYS_ALLOWED))
        written = 0
        try:
            with open_bytes(source) as stream, target.open("wb") as file:
                while block := stream.read(_BLOCK):
                    written += len(block)
                    if written > limit:
                        raise TraceError(
                            source.path,
                            f"Unpacked, it is larger than {limit / 1e9:.0f} GB, for which there is no room.",
                            "Unpack it yourself, and open the unpacked file.",
                        )
                    file.write(block)
                    progress.step(min(written / (packed * 8), 1.0), "unpacking")
        except (EOFError, zstandard.ZstdError, gzip.BadGzipFile) as error:
            raise Malformed(
                source.path, "The compressed file is cut off or damaged.", "Copy it again."
            ) from error

    return private_copy(source.path, "unpacked", fill, suffix)
