"""Keeps parsed traces as memory-mapped columns, outside the user's folders, so that reopening is instant.

An entry is one file that only its owner may read. It is written under another name and renamed when complete, so that a
killed writer leaves nothing that could be mistaken for an entry. A recording that was replaced has another size or
time, a parser that was changed another version, a changed model another meaning: each gives another key. Anything odd
about an entry is a miss, never an error.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from parsers.files.base import Parser, reopenable_parser
from parsers.model import ArgumentSource, Progress, Trace
from parsers.storage import traces
from parsers.storage.entries import Entries, log_failure, trim, written_whole

MIN_EVENTS = 200_000  # smaller recordings open as fast as an entry would
MAX_BYTES = 4_000_000_000


def folder() -> Path:
    """Where entries live."""
    return Entries("traces", MAX_BYTES).folder


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
        log_failure(__name__, "a cached trace could not be used")
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
        trim(folder(), MAX_BYTES)
    except (OSError, ValueError):
        log_failure(__name__, "a trace could not be cached")
        return None
    return entry


def holds(path: Path, parser: Parser) -> bool:
    """Whether there is an entry for the file as it is now."""
    state = state_of(path)
    return state is not None and (folder() / _key(path, parser, state)).is_file()


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
