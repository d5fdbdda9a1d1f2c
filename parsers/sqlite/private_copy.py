"""Files made from the user's recordings, kept in the program's cache folder and nowhere else."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import platformdirs
import zstandard

from parsers.files.base import Source
from parsers.files.source import open_bytes
from parsers.files.unpacking_limit import MAX_RATIO
from parsers.files.user_folders import user_folder
from parsers.model import Malformed, Progress, TraceError

KEPT_DAYS = 14
KEPT_BYTES = 20 * 1024**3
HEADROOM_BYTES = 512 * 1024**2
_SECONDS_A_DAY = 86_400


def cache_folder() -> Path:
    """Where private copies lie; created on first use."""
    folder = user_folder(platformdirs.user_cache_path) / "databases"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def private_copy(path: Path, purpose: str, fill: Callable[[Path], None], suffix: str = ".sqlite") -> Path:
    """The file that ``fill`` makes of ``path``; made once for each state of the original.

    It appears under its name only when it is complete, so that a stopped writer leaves nothing half-made.
    Raises ``TraceError`` when the disk is full or the cache folder cannot be written.
    """
    try:
        folder = cache_folder()
        stamp = path.stat()
        key = f"{path.resolve()}|{stamp.st_size}|{stamp.st_mtime_ns}|{purpose}"
        target = folder / (hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32] + suffix)
        if target.exists():
            os.utime(target, ns=(time.time_ns(), target.stat().st_mtime_ns))  # used, not changed
            return target
        _tidy(folder)
        unfinished = folder / f"{target.stem}.{os.getpid()}.{threading.get_ident()}.part"
        try:
            fill(unfinished)
            os.replace(unfinished, target)
        finally:
            unfinished.unlink(missing_ok=True)
        return target
    except OSError as error:
        raise TraceError(
            path,
            f"The unpacked recording could not be kept ({error.strerror or error}).",
            "Free space in the cache folder, or unpack the recording yourself.",
        ) from error


def room_for_more(folder: Path) -> int:
    """Bytes that may still be written there."""
    return max(shutil.disk_usage(folder).free - HEADROOM_BYTES, 0)


def _tidy(folder: Path) -> None:
    """Remove what nobody opened lately, and the oldest once there is too much."""
    now = time.time()
    entries = []
    for file in folder.iterdir():
        with contextlib.suppress(OSError):
            state = file.stat()
            entries.append((max(state.st_atime, state.st_mtime), state.st_size, file))
    total = 0
    for used, size, file in sorted(entries, reverse=True):
        total += size
        if now - used > KEPT_DAYS * _SECONDS_A_DAY or total > KEPT_BYTES:
            with contextlib.suppress(OSError):
                file.unlink()


ALWAYS_ALLOWED = 1024**3  # of a disk: more than of memory
_BYTES_AT_ONCE = 4 * 1024**2


def unpacked(source: Source, progress: Progress, suffix: str = ".sqlite") -> Path:
    """The user's own file, or of a packed one the content; made once. Raises ``TraceError`` when it is damaged, or too
    large for the disk.
    """
    if not source.compression:
        return source.path

    def fill(target: Path) -> None:
        packed = max(source.path.stat().st_size, 1)
        limit = min(room_for_more(target.parent), max(packed * MAX_RATIO, ALWAYS_ALLOWED))
        written = 0
        try:
            with open_bytes(source) as stream, target.open("wb") as file:
                while block := stream.read(_BYTES_AT_ONCE):
                    written += len(block)
                    if written > limit:
                        raise TraceError(
                            source.path,
                            f"Unpacked, it is larger than {limit / 1e9:.0f} GB, and there is not enough space for it.",
                            "Unpack it yourself, and open the unpacked file.",
                        )
                    file.write(block)
                    progress.step(min(written / (packed * 8), 1.0), "unpacking")
        except (EOFError, zstandard.ZstdError, gzip.BadGzipFile) as error:
            raise Malformed(
                source.path, "The compressed file is cut off or damaged.", "Copy it again."
            ) from error

    return private_copy(source.path, "unpacked", fill, suffix)
