"""nvprof and the Visual Profiler: their databases (.nvvp, .nvprof), and GPU operations without their calls."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from io import BytesIO
from typing import Any

import numpy as np

from parsers.csv_tables import CsvTable, add_operations, has_columns, in_words, read_csv, renamed, table_of
from parsers.files.base import HEAD_BYTES, Parser, Source, parser
from parsers.files.texts import utf8
from parsers.files.unpacking_limit import whole_content
from parsers.model import ArgumentSource, Effect, Progress, Trace, TraceInput
from parsers.model.builder import TraceBuilder
from parsers.model.late import regex
from parsers.model.quality import ONE_BY_ONE, RAN_ONE_BY_ONE
from parsers.nvprof_text import BYTES, gpu_trace, has_gpu_trace
from parsers.sqlite.read_only import tables_of

_OWN = frozenset({"StringTable", "CUPTI_ACTIVITY_KIND_DEVICE"})


@parser
class NvprofDatabase(Parser):
    """Recognised as a SQLite database with CUPTI's records and their table of strings."""

    format = "nvprof"
    title = "nvprof and Visual Profiler"
    files = "databases (.nvvp, .nvprof) and sessions that hold one"
    suffixes = (".nvvp", ".nvprof")
    priority = 27
    version = 3

    def recognises(self, source: Source) -> bool:
        return tables_of(source) >= _OWN

    def argument_source(self, source: Source) -> ArgumentSource:
        from parsers.nsys.nvprof_records import as_stored
        from parsers.sqlite.recording import rows_of

        return rows_of(source, as_stored)

    def read(self, source: Source, progress: Progress) -> Trace:
        from parsers.nsys.nvprof_records import as_stored, read_into
        from parsers.sqlite.recording import read_database

        written_by = TraceInput(str(source.path), self.format, "nvprof")
        return read_database(source, progress, written_by, partial(read_into, progress=progress), as_stored)


_NVPROF = (("start",), ("duration",), ("throughput",), ("device",), ("stream",), ("name",))
_VISUAL = (("name",), ("starttimens",), ("durationns",), ("gridx",), ("blockx",), ("registersthread",))
_COUNTED = (
    "controlflowinstructions",
    "instructionsexecuted",
    "achievedoccupancy",
    "globalmemoryloadefficiency%",
)
_REMARKS = regex(rb"(?:==\d+==[^\n]*\n)*")
_WARNING = regex(rb"^==\d+== Warning: ([^\n\r]{1,400})", re.MULTILINE)
_NAMES_OF_NVPROF = {
    "strm": "stream",
    "regtrd": "registersperthread",
    "srcmemkd": "srcmemtype",
    "dstmemkd": "dstmemtype",
    "device": "device",
    **{
        f"{short}{axis}": f"{long}{axis}"
        for short, long in (("grd", "grid"), ("blk", "block"))
        for axis in "xyz"
    },
}
_NAMES_OF_VISUAL = _NAMES_OF_NVPROF | {
    "startns": "starttimens",
    "durationns": "durationns",
    "regtrd": "registersthread",
}
MAX_PRINTED = 256 << 20  # bytes of a printed table: about a million operations
_LENGTHS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_NUMBER_OF_CALL = r" \[\d+\]$"


@parser
class NvprofGpuTable(Parser):
    """Recognised by the names of its columns, which nvprof writes below remarks of its own."""

    format = "nvprof-gpu-table"
    title = "nvprof and Visual Profiler"
    files = "nvprof --print-gpu-trace as CSV and as text, CSV of the Visual Profiler"
    suffixes = (".csv", ".txt", ".log")
    version = 2
    priority = 57
    excerpt_of = frozenset({"nvprof"})

    def recognises(self, source: Source) -> bool:
        return (
            has_columns(_below_remarks(source.head), *_NVPROF)
            or has_columns(source.head, *_VISUAL)
            or has_gpu_trace(utf8(source.head).decode("latin-1"))
        )

    def read(self, source: Source, progress: Progress) -> Trace:
        builder = TraceBuilder()
        if has_gpu_trace(utf8(source.head).decode("latin-1")):
            hint = "Record fewer operations, or write CSV: nvprof --csv."
            printed = whole_content(source, progress.part(0.0, 0.8), "reading the table", hint, MAX_PRINTED)
            printed = utf8(printed)
            for warning in _WARNING.findall(printed[:HEAD_BYTES]):
                text = warning.decode("latin-1")
                builder.quality.note(f"profiler: {text[:60]}", Effect.NOTED, f"The profiler warned: {text}")
            table = table_of(*gpu_trace(line.decode("latin-1") for line in BytesIO(printed)))
        else:
            before = source.head.count(b"\n", 0, len(source.head) - len(_below_remarks(source.head)))
            table = read_csv(source, builder.quality, progress.part(0.0, 0.8), before)
        visual = _VISUAL[1][0] in table
        table = _of_visual_profiler(table, builder) if visual else _of_nvprof(table)
        producer = "Visual Profiler" if visual else "nvprof"
        hint = "Nsight Systems records both: nsys profile --trace=cuda,nvtx"
        add_operations(table, builder, source.path, hint)
        builder.came_from(source.name, self.format, producer)
        return builder.build(progress.part(0.8, 1.0))


def _below_remarks(head: bytes) -> bytes:
    remarks = _REMARKS.match(head)
    return head[remarks.end() :] if remarks else head


def _of_nvprof(table: CsvTable) -> CsvTable:
    """Its operations as those of nsys stats; the first row holds the units of the columns."""
    import pyarrow.compute as pc

    units = {name: str(column[0]).strip() for name, column in table.columns.items() if table.length}
    rows = {name: column.slice(1) for name, column in table.columns.items()}
    table = replace(table, columns=rows, length=max(table.length - 1, 0))
    made = {
        ours: in_words(table.scaled(theirs, _LENGTHS.get(units.get(theirs, ""), 1)))
        for ours, theirs in (("startns", "start"), ("durationns", "duration"))
    }
    if (size := BYTES.get(units.get("size", ""))) is not None:
        made["bytesmb"] = pc.cast(table.numbers("size") * size / 1e6, "string")
    made["name"] = pc.replace_substring_regex(rows["name"], _NUMBER_OF_CALL, "")
    return renamed(table, _NAMES_OF_NVPROF, made)


def _of_visual_profiler(table: CsvTable, builder: TraceBuilder) -> CsvTable:
    """Its operations as those of nsys stats; it says of neither stream nor GPU which one, and may hold counters."""
    import pyarrow.compute as pc

    if any(not np.isnan(table.numbers(each)).all() for each in _COUNTED if each in table):
        builder.quality.note(ONE_BY_ONE, Effect.NOTED, RAN_ONE_BY_ONE)
    name = pc.replace_substring_regex(table.columns["name"], r"^Memcpy (\w+) \[\w+\]$", r"[CUDA memcpy \1]")
    made: dict[str, Any] = {"name": pc.replace_substring_regex(name, r"^memset \(\d+\)$", "[CUDA memset]")}
    if "sizebytes" in table:
        made["bytesmb"] = pc.cast(table.numbers("sizebytes") / 1e6, "string")
    return renamed(table, _NAMES_OF_VISUAL, made)
