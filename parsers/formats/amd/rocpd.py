"""Databases of ROCm's rocprofv3 (.db), written by its rocpd library: HIP calls, dispatches, copies and ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.files.base import Parser, Source, parser
from parsers.model import ArgumentSource, Progress, Rank, Trace, TraceInput
from parsers.model.builder import TraceBuilder
from parsers.model.late.regex import regex

if TYPE_CHECKING:
    from parsers.sqlite.database import Database

_TABLES = regex(r"rocpd_(?:info_|kernel_dispatch|(?:metadata|string|region)_[0-9a-f])")
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
        from parsers.sqlite.listed import tables_of

        return any(_TABLES.match(name) for name in tables_of(source))

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
