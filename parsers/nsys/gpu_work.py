"""Rows of GPU work: kernels, copies, memsets, whole graphs, and synchronisations as the device saw them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

import numpy as np

from parsers.model import BOOL, I32, I64, Attribute, CopyKind, EventKind, LaneKind, MemoryKind, SyncKind
from parsers.model.late import dataclass
from parsers.model.names.collectives import collective_of, is_collective_kernel
from parsers.model.names.kernels import PAGE_FAULTS
from parsers.nsys.enumerations import COPY_KINDS, copy_text, memory_kinds, memory_text
from parsers.nsys.reading import PAGE_FAULT_STREAM, UNKNOWN, Codes, LaneKey, Reading, RowCodes, taken
from parsers.sqlite.database import Batch, Table
from parsers.sqlite.guarded import quote

_BITS = (31, 16, 16)  # x, y and z of a grid in one number; CUDA allows no more


@dataclass(slots=True)
class Correlated:
    """Event numbers of GPU operations or API calls, with the keys that join them: lane, for the process, and number."""

    events: list[I64] = field(default_factory=list)
    lanes: list[I32] = field(default_factory=list)
    correlations: list[I64] = field(default_factory=list)
    starts: list[I64] = field(default_factory=list)

    def add(self, events: I64, starts: I64, lanes: I32, correlations: I64) -> None:
        self.events.append(events)
        self.starts.append(starts)
        self.lanes.append(lanes)
        self.correlations.append(correlations)


def _common(table: Table) -> dict[str, str]:
    return {
        "start": table.expression("start", UNKNOWN),
        "end": table.expression("end", UNKNOWN),
        "device": table.expression("deviceId", 0),
        "stream": table.expression("streamId", 0),
        "correlation": table.expression("correlationId", 0),
        "process": table.expression("globalPid", UNKNOWN),
    }


class _Lanes:
    """Lane numbers of (process, device, stream)."""

    def __init__(self, reading: Reading, kind: LaneKind) -> None:
        self._reading = reading
        self._kind = kind
        self._codes = RowCodes(3)
        self._lane = np.empty(0, np.int32)

    def of(self, batch: Batch, rows: BOOL | slice) -> I32:
        codes = self._codes.of(*(batch[column][rows] for column in ("process", "device", "stream")))
        new = [
            self._reading.lane(LaneKey(self._kind, process, UNKNOWN, device, stream))
            for process, device, stream in self._codes.keys[len(self._lane) :]
        ]
        self._lane = np.append(self._lane, np.array(new, np.int32))
        return self._lane[codes]


def _packed(table: Table, prefix: str) -> str:
    """SQL that packs the three sizes of a grid or block."""
    sizes = [table.expression(f"{prefix}{axis}", 0) for axis in "XYZ"]
    fields = [f"(({size}) & {(1 << bits) - 1})" for size, bits in zip(sizes, _BITS, strict=True)]
    return f"({fields[0]} << 32) | ({fields[1]} << 16) | {fields[2]}"


def _unpacked(packed: int) -> tuple[int, int, int]:
    return packed >> 32, packed >> 16 & 0xFFFF, packed & 0xFFFF


def read_kernels(reading: Reading, launched: Correlated) -> None:
    """CUPTI_ACTIVITY_KIND_KERNEL."""
    table = reading.database.table("CUPTI_ACTIVITY_KIND_KERNEL")
    if table is None:
        return
    builder = reading.builder
    named = [each for each in ("demangledName", "shortName", "mangledName", "nameId") if each in table]
    columns = {
        **_common(table),
        "name": f"coalesce({', '.join([*map(quote, named), str(UNKNOWN)])}, {UNKNOWN})",
        "registers": table.expression("registersPerThread", UNKNOWN),
        "node": table.expression("graphNodeId", 0),
        "number": table.expression("gridId", UNKNOWN),
        "grid": _packed(table, "grid"),
        "block": _packed(table, "block"),
    }
    collectives = np.empty(0, np.int64)
    lanes, names, grids, blocks = _Lanes(reading, LaneKind.GPU_STREAM), Codes(), Codes(), Codes()
    name_of = np.empty(0, np.int32)
    shape_of = {Attribute.GRID: np.empty((0, 2), np.int64), Attribute.BLOCK: np.empty((0, 2), np.int64)}
    for batch in reading.batches(table, columns, "reading kernels"):
        rows = reading.rows_of(table, batch)
        good = reading.chosen(table, batch["start"], batch["end"], rows)
        code = names.of(batch["name"])
        if len(names.values) > len(name_of):
            new = reading.names(names.values[len(name_of) :])
            name_of = np.append(name_of, new)
            collectives = np.append(collectives, _collectives(reading, new))
        start = taken(batch["start"], good)
        lane = lanes.of(batch, good)
        events = builder.add(
            start, taken(batch["end"], good), name_of[code[good]], lane, EventKind.KERNEL, rows[good]
        )
        launched.add(events, start, lane, taken(batch["correlation"], good))
        for size, text, codes, column in (
            (Attribute.GRID, Attribute.GRID_SHAPE, grids, "grid"),
            (Attribute.BLOCK, Attribute.BLOCK_SHAPE, blocks, "block"),
        ):
            if f"{column}X" not in table:
                continue
            shape = codes.of(batch[column][good])
            shape_of[size] = _with_new_shapes(shape_of[size], codes, reading)
            builder.attribute(size, events, shape_of[size][shape, 0])
            builder.attribute(text, events, shape_of[size][shape, 1])
        if "registersPerThread" in table:
            builder.attribute(Attribute.REGISTERS, events, taken(batch["registers"], good))
        if "gridId" in table:
            builder.attribute(Attribute.LAUNCH_NUMBER, events, taken(batch["number"], good))
        node = batch["node"][good]
        builder.attribute(Attribute.GRAPH_NODE, events[node != 0], node[node != 0])
        collective = collectives[code[good]]
        builder.attribute(Attribute.COLLECTIVE, events[collective >= 0], collective[collective >= 0])


def _collectives(reading: Reading, names: I32) -> I64:
    """Index of the text of the collective that each kernel name speaks of; -1 where it speaks of none."""
    texts = [reading.builder.strings[name] for name in names.tolist()]
    spoken = [collective_of(text) if is_collective_kernel(text) else "" for text in texts]
    return np.array([reading.builder.string(text) if text else -1 for text in spoken], np.int64)


def _with_new_shapes(known: I64, codes: Codes, reading: Reading) -> I64:
    new = [_unpacked(packed) for packed in codes.values[len(known) :]]
    if not new:
        return known
    rows = [(x * y * z, reading.builder.string(f"{x},{y},{z}")) for x, y, z in new]
    return np.concatenate((known, np.array(rows, np.int64)))


def read_copies(reading: Reading, launched: Correlated) -> None:
    """CUPTI_ACTIVITY_KIND_MEMCPY, named as PyTorch's profiler names copies."""
    table = reading.database.table("CUPTI_ACTIVITY_KIND_MEMCPY")
    if table is None:
        return
    memory = memory_kinds(reading.database)
    columns = {
        **_common(table),
        "bytes": table.expression("bytes", 0),
        "copy": table.expression("copyKind", 0),
        "source": table.expression("srcKind", UNKNOWN),
        "target": table.expression("dstKind", UNKNOWN),
        "node": table.expression("graphNodeId", 0),
    }

    def describe(copy: int, source: int, target: int) -> tuple[int, int, int, int]:
        ends = memory.get(source, MemoryKind.UNKNOWN), memory.get(target, MemoryKind.UNKNOWN)
        name = f"Memcpy {copy_text(copy)} ({memory_text(ends[0])} -> {memory_text(ends[1])})"
        kind = COPY_KINDS.get(copy, CopyKind.UNKNOWN)
        return reading.builder.string(name), kind.value, ends[0].value, ends[1].value

    _read_transfers(
        reading,
        launched,
        table,
        columns,
        EventKind.MEMCPY,
        ("copy", "source", "target"),
        (Attribute.COPY_KIND, Attribute.SOURCE_MEMORY, Attribute.TARGET_MEMORY),
        describe,
    )


