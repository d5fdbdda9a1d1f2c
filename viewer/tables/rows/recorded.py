"""The tables of what was recorded: events, what lies in what, arguments; lanes, GPUs, and the recording as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from parsers.model import EventKind
from parsers.model.attributes import TEXT_ATTRIBUTES
from rules.analysis.analysis import Analysis
from viewer.statistics.operators import parents_on_lane
from viewer.tables.columns import (
    DEVICE,
    EVENT,
    PROCESS,
    RANK,
    STREAM,
    THREAD,
    TIMES,
    every_name,
    known,
    of_devices,
    optional,
    texts,
)
from viewer.tables.table import Column, RowTable, row_table

KINDS = tuple(kind.name.lower() for kind in EventKind)


@row_table
class Events(RowTable):
    """The columns are the model's own; only the number of each event is made."""

    name = "events"
    about = "one event of any kind, in the order of lanes"
    columns = (
        EVENT,
        Column("name", "name as recorded"),
        Column("kind", f"one of {', '.join(KINDS)}"),
        *TIMES,
        Column("lane", "number of its lane, as in the table lanes"),
        Column("depth", "how deep it is nested on its lane"),
    )

    def rows(self, analysis: Analysis) -> Mapping[str, Any]:
        events = analysis.trace.events
        small = len(events) < np.iinfo(np.int32).max
        return {
            "event": np.arange(len(events), dtype=np.int32 if small else np.int64),
            "name": every_name(analysis.trace, events.name),
            "kind": pd.Categorical.from_codes(events.kind, categories=pd.Index(KINDS, dtype=object)),
            "start_ns": events.start,
            "end_ns": events.end,
            "lane": events.lane,
            "depth": events.depth,
        }


@row_table
class Parents(RowTable):
    """Only events that lie inside another one of their lane have a row."""

    name = "parents"
    about = "one event that lies directly inside another one of its lane"
    columns = (EVENT, Column("parent", "the event around it"))

    def rows(self, analysis: Analysis) -> Mapping[str, Any]:
        trace = analysis.trace
        found = [np.empty(0, np.int64)]
        for lane in range(len(trace.lanes)):
            where = trace.events.lane_slice(lane)
            parent = parents_on_lane(trace, lane, where.start)
            found.append(np.where(parent < 0, -1, parent + where.start))
        parents = np.concatenate(found)
        inner = np.flatnonzero(parents >= 0)
        return {"event": inner, "parent": parents[inner]}


@row_table
class Arguments(RowTable):
    """Sizes, shapes, grids, groups and the like; everything else that a file says stays in it."""

    name = "arguments"
    about = "one argument of one event"
    columns = (
        EVENT,
        Column("key", "which argument"),
        Column("number", "its value, where it is a number"),
        Column("text", "its value, where it is a text"),
    )

    def rows(self, analysis: Analysis) -> Mapping[str, Any]:
        strings = analysis.trace.strings
        stored = sorted(analysis.trace.attributes.items(), key=lambda item: item[0].value)
        nothing = np.empty(0, np.int64)
        counts = np.array([len(column.event) for _, column in stored], np.int64)
        is_text = np.repeat(np.array([which in TEXT_ATTRIBUTES for which, _ in stored], bool), counts)
        value = np.concatenate([nothing, *(column.value for _, column in stored)])
        return {
            "event": np.concatenate([nothing, *(column.event for _, column in stored)]),
            "key": texts(np.repeat(np.arange(len(stored)), counts), [which.value for which, _ in stored]),
            "number": known(value, is_text),
            "text": texts(np.where(is_text, value, -1), strings),
        }


@row_table
class Lanes(RowTable):
    """Where events happen."""

    name = "lanes"
    about = "one lane: a thread's operators, its calls, a stream"
    columns = (
        Column("lane", "its number"),
        Column("name", "its name"),
        Column("kind", "what it shows, such as cpu_thread or gpu_stream"),
        RANK,
        PROCESS,
        Column("process_name", "name of the process"),
        THREAD,
        DEVICE,
        STREAM,
    )

    def rows(self, analysis: Analysis) -> Mapping[str, Any]:
        trace = analysis.trace
        lanes = trace.lanes
        places = of_devices(trace, trace.lane_device)
        return {
            "lane": np.arange(len(lanes), dtype=np.int32),
            "name": np.array([lane.name for lane in lanes], object),
            "kind": np.array([lane.kind.value for lane in lanes], object),
            "rank": known(optional([lane.rank for lane in lanes])),
            "process": known(optional([lane.process for lane in lanes])),
            "process_name": np.array([lane.process_name for lane in lanes], object),
            "thread": known(optional([lane.thread for lane in lanes])),
            "device": places["device"],
            "stream": known(optional([lane.stream for lane in lanes])),
        }


@row_table
class Devices(RowTable):
    """The GPUs, as each rank sees them."""

    name = "devices"
    about = "one GPU as one rank sees it"
    columns = (
        RANK,
        DEVICE,
        Column("name", "its model"),
        Column("memory_bytes", "size of its memory"),
        Column("multiprocessors", "number of its multiprocessors"),
    )

    def rows(self, analysis: Analysis) -> Mapping[str, Any]:
        devices = analysis.trace.devices
        return {
            "rank": known(optional([each.rank for each in devices])),
            "device": np.array([each.id for each in devices], np.int64),
            "name": np.array([each.name for each in devices], object),
            "memory_bytes": known(optional([each.memory_bytes for each in devices])),
            "multiprocessors": known(optional([each.sm_count for each in devices])),
        }


@row_table
class Recording(RowTable):
    """One row."""

    name = "recording"
    about = "the recording as a whole: one row"
    columns = (
        Column("length_ns", "from its start to its last event"),
        Column("analysed_from_ns", "where the analysed time begins, which summaries speak of"),
        Column("analysed_to_ns", "where the analysed time ends"),
        Column("epoch_ns", "wall-clock time at its start (UTC), if known"),
    )

    def rows(self, analysis: Analysis) -> Mapping[str, Any]:
        t0, t1 = analysis.window
        return {
            "length_ns": np.array([analysis.trace.duration], np.int64),
            "analysed_from_ns": np.array([t0], np.int64),
            "analysed_to_ns": np.array([t1], np.int64),
            "epoch_ns": known(optional([analysis.trace.epoch_ns])),
        }
