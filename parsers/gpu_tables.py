"""GPU operations in a table: kernels and copies without the calls that launched them, by the columns of nsys stats."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from parsers.csv_tables import CsvTable
from parsers.model.arrays import ABSENT, I32, I64
from parsers.model.attributes import MEMORY_KINDS, Attribute, CopyKind, MemoryKind
from parsers.model.builder import TraceBuilder
from parsers.model.errors import Malformed
from parsers.model.lanes import Device, EventKind, Lane, LaneKind
from parsers.model.late import regex
from parsers.model.names.collectives import collective_of, is_collective_kernel
from parsers.model.quality import Effect

_COPY = regex(r"\[CUDA (memcpy|Unified Memory memcpy) (\w+?)(?:-to-|to)(\w+)\]", re.IGNORECASE)
_MEMSET = regex(r"\[CUDA memset", re.IGNORECASE)
_DEVICE = regex(r"^(.*?) ?\((\d{1,5})\)$")
_ENDS = {
    ("h", "d"): CopyKind.H2D,
    ("d", "h"): CopyKind.D2H,
    ("d", "d"): CopyKind.D2D,
    ("d", "a"): CopyKind.D2D,
    ("a", "d"): CopyKind.D2D,
    ("h", "h"): CopyKind.H2H,
    ("h", "a"): CopyKind.H2D,
    ("a", "h"): CopyKind.D2H,
    ("p", "p"): CopyKind.P2P,
}


def add_operations(table: CsvTable, builder: TraceBuilder, path: Path, how_to_see_calls: str) -> None:
    """Add every row that has a time; raises ``Malformed`` where none has. ``how_to_see_calls`` is noted."""
    builder.quality.read(table.length)
    start, length = table.integers("startns"), table.integers("durationns")
    good = (start != ABSENT) & (length != ABSENT) & (length >= 0)
    builder.quality.note(
        "no-time", Effect.QUARANTINED, "a row has no start or no duration", "", int((~good).sum())
    )
    if not good.any():
        raise Malformed(path, "The table has a header but no operations.", "Write it again.")
    rows = np.flatnonzero(good)
    texts, name = table.texts("name")
    kinds = np.array([_kind_of(text).value for text in texts], np.uint8)
    events = builder.add(
        start[rows],
        start[rows] + length[rows],
        np.array([builder.string(text) for text in texts], np.int32)[name[rows]],
        _lanes(table, builder)[rows],
        kinds[name[rows]],
        rows,
    )
    _describe(table, builder, texts, name, rows, events)
    builder.quality.note(
        "no-calls", Effect.NOTED, f"This table lists what the GPU ran, but no CPU calls. {how_to_see_calls}"
    )


def _kind_of(name: str) -> EventKind:
    if _COPY.match(name):
        return EventKind.MEMCPY
    return EventKind.MEMSET if _MEMSET.match(name) else EventKind.KERNEL


def _lanes(table: CsvTable, builder: TraceBuilder) -> I32:
    """The lane of each row: its device is "NVIDIA A100 (0)", its stream a number."""
    titles, device = table.texts("device")
    stream = np.maximum(table.integers("strm"), -1)
    pairs, which = np.unique(np.stack((device, stream)), axis=1, return_inverse=True)
    lanes: list[int] = []
    for title, queue in pairs.T.tolist():
        found = _DEVICE.match(titles[title])
        name, number = (found[1], int(found[2])) if found else (titles[title], title)
        gpu = builder.device(Device(number, name))
        lanes.append(
            builder.lane(Lane(LaneKind.GPU_STREAM, f"GPU {number} stream {queue}", device=gpu, stream=queue))
        )
    return np.array(lanes, np.int32)[which.reshape(-1)]


def _describe(
    table: CsvTable, builder: TraceBuilder, texts: list[str], name: I64, rows: I64, events: I64
) -> None:
    """Grids, registers, sizes of copies, where these begin and end, and what collectives do."""
    for size, shape, prefix in (
        (Attribute.GRID, Attribute.GRID_SHAPE, "grd"),
        (Attribute.BLOCK, Attribute.BLOCK_SHAPE, "blk"),
    ):
        sizes = np.stack([table.integers(f"{prefix}{axis}")[rows] for axis in "xyz"])
        stated = (sizes > 0).all(axis=0)
        distinct, which = np.unique(sizes[:, stated], axis=1, return_inverse=True)
        said = [builder.string(",".join(map(str, each))) for each in distinct.T.tolist()]
        builder.attribute(size, events[stated], sizes[:, stated].prod(axis=0))
        builder.attribute(shape, events[stated], np.array(said, np.int64)[which.reshape(-1)])
    registers = table.integers("regtrd")[rows]
    builder.attribute(Attribute.REGISTERS, events[registers > 0], registers[registers > 0])
    size_mb = table.numbers("bytesmb")[rows] if "bytesmb" in table else np.full(len(rows), np.nan)
    told = (size_mb >= 0) & (size_mb < 1e9)
    builder.attribute(Attribute.BYTES, events[told], np.round(size_mb[told] * 1e6).astype(np.int64))
    copies = np.array([_direction(text).value for text in texts], np.int64)[name[rows]]
    moves = np.array([_COPY.match(text) is not None for text in texts], bool)[name[rows]]
    builder.attribute(Attribute.COPY_KIND, events[moves], copies[moves])
    for attribute, column in ((Attribute.SOURCE_MEMORY, "srcmemkd"), (Attribute.TARGET_MEMORY, "dstmemkd")):
        ends, end = table.texts(column)
        known = [MEMORY_KINDS.get(text.strip().lower(), MemoryKind.UNKNOWN).value for text in ends]
        builder.attribute(attribute, events[moves], np.array(known, np.int64)[end[rows]][moves])
    spoken = [collective_of(text) if is_collective_kernel(text) else "" for text in texts]
    collective = np.array([builder.string(text) if text else -1 for text in spoken], np.int64)[name[rows]]
    builder.attribute(Attribute.COLLECTIVE, events[collective >= 0], collective[collective >= 0])


def _direction(name: str) -> CopyKind:
    found = _COPY.match(name)
    if found is None:
        return CopyKind.UNKNOWN
    ends = tuple(end[0].lower() for end in (found[2], found[3]))
    return _ENDS.get((ends[0], ends[1]), CopyKind.UNKNOWN)


def renamed(table: CsvTable, names: Mapping[str, str], made: Mapping[str, Any]) -> CsvTable:
    """The columns that ``names`` calls as nsys stats does, by their own names, and those ``made`` of them."""
    kept = {ours: table.columns[theirs] for ours, theirs in names.items() if theirs in table}
    return replace(table, columns={**kept, **made})


def in_words(numbers: Any) -> Any:
    """Integers as a column of text; empty where one is absent."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(pa.array(numbers == ABSENT), "", pc.cast(pa.array(numbers), pa.string()))