def read_memsets(reading: Reading, launched: Correlated) -> None:
    """CUPTI_ACTIVITY_KIND_MEMSET."""
    table = reading.database.table("CUPTI_ACTIVITY_KIND_MEMSET")
    if table is None:
        return
    memory = memory_kinds(reading.database)
    columns = {
        **_common(table),
        "bytes": table.expression("bytes", 0),
        "target": table.expression("memKind", UNKNOWN),
        "node": table.expression("graphNodeId", 0),
    }

    def describe(target: int) -> tuple[int, int]:
        kind = memory.get(target, MemoryKind.UNKNOWN)
        return reading.builder.string(f"Memset ({memory_text(kind)})"), kind.value

    _read_transfers(
        reading, launched, table, columns, EventKind.MEMSET, ("target",), (Attribute.TARGET_MEMORY,), describe
    )


def _read_transfers(
    reading: Reading,
    launched: Correlated,
    table: Table,
    columns: dict[str, str],
    kind: EventKind,
    keys: tuple[str, ...],
    attributes: tuple[Attribute, ...],
    describe: Callable[..., tuple[int, ...]],
) -> None:
    builder = reading.builder
    lanes, codes = _Lanes(reading, LaneKind.GPU_STREAM), RowCodes(len(keys))
    described = np.empty((0, len(attributes) + 1), np.int64)
    for batch in reading.batches(table, columns, "reading copies"):
        rows = reading.rows_of(table, batch)
        good = reading.chosen(table, batch["start"], batch["end"], rows)
        code = codes.of(*(batch[key] for key in keys))[good]
        new = [describe(*key) for key in codes.keys[len(described) :]]
        if new:
            described = np.concatenate((described, np.array(new, np.int64)))
        start = taken(batch["start"], good)
        lane = lanes.of(batch, good)
        events = builder.add(start, taken(batch["end"], good), described[code, 0], lane, kind, rows[good])
        launched.add(events, start, lane, taken(batch["correlation"], good))
        if "bytes" in table:
            builder.attribute(Attribute.BYTES, events, taken(batch["bytes"], good))
        for index, attribute in enumerate(attributes, 1):
            builder.attribute(attribute, events, described[code, index])
        node = batch["node"][good]
        builder.attribute(Attribute.GRAPH_NODE, events[node != 0], node[node != 0])


