"""Opens recordings as bytes: plain, gzip or zstd, recognised by their first bytes, never by their name."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import IO, cast

import zstandard

from parsers.files.base import HEAD_BYTES, Source
from parsers.files.packed import GzipStream, ZstdStream
from parsers.files.signatures import GZIP, ZSTD
from parsers.model import Malformed, TraceError
from parsers.model.units import size

MAX_WITH_HOLES, MAX_HOLES = 1 << 30, 200  # bytes; times what is written of it
READ_ERRORS = (OSError, EOFError, ValueError, zstandard.ZstdError)  # what reading damaged data raises


def identify(path: Path, shown: str = "") -> Source:
    """Look at a file's first bytes; raises ``TraceError`` when there is nothing to look at."""
    try:
        if not path.is_file():
            raise _no_file(path)
        _refuse_holes(path, path.stat())
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
            compression = "gzip" if head.startswith(GZIP) else "zstd" if head.startswith(ZSTD) else ""
            tail = b"" if compression or len(head) < HEAD_BYTES else _tail(file)
    except PermissionError as error:
        raise TraceError(path, "You may not read this file.", "Check its permissions.") from error
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    try:
        if compression:
            with open_bytes(Source(path, b"", compression)) as unpacked:
                head = unpacked.read(HEAD_BYTES)
    except READ_ERRORS as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise _unreadable(path, error) from error
        raise Malformed(
            path, f"The {compression} data is damaged at its start.", "Copy the file again."
        ) from error
    if not head:
        raise Malformed(path, f"The {compression} file is empty.", "Record or copy it again.")
    return Source(path, head, compression, shown, tail)


def _no_file(path: Path) -> TraceError:
    if path.is_dir():
        return TraceError(path, "This is a folder, not a recording.", "Open the files in it.")
    if not path.exists():
        return TraceError(path, "There is no such file.", "Check the path.")
    return TraceError(path, "This is not a regular file.", "Save the recording to a file first.")


def _tail(file: IO[bytes]) -> bytes:
    """The last lines of a text; nothing of other files."""
    with contextlib.suppress(OSError):
        file.seek(-HEAD_BYTES, os.SEEK_END)
        tail = file.read(HEAD_BYTES)
        return b"" if b"\0" in tail else tail
    return b""


def _refuse_holes(path: Path, found: os.stat_result) -> None:
    """Raise ``TraceError`` for a file without a size, which may never end, and for one of holes."""
    if not found.st_size:
        raise Malformed(path, "The file is empty.", "Record or copy it again.")
    written = getattr(found, "st_blocks", 0) * 512
    if found.st_size > MAX_WITH_HOLES and 0 < written * MAX_HOLES < found.st_size:
        raise Malformed(
            path,
            f"Only {size(written)} of this file's {size(found.st_size)} were written.",
            "Copy it again and let the copy finish.",
        )


def _unreadable(path: Path, error: Exception) -> TraceError:
    return TraceError(path, f"This file cannot be read ({error}).", "Copy it to a local disk.")


def open_bytes(source: Source) -> IO[bytes]:
    """A stream of the unpacked content; reading raises one of ``READ_ERRORS`` where the data is damaged."""
    if source.compression == "gzip":
        return cast("IO[bytes]", GzipStream(source.path))
    if source.compression == "zstd":
        return cast("IO[bytes]", ZstdStream(source.path))
    return source.path.open("rb")
