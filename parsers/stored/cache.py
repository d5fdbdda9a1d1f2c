"""Keeps parsed traces as memory-mapped columns, outside the user's folders, so that reopening is instant.

An entry is one file that only its owner may read. It is written under another name and renamed when complete, so that a
killed writer leaves nothing that could be mistaken for an entry. A recording that was replaced has another size or
time, a parser that was changed another version, a changed model another meaning: each gives another key. Anything odd
about an entry is a miss, never an error.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import platformdirs

from parsers.files.base import Parser, reopenable_parser
from parsers.files.private_folder import hold, remove_if_abandoned
from parsers.files.user_folders import user_folder
from parsers.model import ArgumentSource, Progress, Trace
from parsers.stored import traces

MIN_EVENTS = 200_000  # smaller recordings open as fast as an entry would
MAX_BYTES = 4_000_000_000
WRONG_CLOCK_S = 24 * 3600
_LOG = logging.getLogger(__name__)


def folder() -> Path:
    """Where entries live."""
    return user_folder(platformdirs.user_cache_path) / "traces"


def state_of(path: Path) -> tuple[int, int] | None:
    """Size and modification time (ns) of a file; None when it cannot be asked."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def changed_files(trace: Trace) -> list[str]:
    """Names of the input files that were replaced, written to or removed since the trace was read."""
    return [
        Path(each.file).name
        for each in trace.inputs
        if each.state is not None and state_of(Path(each.file)) != each.state
    ]


def load(
    path: Path, parser: Parser, arguments: Callable[[], ArgumentSource], progress: Progress | None = None
) -> Trace | None:
    """The trace that ``parser`` read from ``path`` before, unless either changed since; None when there is no entry."""
    state = state_of(path)
    entry = folder() / _key(path, parser, state) if state else None
    try:
        if entry is None or not entry.is_file():
            return None
        trace = traces.read(entry, (arguments(),), progress)
        os.utime(entry)
    except Exception:
        _LOG.info("a cached trace could not be used", exc_info=True)  # no news for a terminal
        return None
    return trace


def store(trace: Trace) -> Path | None:
    """Keep a trace that was read from one file; its entry, or None for small ones and where there is no room.

    The entry belongs to the file as it was when it was read, not to what may have replaced it since.
    """
    if (entry := _entry_for(trace)) is None:
        return None
    try:
        if entry.exists():
            return entry
        with written_whole(entry) as file:
            traces.write_to(file, trace)
        trim()
    except (OSError, ValueError):
        _LOG.info("a trace could not be cached", exc_info=True)
        return None
    return entry


@contextlib.contextmanager
def written_whole(entry: Path) -> Iterator[BinaryIO]:
    """A file to write an entry to: it becomes the entry when it is complete, else it goes; raises ``OSError``.

    The folder is made, for its owner alone. Until it is complete the file has no name where the system can do that, so
    that a killed writer leaves nothing.
    """
    part = entry.with_name(f".{entry.name}.{os.getpid()}.{threading.get_ident()}.part")
    entry.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    entry.parent.chmod(0o700)
    unnamed = _without_a_name(entry.parent)
    try:
        with os.fdopen(hold(part) if unnamed is None else unnamed, "wb") as file:
            yield file
            file.flush()
            if unnamed is not None and _named(unnamed, entry):
                return
            if unnamed is not None and not _named(unnamed, part):
                raise FileExistsError(part)
        part.replace(entry)
    finally:
        _remove(part)


def _without_a_name(folder: Path) -> int | None:
    """A descriptor of a new file in no folder; None where neither the system nor its disk has any."""
    if not hasattr(os, "O_TMPFILE") or not Path("/proc/self/fd").is_dir():
        return None
    with contextlib.suppress(OSError):
        return os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600)
    return None


def _named(descriptor: int, path: Path) -> bool:
    """Give a file without a name this one, unless it is taken; raises ``OSError``."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:  # a folder must be given: only then is the link in /proc followed
        os.link(
            f"/proc/self/fd/{descriptor}",
            path.name,
            src_dir_fd=folder,
            dst_dir_fd=folder,
            follow_symlinks=True,
        )
    except FileExistsError:
        return False
    finally:
        os.close(folder)
    return True


def holds(path: Path, parser: Parser) -> bool:
    """Whether there is an entry for the file as it is now."""
    state = state_of(path)
    return state is not None and (folder() / _key(path, parser, state)).is_file()


def trim(most_bytes: int = MAX_BYTES, entries: Path | None = None) -> None:
    """Remove the entries used longest ago until the rest fits, and what killed writers and older versions left.

    ``entries`` is the folder of entries, by default that of traces.
    """
    try:
        found = [(each.stat(), each) for each in (entries or folder()).iterdir()]
    except OSError:
        return
    total, now = 0, time.time()
    soon = now + WRONG_CLOCK_S  # what was used later than that was used while the clock was wrong
    found.sort(key=lambda each: (each[0].st_mtime < soon, each[0].st_mtime), reverse=True)
    for state, entry in found:
        unfinished = entry.name.startswith(".")
        total += 0 if unfinished else state.st_size
        if unfinished and not entry.is_dir():
            remove_if_abandoned(entry)
        elif total > most_bytes or entry.is_dir():
            _remove(entry)


def clear() -> None:
    """Remove every entry."""
    shutil.rmtree(folder(), ignore_errors=True)


def _entry_for(trace: Trace) -> Path | None:
    if len(trace.events) < MIN_EVENTS or trace.kernels or len(trace.inputs) != 1:
        return None
    (origin,) = trace.inputs
    parser = reopenable_parser(origin.format)
    if origin.state is None or parser is None or traces.bytes_of(trace) > MAX_BYTES:
        return None
    return folder() / _key(Path(origin.file), parser, origin.state)


def _key(path: Path, parser: Parser, state: tuple[int, int]) -> str:
    reader = f"{traces.meaning()}\0{parser.format}\0{parser.version}"
    text = f"{reader}\0{path.resolve()}\0{state[0]}\0{state[1]}"
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _remove(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry, ignore_errors=True)
        return
    with contextlib.suppress(OSError):
        entry.unlink(missing_ok=True)
