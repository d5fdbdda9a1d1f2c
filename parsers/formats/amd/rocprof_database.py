"""Databases of rocprof (results.db): dispatches, copies, HIP and HSA calls and ranges, a table for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.files.base import Parser, Source, parser
from parsers.model import Progress, Trace, TraceInput
from parsers.model.builder import TraceBuilder

if TYPE_CHECKING:
    from parsers.sqlite.database import Database

_KERNELS = ("KERN", "A", "OPS")
_CALLS = {"HIP": "HIP calls", "HSA": "HSA calls", "KFD": "driver calls", "rocTX": "regions"}
_COPIES = "COPY"
_BYTES_AN_EVENT = 300
_CORRELATION = ("index",)
_NAME = ("name",)


@parser
class RocprofDatabase(Parser):
    """Recognised as a SQLite database with rocprof's table of dispatches, or of operations and HIP or HSA calls."""

    format = "rocprof-db"
    title = "ROCm"
    files = "databases of rocprof"
    suffixes = (".db",)
    priority = 26
    version = 5

    def recognises(self, source: Source) -> bool:
        from parsers.sqlite.listed import tables_of

        names = tables_of(source)
        return "KERN" in names or bool(names & {"HIP", "HSA"} and names & {"OPS", "COPY", "A"})

    def read(self, source: Source, progress: Progress) -> Trace:
        from parsers.files.unpacking_limit import require_memory
        from parsers.rocm.database_rows import DatabaseRows
        from parsers.rocm.table_records import TableRecords
        from parsers.rocm.timeline import Timeline
        from parsers.sqlite.recording import read_database

        def fill(database: Database, builder: TraceBuilder) -> None:
            tables = {
                name: DatabaseRows(database, table, builder.quality, progress)
                for name in (*_KERNELS, _COPIES, *_CALLS)
                if (table := database.table(name)) is not None
            }
            events = sum(rows.length for rows in tables.values())
            require_memory(database.path, events, _BYTES_AN_EVENT, "Record a shorter part of the program.")
            timeline = Timeline(builder)
            records = TableRecords(timeline, _CORRELATION)
            operations = tables.get("OPS")
            if operations is not None and operations.length:
                records.kernels(operations, "OPS", _NAME)
            else:
                for name in _KERNELS:
                    if name in tables and "beginns" in tables[name]:
                        records.kernels(tables[name], name)
            if _COPIES in tables:
                records.copies(tables[_COPIES], _COPIES, _NAME)
            for name, suffix in _CALLS.items():
                if name in tables:
                    records.calls(tables[name], name, suffix, _NAME, ranges=name == "rocTX")
            timeline.finish()

        return read_database(source, progress, TraceInput(str(source.path), self.format, "rocprof"), fill)
