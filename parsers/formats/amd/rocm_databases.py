"""Databases of ROCm's recorders: rocprofv3 (rocpd), rocprof (results.db), and ROCm Profile Data (.rpd)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from parsers.files.base import Parser, Source, parser
from parsers.model import ArgumentSource, Progress, Rank, Trace, TraceInput
from parsers.model.builder import TraceBuilder
from parsers.model.late import regex
from parsers.sqlite.read_only import tables_of

if TYPE_CHECKING:
    from parsers.sqlite.database import Database

_ROCPD_TABLES = regex(r"rocpd_(?:info_|kernel_dispatch|(?:metadata|string|region)_[0-9a-f])")
_EVENTS = ("rocpd_kernel_dispatch", "rocpd_region", "rocpd_memory_copy")
_BYTES_AN_EVENT = 300


@parser
class Rocpd(Parser):
    """Recognised as a SQLite database with tables such as "rocpd_info_agent"."""

    format = "rocpd"
    title = "ROCm"
    files = "databases of rocprofv3 (rocpd)"
    suffixes = (".db",)
    priority = 24
    version = 3

    def recognises(self, source: Source) -> bool:
        from parsers.sqlite.read_only import tables_of

        return any(_ROCPD_TABLES.match(name) for name in tables_of(source))

    def argument_source(self, source: Source) -> ArgumentSource:
        from parsers.rocm.columns import arguments_of
        from parsers.sqlite.recording import rows_of

        return rows_of(source, arguments_of)

    def read(self, source: Source, progress: Progress) -> Trace:
        from parsers.files.unpacking_limit import require_memory
        from parsers.rocm.columns import DatabaseColumns, arguments_of
        from parsers.rocm.rocpd_tables import ProcessTables
        from parsers.rocm.timeline import Timeline
        from parsers.sqlite.recording import read_database

        def fill(database: Database, builder: TraceBuilder) -> None:
            suffixes = _processes(database)
            events = sum(
                database.size(table)
                for suffix in suffixes
                for name in _EVENTS
                if (table := database.table(name + suffix)) is not None
            )
            require_memory(database.path, events, _BYTES_AN_EVENT, "Record a shorter part of the program.")
            timeline = Timeline(builder)
            for number, suffix in enumerate(suffixes):
                rank = number if len(suffixes) > 1 else None
                if rank is not None:
                    builder.ranks.append(Rank(rank, len(suffixes)))
                timeline.rank = rank
                tables = DatabaseColumns(database, builder.quality, progress, suffix)
                ProcessTables(tables, timeline, rank).read()
            timeline.finish()

        written_by = TraceInput(str(source.path), self.format, "rocprofv3")
        return read_database(source, progress, written_by, fill, arguments_of)


def _processes(database: Database) -> list[str]:
    """The suffix of each process' tables; those without rows in any of the events' tables are left out."""
    found = sorted(
        {
            name.removeprefix(base)
            for name, table in database.tables.items()
            for base in _EVENTS
            if name.startswith(base) and table.has_rowid and database.size(table)
        }
    )
    return found or [""]


_KERNELS = ("KERN", "A", "OPS")
_CALLS = {"HIP": "HIP calls", "HSA": "HSA calls", "KFD": "driver calls", "rocTX": "regions"}
_COPIES = "COPY"
_CORRELATION = ("index",)
_NAME = ("name",)


@parser
class RocprofDatabase(Parser):
    """Recognised as a SQLite database with rocprof's table of dispatches, or of operations and HIP or HSA calls."""

    format = "rocprof-db"
    title = "ROCm"
    files = "databases of rocprof and hipprof"
    suffixes = (".db",)
    priority = 26
    version = 8

    def recognises(self, source: Source) -> bool:
        from parsers.sqlite.read_only import tables_of

        names = tables_of(source)
        return "KERN" in names or bool(names & {"HIP", "HSA"} and names & {"OPS", "COPY", "A"})

    def read(self, source: Source, progress: Progress) -> Trace:
        from parsers.files.unpacking_limit import require_memory
        from parsers.rocm.columns import DatabaseRows, bytes_of_copies
        from parsers.rocm.hipprof import STRINGS, NamedRows, names_of
        from parsers.rocm.table_records import TableRecords
        from parsers.rocm.timeline import Timeline
        from parsers.sqlite.recording import read_database

        def fill(database: Database, builder: TraceBuilder) -> None:
            tables = {
                name: NamedRows(
                    DatabaseRows(database, table, builder.quality, progress), names_of(database, name)
                )
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
                copies = tables[_COPIES]
                asked_for = bytes_of_copies(database, copies.integers(*_CORRELATION))
                records.copies(copies, _COPIES, (*_NAME, "kind"), asked_for)
            for name, suffix in _CALLS.items():
                if name in tables:
                    records.calls(tables[name], name, suffix, _NAME, ranges=name == "rocTX")
            timeline.finish()

        recorder = "hipprof" if STRINGS in tables_of(source) else "rocprof"
        return read_database(source, progress, TraceInput(str(source.path), self.format, recorder), fill)


_RPD_TABLES = frozenset({"rocpd_api", "rocpd_op"})


@parser
class RocmProfileData(Parser):
    """Recognised as a SQLite database with a table of calls or operations of rocmProfileData."""

    format = "rpd"
    title = "ROCm"
    files = "databases of rocmProfileData"
    suffixes = (".rpd",)
    media_types: ClassVar[Mapping[str, str]] = {".rpd": "application/x-rocm-profile-data"}
    priority = 25
    version = 2

    def recognises(self, source: Source) -> bool:
        return bool(_RPD_TABLES & tables_of(source))

    def argument_source(self, source: Source) -> ArgumentSource:
        from parsers.rocm.columns import arguments_of
        from parsers.sqlite.recording import rows_of

        return rows_of(source, arguments_of)

    def read(self, source: Source, progress: Progress) -> Trace:
        from parsers.rocm.columns import arguments_of
        from parsers.rocm.profile_data import read_into
        from parsers.sqlite.recording import read_database

        written_by = TraceInput(str(source.path), self.format, "rocmProfileData")
        return read_database(
            source, progress, written_by, partial(read_into, progress=progress), arguments_of
        )
