"""Whether what was named may be a run of many ranks: asked of every recording, so that it imports next to nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from parsers.files.fetched import address_of
from parsers.files.signatures import ZIP

FULL_RANKS = 16  # of more ranks only summaries are read; up to so many everything is
MIN_RANKS = 3


def may_be_many(paths: Sequence[Path]) -> bool:
    """Whether there is anything to look into: several files, a folder, an address, or a zip of so many members."""
    return len(paths) >= MIN_RANKS or any(
        path.is_dir() or address_of(path) or _members(path) > FULL_RANKS for path in paths
    )


def _members(path: Path) -> int:
    try:
        # What waits for a writer, or never ends, is not looked into.
        if not (path.is_file() and path.stat().st_size):
            return 0
        with path.open("rb") as file:
            if file.read(len(ZIP)) != ZIP:
                return 0
        from zipfile import BadZipFile, ZipFile
    except OSError:
        return 0
    try:
        with ZipFile(path) as archive:
            return len(archive.namelist())
    except (OSError, BadZipFile, ValueError, NotImplementedError):
        return 0
