"""Which recordings another process reads, and that process, started before anybody has loaded what asks it.

Imports next to nothing: the program starts such a process first of all, so that both load at the same time.
"""

from __future__ import annotations

import contextlib
import os
import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from parsers.files.signatures import DATABASE, GZIP, PACKED, USUAL_GROWTH
from viewer.loading.ranks.asking import FULL_RANKS

if TYPE_CHECKING:
    from parsers.helper_process import HelperProcess

MIN_BYTES_IN_WINDOW = 1  # what freezes a window need not be large: one regular expression is enough
LARGE_BYTES = 30 << 20  # unpacked: so long is a reading in which one wants to see the first events
SMALL_BYTES = 4 << 20
OF_UNKNOWN_COST = (*PACKED, DATABASE)  # how files begin whose size does not tell what they cost
_GZIP_WINDOW = 31
_MAX_FILES = 2_000
_NEXT_AFTER_S = 2.0  # what was just opened comes first
_READER = f"{__package__}.serve"
_ASKS = "query"  # the command whose recording is always held by another process


class _Ready:
    """The process that waits for the next request, where one does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._helper: HelperProcess | None = None
        self.again = False  # whether another one takes the place of one that was taken

    def start(self) -> None:
        from parsers.helper_process import HelperProcess

        with self._lock, contextlib.suppress(OSError, RuntimeError):
            if self._helper is None:
                self._helper = HelperProcess(_READER, None, own_group=True)

    def take(self) -> HelperProcess | None:
        with self._lock:
            helper, self._helper = self._helper, None
        if self.again:
            timer = threading.Timer(_NEXT_AFTER_S, self.start)
            timer.daemon = True
            timer.start()
        return helper if helper is not None and helper.process.poll() is None else None


_ready = _Ready()


def reader() -> HelperProcess:
    """A process that waits for its request, begun ahead or now; raises ``OSError``."""
    from parsers.helper_process import HelperProcess

    return _ready.take() or HelperProcess(_READER, None, own_group=True)


def start_ahead(words: Sequence[str]) -> None:
    """Start the process where the words of a command line name files for it."""
    files = [Path(word) for word in words if word]
    opens_a_window = bool(files) and os.path.isfile(files[0])
    is_asked = words[:1] == [_ASKS] and len(words) > 2
    if opens_a_window or is_asked or (not _may_be_many_ranks(files) and may_cost_more_than_it_looks(files)):
        _ready.start()


def _may_be_many_ranks(paths: Iterable[Path]) -> bool:
    """Whether these are more files than ranks are read in full: those are for the processes of a pool."""
    return next(islice(filter(os.path.isfile, _files(paths)), FULL_RANKS, None), None) is not None


def keep_one_ready() -> None:
    """Have a process wait for the next recording from now on; a window opens one after the other."""
    _ready.again = True
    _ready.start()


def is_for_another_process(paths: Sequence[Path]) -> bool:
    """Whether a window has these files read by another process."""
    return _is_at_least(MIN_BYTES_IN_WINDOW, paths)


def may_cost_more_than_it_looks(paths: Iterable[Path]) -> bool:
    """Whether any of these files is a database or an archive, or they are not small once they are unpacked."""
    total = 0
    for file in _files(paths):
        size, head = _size_and_head(file)
        if head.startswith(OF_UNKNOWN_COST) and head.startswith(GZIP) and size <= SMALL_BYTES:
            size, head = _unpacked(file) or (size, head)
        total += size
        if total > SMALL_BYTES or head.startswith(OF_UNKNOWN_COST):
            return True
    return False


def is_large(paths: Iterable[Path]) -> bool:
    """Whether these files, unpacked, are so large that reading them is noticed."""
    return _is_at_least(LARGE_BYTES, paths)


def _is_at_least(size: int, paths: Iterable[Path]) -> bool:
    total = 0
    for number, file in enumerate(_files(paths)):
        total += _expected(file)
        if total >= size or number >= _MAX_FILES:
            return True
    return False


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        yield from path.rglob("*") if os.path.isdir(path) else (path,)


def _expected(file: Path) -> int:
    size, head = _size_and_head(file)
    return size * USUAL_GROWTH if head.startswith(PACKED) else size


def _size_and_head(file: Path) -> tuple[int, bytes]:
    """Nothing of what cannot be read, of what has no end, and of a pipe, which would wait for its writer."""
    try:
        size = file.stat().st_size if file.is_file() else 0
        if size:
            with file.open("rb") as opened:
                return size, opened.read(len(DATABASE))
    except (OSError, ValueError):
        pass
    return 0, b""


def _unpacked(file: Path) -> tuple[int, bytes] | None:
    """Size and head of what is in a gzip file; None where that is damaged, not small, or not all of it."""
    unpacker = zlib.decompressobj(_GZIP_WINDOW)
    try:
        content = unpacker.decompress(file.read_bytes(), SMALL_BYTES + 1)
    except (OSError, zlib.error):
        return None
    return (len(content), content[: len(DATABASE)]) if unpacker.eof and not unpacker.unused_data else None
