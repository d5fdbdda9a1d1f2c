"""The tables of places: lanes and GPUs; and of the recording as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from rules.analysis.analysis import Analysis
from viewer.tables.columns import DEVICE, PROCESS, RANK, STREAM, THREAD, known, of_devices, optional
from viewer.tables.table import Column, RowTable, row_table


@row_table
class Lanes(RowTable):
    """Where events happen."""

    name: ClassVar[str] = "lanes"
    about: ClassVar[str] = "one lane: a thread's operators, its calls, a stream"
    columns: ClassVar[tuple[Column, ...]] = (
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

    name: ClassVar[str] = "devices"
    about: ClassVar[str] = "one GPU as one rank sees it"
    columns: ClassVar[tuple[Column, ...]] = (
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

    name: ClassVar[str] = "recording"
    about: ClassVar[str] = "the recording as a whole: one row"
    columns: ClassVar[tuple[Column, ...]] = (
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
