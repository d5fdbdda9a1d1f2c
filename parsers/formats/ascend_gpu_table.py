"""GPU operations as Ascend's profiler writes them as CSV (kernel_details, op_summary), without their calls."""

from __future__ import annotations

import numpy as np

from parsers.csv_tables import CsvTable, add_operations, has_columns, in_words, read_csv, renamed
from parsers.files.base import Parser, Source, parser
from parsers.model import I64, Effect, Progress, Trace
from parsers.model.arrays import ABSENT
from parsers.model.builder import TraceBuilder
from parsers.model.names.collectives import is_collective_kernel
from parsers.model.quality import MISSING_BEFORE

_TIMES = (("starttimeus",), ("durationus", "taskdurationus"))
_WAIT = (
    "waittimeus",
    "taskwaittimeus",
)  # in a whole table what lies between an operation and those before it
CLEARLY_LONGER = 2.0, 10_000  # times as long, and so many ns longer
_COLUMNS = (*_TIMES, ("name", "opname"), ("type", "optype"), ("acceleratorcore", "tasktype"))


@parser
class AscendGpuTable(Parser):
    """Recognised by the names of its columns."""

    format = "ascend-gpu-table"
    title = "Ascend profiler"
    files = "kernel_details and op_summary as CSV"
    suffixes = (".csv",)
    version = 2
    priority = 57
    excerpt_of = frozenset({"chrome"})

    def recognises(self, source: Source) -> bool:
        return has_columns(source.head, *_COLUMNS)

    def read(self, source: Source, progress: Progress) -> Trace:
        builder = TraceBuilder()
        table = _as_of_nsys(read_csv(source, builder.quality, progress.part(0.0, 0.8)), builder)
        hint = "To see why the accelerator idles, open the trace_view.json beside it."
        add_operations(table, builder, source.path, hint)
        builder.came_from(source.name, self.format, "Ascend profiler")
        return builder.build(progress.part(0.8, 1.0))


def _as_of_nsys(table: CsvTable, builder: TraceBuilder) -> CsvTable:
    """Its operations as those of nsys stats, from the first one on; of which accelerator they are is not said."""
    import pyarrow as pa

    start, length = (table.scaled(table.first(names), 1000) for names in _TIMES)
    told = start != ABSENT
    if told.any():
        builder.epoch_ns = int(start[told].min())
        start = np.where(told, start - builder.epoch_ns, ABSENT)
    _count_missing(table, start, length, builder)
    texts, name = table.texts("name", "opname")
    talks = np.array([is_collective_kernel(text) for text in texts], np.int64)[name]
    made = {
        "startns": in_words(start),
        "durationns": in_words(length),
        "device": pa.array(["Ascend NPU (0)"]).take(pa.array(np.zeros(table.length, np.int64))),
        "strm": table.columns.get("streamid", in_words(talks)),  # collectives have streams of their own
    }
    return renamed(table, {"name": table.first(("name", "opname"))}, made)


def _count_missing(table: CsvTable, start: I64, length: I64, builder: TraceBuilder) -> None:
    """Note the operations that by their own account waited much less than the time since those before them."""
    stated = table.first(_WAIT)
    if not stated:
        return
    wait = table.scaled(stated, 1000)
    rows = np.flatnonzero((start != ABSENT) & (length != ABSENT) & (wait != ABSENT))
    if not wait[rows].any():  # a column of zeros tells nothing
        return
    rows = rows[np.argsort(start[rows], kind="stable")]
    idle = start[rows][1:] - np.maximum.accumulate(start[rows] + length[rows])[:-1]
    times, more = CLEARLY_LONGER
    builder.quality.note(
        MISSING_BEFORE,
        Effect.NOTED,
        "An operation waited less than the time since the one before: others ran there, which are not in the table.",
        "",
        int(np.count_nonzero(idle > times * wait[rows][1:] + more)),
    )
