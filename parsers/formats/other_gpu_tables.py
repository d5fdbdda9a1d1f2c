"""GPU operations as Ascend's profiler, nvprof and the Visual Profiler write them as CSV, without their calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from parsers.csv_tables import CsvTable, has_columns, read_csv
from parsers.files.base import Source, parser
from parsers.gpu_tables import MEGA, add_operations
from parsers.model import Effect, Progress, Trace, TraceInput
from parsers.model.arrays import ABSENT
from parsers.model.builder import TraceBuilder
from parsers.model.late.regex import regex
from parsers.model.names.collectives import is_collective_kernel
from parsers.model.quality import ONE_BY_ONE, RAN_ONE_BY_ONE

_ASCEND_TIMES = (("starttimeus",), ("durationus", "taskdurationus"))
_ASCEND = (*_ASCEND_TIMES, ("name", "opname"), ("type", "optype"), ("acceleratorcore", "tasktype"))
_NVPROF = (("start",), ("duration",), ("throughput",), ("device",), ("stream",), ("name",))
_VISUAL = (("name",), ("starttimens",), ("durationns",), ("gridx",), ("blockx",), ("registersthread",))
_COUNTED = (
    "controlflowinstructions",
    "instructionsexecuted",
    "achievedoccupancy",
    "globalmemoryloadefficiency%",
)
_REMARKS = regex(rb"(?:==\d+==[^\n]*\n)*")
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
_LENGTHS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_SIZES = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_NUMBER_OF_CALL = r" \[\d+\]$"


@parser
class OtherGpuTables:
    """Recognised by the names of its columns, which nvprof writes below remarks of its own."""

    format: ClassVar[str] = "gpu-table"
    title: ClassVar[str] = "Ascend and nvprof"
    files: ClassVar[str] = (
        "kernel_details and op_summary as CSV; CSV of nvprof --print-gpu-trace and the Visual Profiler"
    )
    suffixes: ClassVar[tuple[str, ...]] = (".csv",)
    priority: ClassVar[int] = 57
    version: ClassVar[int] = 1
    excerpt_of: ClassVar[frozenset[str]] = frozenset({"chrome"})

    def recognises(self, source: Source) -> bool:
        return any(
            has_columns(head, *columns)
            for head, columns in (
                (source.head, _ASCEND),
                (_below_remarks(source.head), _NVPROF),
                (source.head, _VISUAL),
            )
        )

    def read(self, source: Source, progress: Progress) -> Trace:
        builder = TraceBuilder()
        before = source.head.count(b"\n", 0, len(source.head) - len(_below_remarks(source.head)))
        table = read_csv(source, builder.quality, progress.part(0.0, 0.8), before)
        if _ASCEND_TIMES[0][0] in table:
            producer, table = "Ascend profiler", _of_ascend(table, builder)
            hint = "To see why the accelerator idles, open the trace_view.json beside it."
        else:
            visual = _VISUAL[1][0] in table
            producer = "Visual Profiler" if visual else "nvprof"
            table = _of_visual_profiler(table, builder) if visual else _of_nvprof(table)
            hint = "Nsight Systems records both: nsys profile --trace=cuda,nvtx"
        add_operations(table, builder, source.path, hint)
        builder.inputs.append(TraceInput(source.shown or str(source.path), self.format, producer))
        builder.sources.append(None)
        return builder.build(progress.part(0.8, 1.0))


def _below_remarks(head: bytes) -> bytes:
    remarks = _REMARKS.match(head)
    return head[remarks.end() :] if remarks else head


def _of_ascend(table: CsvTable, builder: TraceBuilder) -> CsvTable:
    """Its operations as those of nsys stats, from the first one on; of which accelerator they are is not said."""
    import pyarrow as pa

    start, length = (table.scaled(table.first(names), 1000) for names in _ASCEND_TIMES)
    told = start != ABSENT
    if told.any():
        builder.epoch_ns = int(start[told].min())
        start = np.where(told, start - builder.epoch_ns, ABSENT)
    texts, name = table.texts("name", "opname")
    talks = np.array([is_collective_kernel(text) for text in texts], np.int64)[name]
    made = {
        "startns": _texts(start),
        "durationns": _texts(length),
        "device": pa.array(["Ascend NPU (0)"]).take(pa.array(np.zeros(table.length, np.int64))),
        "strm": table.columns.get("streamid", _texts(talks)),  # collectives have streams of their own
    }
    return _renamed(table, {"name": table.first(("name", "opname"))}, made)


def _of_nvprof(table: CsvTable) -> CsvTable:
    """Its operations as those of nsys stats; the first row holds the units of the columns."""
    import pyarrow.compute as pc

    units = {name: str(column[0]).strip() for name, column in table.columns.items() if table.length}
    rows = {name: column.slice(1) for name, column in table.columns.items()}
    table = replace(table, columns=rows, length=max(table.length - 1, 0))
    made = {
        ours: _texts(table.scaled(theirs, _LENGTHS.get(units.get(theirs, ""), 1)))
        for ours, theirs in (("startns", "start"), ("durationns", "duration"))
    }
    if (size := _SIZES.get(units.get("size", ""))) is not None:
        made["bytesmb"] = pc.cast(table.numbers("size") * size / MEGA, "string")
    made["name"] = pc.replace_substring_regex(rows["name"], _NUMBER_OF_CALL, "")
    return _renamed(table, _NAMES_OF_NVPROF, made)


def _of_visual_profiler(table: CsvTable, builder: TraceBuilder) -> CsvTable:
    """Its operations as those of nsys stats; it says of neither stream nor GPU which one, and may hold counters."""
    import pyarrow.compute as pc

    if any(not np.isnan(table.numbers(each)).all() for each in _COUNTED if each in table):
        builder.quality.note(ONE_BY_ONE, Effect.NOTED, RAN_ONE_BY_ONE)
    name = pc.replace_substring_regex(table.columns["name"], r"^Memcpy (\w+) \[\w+\]$", r"[CUDA memcpy \1]")
    made: dict[str, Any] = {"name": pc.replace_substring_regex(name, r"^memset \(\d+\)$", "[CUDA memset]")}
    if "sizebytes" in table:
        made["bytesmb"] = pc.cast(table.numbers("sizebytes") / MEGA, "string")
    return _renamed(table, _NAMES_OF_VISUAL, made)


def _renamed(table: CsvTable, names: Mapping[str, str], made: Mapping[str, Any]) -> CsvTable:
    kept = {ours: table.columns[theirs] for ours, theirs in names.items() if theirs in table}
    return replace(table, columns={**kept, **made})


def _texts(numbers: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(pa.array(numbers == ABSENT), "", pc.cast(pa.array(numbers), pa.string()))
