"""Opens recordings as bytes: plain, gzip or zstd, recognised by their first bytes, never by their name."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import IO

import zstandard
from isal import igzip

from parsers.base import HEAD_BYTES, Source
from parsers.model import Malformed, TraceError

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"


def identify(path: Path, shown: str = "") -> Source:
    """Look at a file's first bytes; raises ``TraceError`` when there is nothing to look at."""
    try:
        if path.is_dir():
            raise TraceError(path, "This is a folder, not a recording.", "Open the files in it.")
        if not path.exists():
            raise TraceError(path, "There is no such file.", "Check the path.")
        if not path.is_file():
            raise TraceError(path, "This is not a regular file.", "Save the recording to a file first.")
        with path.open("rb") as file:
            magic = file.read(4)
    except PermissionError as error:
        raise TraceError(path, "This file may not be read.", "Check its permissions.") from error
    if not magic:
        raise Malformed(path, "The file is empty.", "Record or copy it again.")
    compression = "gzip" if magic.startswith(_GZIP) else "zstd" if magic == _ZSTD else ""
    try:
        with open_bytes(Source(path, b"", compression)) as file:
            head = file.read(HEAD_BYTES)
    except (OSError, EOFError, zstandard.ZstdError, gzip.BadGzipFile) as error:
        raise Malformed(
            path, f"The {compression} data is damaged at its start.", "Copy the file again."
        ) from error
    return Source(path, head, compression, shown)


def open_bytes(source: Source) -> IO[bytes]:
    """A stream of the unpacked content."""
    if source.compression == "gzip":
        return igzip.open(source.path, "rb")
    if source.compression == "zstd":
        return zstandard.open(source.path, "rb")
    return source.path.open("rb")
