"""The drawing index as a file of columns: the process that reads a recording makes it, the window maps it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np

from parsers.files.decoders import from_msgpack
from parsers.model import I32, I64, Array, LaneKind, Trace
from parsers.storage import columns as columns_file
from viewer.timeline.geometry.drawing_index import DrawingIndex, index_of
from viewer.timeline.geometry.nested_calls import NestedCalls, ThreadRow, drawn_in_turn
from viewer.timeline.geometry.row_index import Clock, Row


class _Calls(msgspec.Struct, array_like=True, frozen=True):
    lane: int
    first: int
    depths: list[int]


class _Words(msgspec.Struct, array_like=True, frozen=True):
    clocks: dict[str, tuple[int, int, float]]  # origin, cell and quantum of each long row
    names: list[LaneKind]
    busy: list[int]
    calls: dict[int, _Calls]


def write_index(path: Path, index: DrawingIndex) -> None:
    """Write an index to a new file; raises ``OSError``."""
    clocks: dict[str, tuple[int, int, float]] = {}
    columns: dict[str, Array] = {f"names.{kind}": found for kind, found in index.names.items()}

    def put(key: str, row: Row) -> None:
        clock = row.clock
        if clock is not None and row.block_busy is not None and row.dominant is not None:
            clocks[key] = clock.origin, clock.cell, clock.quantum
            columns.update({f"{key}.begun": clock.begun, f"{key}.busy": clock.busy})
            columns.update({f"{key}.blocks": row.block_busy, f"{key}.dominant": row.dominant})
            columns[f"{key}.level"] = np.asarray(row.level)

    for lane, rows in enumerate(index.rows):
        for depth, row in enumerate(rows):
            put(f"{lane}.{depth}", row)
    for device, row in index.busy.items():
        key = f"busy.{device}"
        columns.update({f"{key}.start": row.start, f"{key}.end": row.end, f"{key}.name": row.name})
        put(key, row)
    for thread, nested in index.calls.items():
        columns[f"calls.{thread}.level"] = nested.level
        for depth, both in nested.rows.items():
            put(f"calls.{thread}.{depth}", both.row)
            columns[f"calls.{thread}.{depth}.events"] = both.events
    calls = {thread: _Calls(each.lane, each.first, list(each.rows)) for thread, each in index.calls.items()}
    words = _Words(clocks, list(index.names), list(index.busy), calls)
    columns_file.write(path, columns, msgspec.msgpack.encode(words))


def read_index(path: Path, trace: Trace) -> DrawingIndex:
    """The index that was written of this trace.

    Raises ``OSError``, ``KeyError``, ``ValueError`` and ``msgspec.MsgspecError`` where it is not what was written.
    """
    encoded, columns = columns_file.read(path)
    words = from_msgpack(encoded, _Words)
    events = trace.events

    def row(key: str, first: int, start: I64, end: I64, name: I32) -> Row:
        if key not in words.clocks:
            return Row(first, start, end, name)
        origin, cell, quantum = words.clocks[key]
        clock = Clock(origin, cell, columns[f"{key}.begun"], columns[f"{key}.busy"], quantum)
        return Row(first, start, end, name, clock, *_of(columns, key, "blocks", "dominant", "level"))

    def nested(thread: int, each: _Calls) -> NestedCalls:
        found = {}
        for depth in each.depths:
            key = f"calls.{thread}.{depth}"
            both = columns[f"{key}.events"]
            found[depth] = ThreadRow(row(key, 0, *drawn_in_turn(events, both)), both)
        return NestedCalls(each.lane, each.first, columns[f"calls.{thread}.level"], found)

    rows = tuple(
        tuple(
            row(f"{lane}.{depth}", part.start, *events.spans(part), events.name[part])
            for depth, part in events.rows(lane).items()
        )
        for lane in range(len(trace.lanes))
    )
    calls = {thread: nested(thread, each) for thread, each in words.calls.items()}
    busy = {
        device: row(f"busy.{device}", 0, *_of(columns, f"busy.{device}", "start", "end", "name"))
        for device in words.busy
    }
    names = {kind: columns[f"names.{kind}"] for kind in words.names}
    return index_of(trace, rows, names, busy, calls)


def _of(columns: Mapping[str, Array], key: str, *names: str) -> list[Array]:
    return [columns[f"{key}.{name}"] for name in names]