def read_graphs(reading: Reading, launched: Correlated) -> bool:
    """CUPTI_ACTIVITY_KIND_GRAPH_TRACE: CUDA graphs recorded as one operation; whether there were any."""
    table = reading.database.table("CUPTI_ACTIVITY_KIND_GRAPH_TRACE")
    if table is None:
        return False
    lanes, codes, count = _Lanes(reading, LaneKind.GPU_STREAM), Codes(), 0
    columns = {**_common(table), "graph": table.expression("graphExecId", UNKNOWN)}
    for batch in reading.batches(table, columns, "reading CUDA graphs"):
        rows = reading.rows_of(table, batch)
        good = reading.chosen(table, batch["start"], batch["end"], rows)
        code = codes.of(batch["graph"])
        texts = [f"CUDA graph {value}" if value > UNKNOWN else "CUDA graph" for value in codes.values]
        names = np.array([reading.builder.string(text) for text in texts], np.int32)
        start = taken(batch["start"], good)
        lane = lanes.of(batch, good)
        events = reading.builder.add(
            start, taken(batch["end"], good), names[code[good]], lane, EventKind.GRAPH, rows[good]
        )
        launched.add(events, start, lane, taken(batch["correlation"], good))
        count += len(events)
    return count > 0


def read_synchronisations(reading: Reading) -> None:
    """CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: shown on lanes of their own, because nothing runs during a wait."""
    table = reading.database.table("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION")
    if table is None:
        return
    builder = reading.builder
    names = {kind: builder.string(f"{_SYNC_TEXT[kind]} synchronization") for kind in SyncKind}
    lanes, codes = _Lanes(reading, LaneKind.OTHER), Codes()
    columns = {**_common(table), "sync": table.expression("syncType", 0)}
    known = {kind.value: kind for kind in SyncKind}
    for batch in reading.batches(table, columns, "reading synchronisations"):
        rows = reading.rows_of(table, batch)
        good = reading.chosen(table, batch["start"], batch["end"], rows)
        code = codes.of(batch["sync"])[good]
        kinds = [known.get(value, SyncKind.UNKNOWN) for value in codes.values]
        name = np.array([names[kind] for kind in kinds], np.int32)[code]
        value = np.array([kind.value for kind in kinds], np.int64)[code]
        lane = lanes.of(batch, good)
        events = builder.add(
            taken(batch["start"], good), taken(batch["end"], good), name, lane, EventKind.GPU_SYNC, rows[good]
        )
        builder.attribute(Attribute.SYNC_KIND, events, value)


def read_page_faults(reading: Reading) -> None:
    """CUDA_UM_GPU_PAGE_FAULT_EVENTS: how long the driver handles each group of page faults, on a lane of its own."""
    table = reading.database.table("CUDA_UM_GPU_PAGE_FAULT_EVENTS")
    if table is None:
        return
    lanes, name = _Lanes(reading, LaneKind.OTHER), reading.builder.string(PAGE_FAULTS)
    columns = {**_common(table), "stream": str(PAGE_FAULT_STREAM)}
    for batch in reading.batches(table, columns, "reading page faults"):
        rows = reading.rows_of(table, batch)
        good = reading.chosen(table, batch["start"], batch["end"], rows)
        start = taken(batch["start"], good)
        names = np.full(len(start), name, np.int32)
        lane = lanes.of(batch, good)
        reading.builder.add(start, taken(batch["end"], good), names, lane, EventKind.OTHER, rows[good])


_SYNC_TEXT = {
    SyncKind.UNKNOWN: "Unknown",
    SyncKind.EVENT: "Event",
    SyncKind.STREAM_WAIT_EVENT: "Stream wait event",
    SyncKind.STREAM: "Stream",
    SyncKind.CONTEXT: "Context",
}
