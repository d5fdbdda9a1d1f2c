"""Reads a whole Nsight Systems export: every table that holds events, in the order in which they need each other."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from parsers.files.unpacking_limit import require_memory
from parsers.model import Attribute, Effect, LaneKind, Malformed, Progress, Trace, UnknownFormat
from parsers.model.arrays import BOOL, I32, I64, place_in
from parsers.model.builder import TraceBuilder
from parsers.model.late import regex
from parsers.model.units import duration
from parsers.nsys import gpu_work, host_calls, metrics, targets
from parsers.nsys.arguments import arguments_in
from parsers.nsys.gpu_work import Correlated
from parsers.nsys.memory_use import read_memory_use
from parsers.nsys.nvtx_ranges import read_nvtx
from parsers.nsys.reading import UNKNOWN, Reading
from parsers.nsys.samples import read_samples, read_scheduling
from parsers.sqlite.database import Database

_WORTH_A_TABLE = 8  # a lookup array may have this many places for each call


def link_launches(reading: Reading, launched: Correlated, calls: Correlated) -> None:
    """State the launch of every operation that has one. An export without process numbers is one process."""
    if not launched.events:
        return
    operation, number = np.concatenate(launched.events), np.concatenate(launched.correlations)
    reading.builder.attribute(Attribute.CORRELATION, operation, number)
    if not calls.events:
        return
    call, caller_number = np.concatenate(calls.events), np.concatenate(calls.correlations)
    started_at, called_at = np.concatenate(launched.starts), np.concatenate(calls.starts)
    process_of_lane = np.array([lane.process for lane in reading.lanes], np.int64)
    of_operation, of_call = np.concatenate(launched.lanes), np.concatenate(calls.lanes)
    for process in sorted(
        {reading.lanes[lane].process for lane in np.flatnonzero(np.bincount(of_operation))}
    ):
        mine = _chosen(process_of_lane == process, of_operation)
        theirs = _chosen((process_of_lane == process) | (process == UNKNOWN), of_call)
        found = _matches(caller_number[theirs], number[mine])
        linked = _every_or(found >= 0)
        reading.builder.link(operation[mine][linked], call[theirs][found[linked]])
        early = called_at[theirs][found[linked]]
        early -= started_at[mine][linked]
        _note_causality(reading, early[early > 0])


def _note_causality(reading: Reading, early: I64) -> None:
    if len(early):
        reading.builder.quality.note(
            "before-launch",
            Effect.NOTED,
            "GPU operations begin before the call that launched them: the clocks of CPU and GPU disagree.",
            f"by up to {duration(float(early.max()))}",
            len(early),
        )


def _chosen(lanes: BOOL, lane: I32) -> BOOL | slice:
    return slice(None) if lanes.all() else _every_or(lanes[lane])


def _every_or(chosen: BOOL) -> BOOL | slice:
    """An index that costs nothing where everything is chosen."""
    return slice(None) if chosen.all() else chosen


def _matches(keys: I64, wanted: I64) -> npt.NDArray[np.signedinteger]:
    """For each wanted number its place in ``keys``; -1 where it is absent or zero."""
    if not len(keys) or not len(wanted):
        return np.full(len(wanted), -1, np.int64)
    low, high = int(keys.min()), int(keys.max())
    if high - low < max(_WORTH_A_TABLE * len(keys), 1 << 16):
        place = np.full(high - low + 1, -1, np.int32)
        place[keys - low] = np.arange(len(keys), dtype=np.int32)
        found = place[np.clip(wanted, low, high) - low]
        found[(wanted < low) | (wanted > high) | (wanted == 0)] = -1
        return found
    return np.where(wanted != 0, place_in(keys, wanted), -1)


_OF_NSYS = regex(
    r"CUPTI_ACTIVITY_KIND_|TARGET_INFO_|(NVTX|COMPOSITE|SCHED|CUDNN|CUBLAS|MPI\w*|UC[PX]\w*)_EVENTS|OSRT_API|GPU_METRICS|"
    r"ANALYSIS_DETAILS|META_DATA_EXPORT|EXPORT_META_DATA"
)
_OF_OTHERS = (
    (
        "StringTable",
        "nvprof wrote this database, and its tables are not supported.",
        "Open its GPU operations as CSV: nvprof --import-profile FILE --print-gpu-trace --csv --log-file trace.csv",
    ),
    (
        "CANN_API",
        "Ascend's profiler wrote this database, and its tables are not supported.",
        "Open trace_view.json or kernel_details.csv, which it writes as well.",
    ),
)
_BYTES_AN_EVENT = 170
_MIN_ROW_BYTES = 16
_HOW_TO_SHORTEN = (
    "Record a shorter part, or export one: nsys export --type sqlite --times START/END REPORT.nsys-rep"
)
_LARGE_TABLES = (
    "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "NVTX_EVENTS", "OSRT_API",
    "COMPOSITE_EVENTS", "SCHED_EVENTS", "GPU_METRICS", "CUDA_UM_GPU_PAGE_FAULT_EVENTS",
)  # fmt: skip


def read_export(
    path: Path, shown_path: str, format_name: str, progress: Progress, most_rows: int | None = None
) -> Trace:
    """Read the SQLite file at ``path``; the trace says it came from ``shown_path``. Raises ``TraceError``.

    With ``most_rows``, about so many of each table.
    """
    builder = TraceBuilder()
    database = Database.open(path, builder.quality, most_rows, progress)
    with contextlib.closing(database):
        for table, problem, hint in _OF_OTHERS:
            if table in database.tables and "StringIds" not in database.tables:
                raise UnknownFormat(path, problem, hint)
        if not any(_OF_NSYS.match(name) for name in database.tables):
            if database.damaged:
                raise Malformed(
                    path, "The SQLite database is cut off or damaged before its tables.", "Copy it again."
                )
            raise UnknownFormat(
                path,
                "This SQLite database was not written by a supported profiler.",
                "If it comes from Nsight Systems, export its report again: nsys export --type sqlite REPORT.nsys-rep",
            )
        reading = Reading(database, builder, progress)
        events = reading.expect(_LARGE_TABLES) - reading.rows_in("GPU_METRICS")
        require_memory(
            path, min(events, path.stat().st_size // _MIN_ROW_BYTES), _BYTES_AN_EVENT, _HOW_TO_SHORTEN
        )
        _read_events(reading, shown_path, format_name)
    if database.damaged and not reading.lanes and not builder.counters:
        raise Malformed(
            path, "The database is cut off or damaged, and nothing in it can be read.", "Copy it again."
        )
    builder.sources.append(arguments_in(path))
    return builder.build(progress.part(0.85, 1.0))


def _read_events(reading: Reading, shown_path: str, format_name: str) -> None:
    launched = gpu_work.Correlated()
    gpu_work.read_kernels(reading, launched)
    gpu_work.read_copies(reading, launched)
    gpu_work.read_memsets(reading, launched)
    opaque = gpu_work.read_graphs(reading, launched)
    busy = {lane.process for lane in reading.lanes if lane.kind is LaneKind.GPU_STREAM}
    gpu_work.read_synchronisations(reading)
    gpu_work.read_page_faults(reading)
    calls = host_calls.read_api_calls(reading)
    read_nvtx(reading)
    host_calls.read_other_calls(reading)
    read_samples(reading)
    read_scheduling(reading)
    reading.progress.step(0.82, "linking launches")
    link_launches(reading, launched, calls)
    machine = targets.Machine(reading.database)
    ranks = targets.ranks_of(reading, machine, busy)
    targets.name_lanes(reading, machine, ranks)
    metrics.read_gpu_metrics(reading, machine, ranks)
    read_memory_use(reading, ranks)
    metrics.read_generic_metrics(reading, machine, ranks)
    metrics.read_network_metrics(reading)
    targets.describe_run(reading, ranks, shown_path, format_name)
    targets.describe_capture(reading, opaque)
    targets.note_warnings(reading)
    reading.note_unread()
    if not busy:
        reading.builder.quality.note(
            "no GPU work",
            Effect.NOTED,
            "The export contains no kernel, copy or memset"
            + ("." if calls.events else ": CUDA was not traced, or nothing ran on a GPU."),
        )
