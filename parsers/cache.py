"""Keeps parsed traces as memory-mapped columns, outside the user's folders, so that reopening is instant.

An entry is a folder of ``.npy`` columns and one ``about.msgpack``. It is written under another name and renamed when
complete, so that a killed writer leaves nothing that could be mistaken for an entry. A recording that was replaced has
another size or time, thus another key. Anything odd about an entry is a miss, never an error.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import platformdirs

from parsers.model import (
    ArgumentSource,
    Attribute,
    AttributeColumn,
    Capture,
    Counter,
    Device,
    EventTable,
    KernelProfile,
    Lane,
    Links,
    Quality,
    Rank,
    Trace,
    TraceInput,
)

LAYOUT = 2  # raise it when the columns or their meaning change
LEAST_EVENTS = 200_000  # smaller recordings open as fast as an entry would
MOST_BYTES = 4_000_000_000
ABANDONED_AFTER_S = 24 * 3600
_LOG = logging.getLogger(__name__)
_EVENT_COLUMNS = ("start", "end", "name", "lane", "depth", "kind", "source_row")


@dataclass(frozen=True)
class _About:
    strings: tuple[str, ...]
    lanes: tuple[Lane, ...]
    devices: tuple[Device, ...]
    ranks: tuple[Rank, ...]
    inputs: tuple[TraceInput, ...]
    counters: tuple[tuple[str, str, int | None, int | None], ...]
    attributes: tuple[str, ...]
    same: dict[str, str]  # columns that are the same array as an earlier one, and are written once
    kernels: tuple[KernelProfile, ...]
    quality: Quality
    capture: Capture
    epoch_ns: int | None


def folder() -> Path:
    """Where entries live."""
    return platformdirs.user_cache_path("stallscope", appauthor=False) / "traces"


def state_of(path: Path) -> tuple[int, int] | None:
    """Size and modification time (ns) of a file; None when it cannot be asked."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def load(path: Path, format: str, arguments: Callable[[], ArgumentSource]) -> Trace | None:
    """The trace read from ``path`` before, unless the file changed since; None when there is no entry."""
    state = state_of(path)
    entry = folder() / _key(path, format, state) if state else None
    try:
        if entry is None or not entry.is_dir():
            return None
        trace = read(entry, (arguments(),))
        os.utime(entry)
    except Exception:
        _LOG.warning("a cached trace could not be used", exc_info=True)
        return None
    return trace


def store(trace: Trace) -> Path | None:
    """Keep a trace that was read from one file; its entry, or None for small ones and where there is no room.

    The entry belongs to the file as it was when it was read, not to what may have replaced it since.
    """
    if len(trace.events) < LEAST_EVENTS or trace.kernels or len(trace.inputs) != 1:
        return None
    (origin,) = trace.inputs
    if origin.state is None or sum(column.nbytes for column in _columns(trace).values()) > MOST_BYTES:
        return None
    entry = folder() / _key(Path(origin.path), origin.format, origin.state)
    part = entry.with_name(f".{entry.name}.{os.getpid()}.part")
    try:
        if entry.exists():
            return entry
        part.mkdir(parents=True)
        write(part, trace)
        part.rename(entry)
        trim()
    except OSError:
        _LOG.warning("a trace could not be cached", exc_info=True)
        return None
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return entry


def holds(path: Path, format: str) -> bool:
    """Whether there is an entry for the file as it is now."""
    state = state_of(path)
    return state is not None and (folder() / _key(path, format, state)).is_dir()


def trim(most_bytes: int = MOST_BYTES) -> None:
    """Remove the entries used longest ago until the rest fits, and what killed writers left."""
    try:
        entries = [(each.stat().st_mtime, each) for each in folder().iterdir() if each.is_dir()]
    except OSError:
        return
    total = 0
    for modified, entry in sorted(entries, reverse=True):
        unfinished = entry.name.startswith(".")
        total += 0 if unfinished else sum(file.stat().st_size for file in entry.iterdir())
        if total > most_bytes or (unfinished and time.time() - modified > ABANDONED_AFTER_S):
            shutil.rmtree(entry, ignore_errors=True)


def clear() -> None:
    """Remove every entry."""
    shutil.rmtree(folder(), ignore_errors=True)


def _key(path: Path, format: str, state: tuple[int, int]) -> str:
    text = f"{LAYOUT}\0{format}\0{path.resolve()}\0{state[0]}\0{state[1]}"
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _columns(trace: Trace) -> Mapping[str, np.ndarray[Any, Any]]:
    columns = {f"event.{name}": getattr(trace.events, name) for name in _EVENT_COLUMNS}
    columns |= {"link.operation": trace.links.operation, "link.launch": trace.links.launch}
    for which, column in trace.attributes.items():
        columns |= {f"{which.value}.event": column.event, f"{which.value}.value": column.value}
    for number, counter in enumerate(trace.counters):
        columns |= {f"counter.{number}.time": counter.time, f"counter.{number}.value": counter.value}
    return columns


def write(part: Path, trace: Trace) -> None:
    """Put the columns of a trace into an existing folder; raises ``OSError``."""
    written: dict[int, str] = {}
    same: dict[str, str] = {}
    for name, column in _columns(trace).items():
        first = written.setdefault(id(column), name)
        if first == name:
            np.save(part / f"{name}.npy", column, allow_pickle=False)
        else:
            same[name] = first
    about = _About(
        strings=trace.strings,
        lanes=trace.lanes,
        devices=trace.devices,
        ranks=trace.ranks,
        inputs=trace.inputs,
        counters=tuple((each.name, each.unit, each.rank, each.device) for each in trace.counters),
        attributes=tuple(which.value for which in trace.attributes),
        same=same,
        kernels=trace.kernels,
        quality=trace.quality,
        capture=trace.capture,
        epoch_ns=trace.epoch_ns,
    )
    (part / "about.msgpack").write_bytes(msgspec.msgpack.encode(about))


def read(entry: Path, sources: tuple[ArgumentSource | None, ...]) -> Trace:
    """The trace whose columns are in a folder, mapped; what is wrong with the folder raises whatever it raises."""
    about = msgspec.msgpack.decode((entry / "about.msgpack").read_bytes(), type=_About)

    mapped: dict[str, np.ndarray[Any, Any]] = {}

    def column(name: str) -> np.ndarray[Any, Any]:
        name = about.same.get(name, name)
        if name not in mapped:
            array = np.load(entry / f"{name}.npy", mmap_mode="r", allow_pickle=False)
            mapped[name] = array.view(np.ndarray)
        return mapped[name]

    return Trace(
        strings=about.strings,
        events=EventTable(**{name: column(f"event.{name}") for name in _EVENT_COLUMNS}),
        lanes=about.lanes,
        devices=about.devices,
        ranks=about.ranks,
        links=Links(column("link.operation"), column("link.launch")),
        attributes={
            Attribute(name): AttributeColumn(column(f"{name}.event"), column(f"{name}.value"))
            for name in about.attributes
        },
        counters=tuple(
            Counter(
                name, unit, column(f"counter.{number}.time"), column(f"counter.{number}.value"), rank, device
            )
            for number, (name, unit, rank, device) in enumerate(about.counters)
        ),
        kernels=about.kernels,
        inputs=about.inputs,
        quality=about.quality,
        capture=about.capture,
        epoch_ns=about.epoch_ns,
        sources=sources,
    )
