"""Reads a whole Nsight Systems export: every table that holds events, in the order in which they need each other."""

from __future__ import annotations

import contextlib
from pathlib import Path

from parsers.files.unpacking_limit import require_memory
from parsers.model import Effect, LaneKind, Malformed, Progress, Trace, UnknownFormat
from parsers.model.builder import TraceBuilder
from parsers.model.late.regex import regex
from parsers.nsys import gpu_work, host_calls, metrics, sampled_sources, targets
from parsers.nsys.arguments import arguments_in
from parsers.nsys.launches import link_launches
from parsers.nsys.memory_use import read_memory_use
from parsers.nsys.nvtx_ranges import read_nvtx
from parsers.nsys.reading import Reading
from parsers.nsys.samples import read_samples, read_scheduling
from parsers.sqlite.database import Database

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
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    "NVTX_EVENTS",
    "OSRT_API",
    "COMPOSITE_EVENTS",
    "SCHED_EVENTS",
    "GPU_METRICS",
)


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
    sampled_sources.read_generic_metrics(reading, machine, ranks)
    sampled_sources.read_network_metrics(reading)
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
