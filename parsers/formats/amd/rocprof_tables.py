"""Tables that ROCm's recorders write as CSV: rocprof, rocprofv2, rocprofv3 and rocprofiler-compute.

rocprofv3 writes a table for each kind of event; those of one process are read together and joined by correlation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field
from pathlib import PurePath

from parsers.csv_tables import CsvTable, has_columns, plain, read_csv
from parsers.files.base import Parser, Source, parser
from parsers.files.unpacking_limit import require_memory
from parsers.model import Progress, Trace
from parsers.model.builder import TraceBuilder
from parsers.model.late.dataclass import dataclass
from parsers.model.late.regex import regex
from parsers.rocm.table_records import (
    DIRECTION,
    END,
    FUNCTION,
    KERNEL,
    START,
    TableRecords,
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
    version = 4

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
        counters = {title: plain(title) for title in table.header}
        counters = {title: counters[title] for title in counters_of(table, counters)}
        if not counters and table.first(START):
            records.kernels(table, name)
            return
        self.builder.kernels += profiles_of(table, counters, progress)
        self.builder.quality.read(table.length)
        self.builder.quality.keep(table.length)


def _is_hsa(table: CsvTable) -> bool:
    domains, _ = table.texts("domain")
    return bool(domains) and all("HSA" in domain.upper() for domain in domains)
