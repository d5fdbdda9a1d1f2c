"""What ROCm's recorders write to files: tables as CSV of rocprof to rocprofv3, and JSON of rocprofv3."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field
from pathlib import PurePath

from parsers.csv_tables import CsvTable, has_columns, plain, read_csv
from parsers.files.base import Parser, Source, parser
from parsers.files.signatures import USUAL_GROWTH
from parsers.files.source import open_bytes
from parsers.files.unpacking_limit import LimitedStream, require_memory
from parsers.model import Progress, Trace
from parsers.model.builder import TraceBuilder
from parsers.model.late import dataclass, regex
from parsers.rocm.table_records import (
    DIRECTION,
    END,
    FUNCTION,
    KERNEL,
    START,
    TableRecords,
    are_work,
    counters_of,
    profiles_of,
)
from parsers.rocm.timeline import Timeline

_PART = regex(
    r"_?((kernel|memory_copy|(hip|hsa|marker|rccl|rocdecode|rocjpeg)_api)_trace|counter_collection)(_\d+)?\.csv",
    re.IGNORECASE,
)
_DISPATCH = ("index", "dispatchid", "gpuid", "agentid", "kind", "queueid")
_HINT = "Record a shorter part of the program."
_BYTES_AN_EVENT = 600


@parser
class RocprofTables(Parser):
    """Recognised by the names of its columns."""

    format = "rocprof-csv"
    title = "ROCm"
    files = "tables of rocprof, rocprofv3 and rocprofiler-compute"
    suffixes = (".csv",)
    priority = 55
    version = 6

    def recognises(self, source: Source) -> bool:
        head = source.head
        timed = has_columns(head, START, END)
        return (timed and has_columns(head, (*KERNEL, *FUNCTION, *DIRECTION))) or (
            has_columns(head, KERNEL, _DISPATCH)
            and has_columns(head, (*START, "grd", "gridsize", "workgroupsize"))
        )

    def recording_of(self, source: Source) -> str:
        """The folder and the name up to the kind of table."""
        path = PurePath(source.shown) if source.shown else source.path
        return f"{path.parent}/{_PART.sub('', path.name)}"

    def read(self, source: Source, progress: Progress) -> Trace:
        return self.read_parts([source], progress)

    def read_parts(self, sources: Sequence[Source], progress: Progress) -> Trace:
        reading = _Reading(TraceBuilder())
        for number, source in enumerate(sources):
            part = progress.part(0.8 * number / len(sources), 0.8 * (number + 1) / len(sources))
            table = read_csv(source, reading.builder.quality, part)
            require_memory(source.path, table.length, _BYTES_AN_EVENT, _HINT)
            reading.tables.append((source.name, table))
            reading.builder.came_from(str(source.path), self.format, "rocprof")
        reading.add(progress.part(0.8, 0.9))
        return reading.builder.build(progress.part(0.9, 1.0))


@dataclass(slots=True)
class _Reading:
    """The tables of one recording, kernels first: they tell which GPU the copies are of."""

    builder: TraceBuilder
    tables: list[tuple[str, CsvTable]] = field(default_factory=list)

    def add(self, progress: Progress) -> None:
        timeline = Timeline(self.builder)
        records = TableRecords(timeline)
        for name, table in sorted(self.tables, key=lambda each: not each[1].first(KERNEL)):
            progress.step(0.0, "sorting rows")
            if table.first(KERNEL):
                self._kernels(name, table, records, progress)
            elif table.first(DIRECTION):
                records.copies(table, name)
            else:
                records.calls(table, name, "HSA calls" if _is_hsa(table) else "HIP calls")
        timeline.finish()

    def _kernels(self, name: str, table: CsvTable, records: TableRecords, progress: Progress) -> None:
        """Dispatches as events; where counters were recorded, which runs kernels one by one, as profiles."""
        table = self._without_barriers(table)
        counters = {title: plain(title) for title in table.header}
        counters = {title: counters[title] for title in counters_of(table, counters)}
        if not counters and table.first(START):
            records.kernels(table, name)
            return
        self.builder.kernels += profiles_of(table, counters, progress)
        self.builder.quality.read(table.length)
        self.builder.quality.keep(table.length)

    def _without_barriers(self, table: CsvTable) -> CsvTable:
        works = are_work(*table.texts(*KERNEL), self.builder.quality)
        return table if works.all() else table.kept(works)


def _is_hsa(table: CsvTable) -> bool:
    domains, _ = table.texts("domain")
    return bool(domains) and all("HSA" in domain.upper() for domain in domains)


_START = regex(rb'(?:\xef\xbb\xbf)?\s*\{\s*"rocprofiler-sdk-tool"\s*:\s*\[')
_BYTES_A_RECORD, _JSON_BYTES_AN_EVENT = 350, 350


@parser
class Rocprofv3Json(Parser):
    """Recognised by its outermost key."""

    format = "rocprofv3-json"
    title = "ROCm"
    files = "JSON of rocprofv3"
    suffixes = (".json",)
    priority = 45

    def recognises(self, source: Source) -> bool:
        return _START.match(source.head) is not None

    def read(self, source: Source, progress: Progress) -> Trace:
        from parsers.files.unpacking_limit import require_memory
        from parsers.json_lists import JsonLists
        from parsers.rocm.sdk_records import DEEPEST, TOOL_DEPTH, WANTED, ProcessRecords
        from parsers.rocm.timeline import Timeline

        size = source.path.stat().st_size * (USUAL_GROWTH if source.compression else 1)
        hint = "Record a shorter part of the program."
        require_memory(source.path, size // _BYTES_A_RECORD, _JSON_BYTES_AN_EVENT, hint)
        builder = TraceBuilder()
        timeline = Timeline(builder)
        processes: dict[int, ProcessRecords] = {}
        with open_bytes(source) as stream:
            limited = LimitedStream(stream, source, progress.part(0.0, 0.8), "reading records")
            lists = JsonLists(limited, WANTED, DEEPEST, TOOL_DEPTH)
            for piece in lists.pieces():
                processes.setdefault(piece.owner, ProcessRecords(timeline)).add(piece)
        for each in processes.values():
            each.finish()
        timeline.finish()
        builder.quality.cut(lists.damage, "; what comes before is shown")
        builder.came_from(source.name, self.format, "rocprofv3")
        return builder.build(progress.part(0.8, 1.0))
