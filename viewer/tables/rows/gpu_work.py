"""The tables of work on the GPU: kernels, copies, collectives, and who launched what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from parsers.model import I64, Attribute, CopyKind, EventKind, MemoryKind, Trace
from parsers.model.arrays import distinct_values
from parsers.model.names.kernels import kernel_name
from parsers.model.names.per_name import distinct, numbers_of
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import measure
from rules.analysis.gpu.copies import direction_by_name
from rules.analysis.names.families import Family
from rules.analysis.ranks.collectives import bus_factor, whole_message
from rules.analysis.ranks.recorded import ranks_of
from rules.kernels.operator_roofs import launched_by
from viewer.tables.columns import (
    EVENT,
    ON_GPU,
    STEP,
    TIMES,
    columns,
    innermost,
    known,
    names_of,
    number,
    on_gpu,
    optional,
    steps_of_events,
    text,
    texts,
    times,
)
from viewer.tables.table import Column, RowTable, row_table

LAUNCH = Column("launch", "the event of the call that launched it")
REGION = Column("region", "the innermost annotated region around that call")
DIRECTIONS = {
    CopyKind.UNKNOWN: "unknown",
    CopyKind.H2D: "host to device",
    CopyKind.D2H: "device to host",
    CopyKind.D2D: "device to device",
    CopyKind.H2H: "host to host",
    CopyKind.P2P: "GPU to GPU",
}


def _launched(analysis: Analysis, events: I64, *, delay: bool) -> dict[str, Any]:
    """By which call, how long before, and in which region."""
    trace = analysis.trace
    launch = trace.links.launch_of(events)
    found: dict[str, Any] = {"launch": known(launch)}
    if delay:
        started = trace.events.start[np.maximum(launch, 0)] if len(events) else events
        wait = np.maximum(trace.events.start[events] - started, 0)
        found["launch_delay_ns"] = known(wait, launch < 0)
    return found | {"region": names_of(trace, innermost(analysis, launch, "regions"))}


@row_table
class Kernels(RowTable):
    """Kernels, and CUDA graphs that were recorded as one operation."""

    name = "kernels"
    about = "one kernel as it ran on the GPU"
    columns = (
        EVENT,
        Column("name", "name as recorded"),
        Column("short_name", "name without its template arguments"),
        Column("family", "kind of work, such as matrix multiplication"),
        *TIMES,
        *ON_GPU,
        Column("grid", 'blocks as "x,y,z"'),
        Column("block", 'threads of a block as "x,y,z"'),
        Column("registers", "registers of a thread"),
        LAUNCH,
        Column("launch_delay_ns", "from the start of that call to its own"),
        REGION,
        Column("operator", "the event of the operator that launched it, of those whose shapes were recorded"),
    )

    def rows(self, analysis: Analysis) -> Mapping[str, Any]:
        trace = analysis.trace
        events = trace.events.of_kind(EventKind.KERNEL, EventKind.GRAPH)
        name = trace.events.name[events]
        used = distinct(name)
        place = np.zeros(int(used[-1]) + 1 if len(used) else 1, np.int64)
        place[used] = np.arange(len(used))
        labels = {family: place for place, family in enumerate(Family)}
        family = np.array([labels[each] for each in analysis.families], np.int64)
        return columns(
            {
                "event": events,
                "name": texts(name, trace.strings),
                "short_name": texts(
                    place[name], [kernel_name(trace.strings[each]) for each in used.tolist()]
                ),
                "family": texts(family[name], [each.label for each in Family]),
            },
            times(trace, events),
            on_gpu(trace, events),
            {
                "grid": text(trace, Attribute.GRID_SHAPE, events),
                "block": text(trace, Attribute.BLOCK_SHAPE, events),
                "registers": number(trace, Attribute.REGISTERS, events),
            },
            _launched(analysis, events, delay=True),
            {"operator": known(_operators(trace, events))},
        )


def _operators(trace: Trace, kernels: I64) -> I64:
    """The event of the operator with shapes that launched each kernel; -1 where none is known."""
    pairs = launched_by(trace)
    found = np.full(len(kernels), -1, np.int64)
    found[np.searchsorted(kernels, pairs.kernel)] = pairs.operator
    return found


@row_table
class Copies(RowTable):
    """Copies and memsets."""

    name = "copies"
    about = "one copy or memset"
    columns = (
        EVENT,
        Column("name", "name as recorded"),
        Column("operation", "copy or memset"),
        Column("direction", "from where to where; nothing for memsets"),
        Column("from_memory", "kind of memory it reads, such as pageable or pinned"),
        Column("to_memory", "kind of memory it writes"),
        Column("size_bytes", "bytes that it moves"),
        *TIMES,
        Column("exposed_ns", "part of it, inside the analysed time, in which the GPU did nothing else"),
        *ON_GPU,
        LAUNCH,
        REGION,
        STEP,
    )

    def rows(self, analysis: Analysis) -> Mapping[str, Any]:
        trace = analysis.trace
        events = trace.events.of_kind(EventKind.MEMCPY, EventKind.MEMSET)
        memset = trace.events.kind[events] == EventKind.MEMSET
        return columns(
            {
                "event": events,
                "name": names_of(trace, events),
                "operation": texts(memset.astype(np.int64), ("copy", "memset")),
                "direction": directions(trace, events),
                "from_memory": _memory(trace, Attribute.SOURCE_MEMORY, events),
                "to_memory": _memory(trace, Attribute.TARGET_MEMORY, events),
                "size_bytes": number(trace, Attribute.BYTES, events),
            },
            times(trace, events),
            {"exposed_ns": _exposed(analysis, events, "copies")},
            on_gpu(trace, events),
            _launched(analysis, events, delay=False),
            {"step": steps_of_events(analysis, events)},
        )


def _exposed(analysis: Analysis, events: I64, part: str) -> I64:
    """How long each event ran while its GPU did nothing that counts before ``part``, inside the analysed window."""
    trace = analysis.trace
    device = trace.lane_device[trace.events.lane[events]]
    found = np.zeros(len(events), np.int64)
    for each in distinct_values(device[device >= 0]).tolist():
        mine = np.flatnonzero(device == each)
        alone = getattr(analysis.time(each), part)
        found[mine] = measure(alone, *trace.events.spans(events[mine]))
    return found


def directions(trace: Trace, events: I64) -> pd.Categorical:
    """Where copies go: as recorded, else as their names say; missing for memsets."""
    stated = trace.attribute(Attribute.COPY_KIND, events)
    code = np.where(stated > 0, stated, numbers_of(trace, events, direction_by_name))
    kinds = list(CopyKind)
    place = np.zeros(max(kind.value for kind in kinds) + 1, np.int64)
    for index, kind in enumerate(kinds):
        place[kind.value] = index
    copies = trace.events.kind[events] == EventKind.MEMCPY
    return texts(np.where(copies, place[code], -1), [DIRECTIONS[kind] for kind in kinds])


def _memory(trace: Trace, which: Attribute, events: I64) -> pd.Categorical:
    kinds = [kind.name.lower() for kind in MemoryKind]
    code = trace.attribute(which, events)
    return texts(np.where((code > 0) & (code < len(kinds)), code, -1), kinds)


@row_table
class Launches(RowTable):
    """Both sides are events."""

    name = "launches"
    about = "one operation on the GPU and the call that launched it"
    columns = (Column("launch", "the event of the call"), Column("operation", "the event on the GPU"))

    def rows(self, analysis: Analysis) -> Mapping[str, Any]:
        links = analysis.trace.links
        return {"launch": links.launch, "operation": links.operation}


@row_table
class Collectives(RowTable):
    """Each participant is a row; ``instance`` joins those of one collective."""

    name = "collectives"
    about = "one collective kernel on one rank"
    columns = (
        EVENT,
        Column("name", "name of the kernel"),
        Column("collective", "allreduce, allgather ...; empty where nothing tells"),
        Column("process_group", "process group, where recorded"),
        Column("instance", "the same number on every rank that took part"),
        Column("message_bytes", "what one rank contributes, where recorded"),
        Column("ranks", "ranks of its group"),
        *TIMES,
        Column("transfer_ns", "its shortest participant: about the transfer itself"),
        Column(
            "waiting_ns",
            "before the transfer could start, covered by compute or not: waiting for others, where these are recorded",
        ),
        Column("exposed_ns", "part of it, inside the analysed time, that no compute covers"),
        Column("exposed_waiting_ns", "part of its waiting, inside the analysed time, that no compute covers"),
        Column("waits_for", "the rank that came last to it; empty where it came last itself"),
        Column("algorithm_bytes_per_s", "bytes of the message a second of transfer"),
        Column("bus_bytes_per_s", "what each link carried a second of transfer"),
        *ON_GPU,
        LAUNCH,
        STEP,
    )

    def rows(self, analysis: Analysis) -> Mapping[str, Any]:
        trace, run = analysis.trace, ranks_of(analysis).run
        found, meetings = run.columns, run.meetings
        instance = np.full(len(found.event), -1, np.int64)
        transfer = found.end - found.start
        instance[run.places], transfer[run.places] = meetings.meeting, meetings.transfer[meetings.meeting]
        exposed_waiting = np.zeros(len(found.event), np.int64)
        exposed_waiting[run.places] = meetings.waiting
        row_ranks = np.array([*optional([row.rank for row in run.rows]), -1], np.int64)
        last = meetings.last[meetings.meeting]
        waits_for = np.full(len(found.event), -1, np.int64)
        waits_for[run.places] = np.where(last == np.arange(len(last)), -1, row_ranks[meetings.row[last]])
        met = meetings.size
        together = (
            np.where(instance >= 0, met[instance], 0) if len(met) else np.zeros(len(instance), np.int64)
        )
        size = np.where(found.group_size > 0, found.group_size, met[instance] if len(met) else 1)
        sizes = found.bytes.astype(np.float64)
        kinds = list(zip(found.collective, size.tolist(), strict=True))
        distinct = {key: (whole_message(key[0], 1.0, key[1]), bus_factor(*key)) for key in set(kinds)}
        whole = np.array([distinct[key][0] for key in kinds])
        factor = np.array([distinct[key][1] for key in kinds])
        speed = np.where(transfer > 0, sizes * whole / np.maximum(transfer, 1) * 1e9, 0.0)
        return columns(
            {
                "event": found.event,
                "name": names_of(trace, found.event),
                "collective": np.array(found.collective, object),
                "process_group": np.array(found.group, object),
                "instance": known(instance),
                "message_bytes": known(found.bytes, found.bytes <= 0),
                "ranks": size,
                "start_ns": found.start,
                "end_ns": found.end,
                "transfer_ns": transfer,
                "waiting_ns": known(np.maximum(found.end - found.start - transfer, 0), together < 2),
                "exposed_ns": _exposed(analysis, found.event, "communication"),
                "exposed_waiting_ns": exposed_waiting,
                "waits_for": known(waits_for),
                "algorithm_bytes_per_s": speed,
                "bus_bytes_per_s": speed * factor,
            },
            on_gpu(trace, found.event),
            {
                "launch": known(trace.links.launch_of(found.event)),
                "step": steps_of_events(analysis, found.event),
            },
        )
