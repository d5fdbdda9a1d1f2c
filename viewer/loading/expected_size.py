"""About how much there is to read, before anything is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from parsers.signatures import PACKED, USUAL_GROWTH

LARGE_BYTES = 30 << 20  # below, a process of its own takes longer to start than it saves
_MOST_FILES = 2_000


def is_large(paths: Sequence[Path]) -> bool:
    """Whether these files, unpacked, are so large that reading them is noticed."""
    total = 0
    for number, file in enumerate(_files(paths)):
        total += _expected(file)
        if total >= LARGE_BYTES or number >= _MOST_FILES:
            return True
    return False


def _files(paths: Iterable[Path]) -> Iterable[Path]:
    for path in paths:
        yield from path.rglob("*") if path.is_dir() else (path,)


def _expected(file: Path) -> int:
    try:
        if not file.is_file():
            return 0
        size = file.stat().st_size
        with file.open("rb") as opened:
            packed = opened.read(4).startswith(PACKED)
    except OSError:
        return 0
    return size * USUAL_GROWTH if packed else size
