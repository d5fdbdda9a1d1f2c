"""A trace as a file of columns, which says by itself what its numbers mean and is read back only if they still do."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import os
import typing
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from parsers.files.decoders import from_msgpack
from parsers.files.private_folder import hold
from parsers.model.attributes import (
    Attribute,
    AttributeColumn,
    CollectiveState,
    CopyKind,
    MemoryKind,
    SyncKind,
)
from parsers.model.counters import Counter
from parsers.model.events import COLUMNS, EventTable, Links
from parsers.model.kernels import KernelProfile
from parsers.model.lanes import Capture, Device, EventKind, Lane, Rank, TraceInput
from parsers.model.late import dataclass
from parsers.model.memory import Allocations, Blocks, Memory, MemoryWords
from parsers.model.progress import Progress
from parsers.model.quality import Quality
from parsers.model.results import ResultTable
from parsers.model.trace import ArgumentSource, Trace
from parsers.storage import columns as columns_file
from parsers.storage.columns import Columns, NotAsWritten

FORMAT = 3  # of the file; what lies in it speaks for itself
_NUMBERED = (EventKind, CopyKind, MemoryKind, SyncKind, CollectiveState)  # written as numbers, in columns


@dataclass(frozen=True)
class Words:
    """Everything that is no column."""

    strings: tuple[str, ...]
    lanes: tuple[Lane, ...]
    devices: tuple[Device, ...]
    ranks: tuple[Rank, ...]
    inputs: tuple[TraceInput, ...]
    counters: tuple[tuple[str, str, int | None, int | None], ...]
    attributes: tuple[Attribute, ...]
    kernels: tuple[KernelProfile, ...]
    memory: tuple[MemoryWords, ...]
    tables: tuple[ResultTable, ...]
    quality: Quality
    capture: Capture
    epoch_ns: int | None


@cache
def meaning() -> str:
    """What the numbers and names of a file stand for, in sixteen digits: another one for another layout or vocabulary.

    Made from the types themselves: nobody has to remember to change it.
    """
    return hashlib.sha256("\n".join(described()).encode()).hexdigest()[:16]


def described() -> list[str]:
    """Every column, field and member of a vocabulary that a file holds."""
    lines = [f"format {FORMAT}", *(f"{name}: {dtype.__name__}" for name, dtype in COLUMNS.items())]
    for what in (Words, Allocations, Blocks, *_NUMBERED):
        lines += described_type(what)
    return lines


def described_type(what: Any) -> list[str]:
    """The fields and members of one type, and of those inside it."""
    return list(_described(what))


def _described(what: Any, seen: frozenset[Any] = frozenset()) -> Iterator[str]:
    """Fields of data classes and named tuples, members of vocabularies, and those of the types inside."""
    if isinstance(what, type) and issubclass(what, enum.Enum):
        yield from (f"{what.__name__}.{each.name} = {each.value!r}" for each in what)
    elif isinstance(what, type) and (dataclasses.is_dataclass(what) or hasattr(what, "_fields")):
        if what in seen:
            return
        for name, inner in typing.get_type_hints(what).items():
            yield f"{what.__name__}.{name}: {inner}"
            yield from _described(inner, seen | {what})
    else:
        for inner in typing.get_args(what):
            yield from _described(inner, seen)


def bytes_of(trace: Trace) -> int:
    """How much room the columns take."""
    return sum(column.nbytes for column in _columns(trace).values())


def write(path: Path, trace: Trace) -> None:
    """Write a trace to a new file; raises ``OSError``, and ``ValueError`` for names that no file can hold."""
    with os.fdopen(hold(path), "wb") as file:
        write_to(file, trace)


def write_to(file: BinaryIO, trace: Trace) -> None:
    """Write the same to an open file."""
    words = Words(
        strings=trace.strings,
        lanes=trace.lanes,
        devices=trace.devices,
        ranks=trace.ranks,
        inputs=trace.inputs,
        counters=tuple((each.name, each.unit, each.rank, each.device) for each in trace.counters),
        attributes=tuple(trace.attributes),
        kernels=trace.kernels,
        memory=tuple(each.words() for each in trace.memory),
        tables=trace.tables,
        quality=trace.quality,
        capture=trace.capture,
        epoch_ns=trace.epoch_ns,
    )
    columns_file.write_to(file, _columns(trace), meaning().encode() + msgspec.msgpack.encode(words))


def read(path: Path, sources: tuple[ArgumentSource | None, ...], progress: Progress | None = None) -> Trace:
    """The trace of a file, with its columns mapped.

    Raises ``ValueError``, ``KeyError``, ``OSError`` and ``msgspec.MsgspecError`` where the file is not what was
    written, by this program and with these meanings.
    """
    from parsers.model.consistency import require_consistent

    encoded, columns = columns_file.read(path, progress)
    if not encoded.startswith(meaning().encode()):
        raise NotAsWritten(f"the numbers in {path} had other meanings when they were written")
    words = from_msgpack(encoded[len(meaning()) :], Words)
    trace = Trace(
        strings=words.strings,
        events=EventTable(**{name: columns[f"event.{name}"] for name in COLUMNS}),
        lanes=words.lanes,
        devices=words.devices,
        ranks=words.ranks,
        links=Links(columns["link.operation"], columns["link.launch"]),
        attributes={
            which: AttributeColumn(columns[f"{which.value}.event"], columns[f"{which.value}.value"])
            for which in words.attributes
        },
        counters=tuple(
            Counter(
                name,
                unit,
                columns[f"counter.{number}.time"],
                columns[f"counter.{number}.value"],
                rank,
                device,
            )
            for number, (name, unit, rank, device) in enumerate(words.counters)
        ),
        kernels=words.kernels,
        memory=tuple(
            Memory.of(_below(columns, f"memory.{number}."), each) for number, each in enumerate(words.memory)
        ),
        tables=words.tables,
        inputs=words.inputs,
        quality=words.quality,
        capture=words.capture,
        epoch_ns=words.epoch_ns,
        sources=sources,
    )
    require_consistent(trace)
    columns_file.let_go(columns)  # all were looked at once, and of many that was all
    return trace


def _columns(trace: Trace) -> Columns:
    columns = {f"event.{name}": getattr(trace.events, name) for name in COLUMNS}
    columns |= {"link.operation": trace.links.operation, "link.launch": trace.links.launch}
    for which, column in trace.attributes.items():
        columns |= {f"{which.value}.event": column.event, f"{which.value}.value": column.value}
    for number, counter in enumerate(trace.counters):
        columns |= {f"counter.{number}.time": counter.time, f"counter.{number}.value": counter.value}
    for number, memory in enumerate(trace.memory):
        columns |= {f"memory.{number}.{name}": column for name, column in memory.columns().items()}
    return columns


def _below(columns: Columns, prefix: str) -> Columns:
    return {name.removeprefix(prefix): column for name, column in columns.items() if name.startswith(prefix)}
