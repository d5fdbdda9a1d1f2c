"""Databases of nvprof and the Visual Profiler (.nvvp, .nvprof)."""

from __future__ import annotations

from functools import partial

from parsers.files.base import Parser, Source, parser
from parsers.model import ArgumentSource, Progress, Trace, TraceInput
from parsers.sqlite.listed import tables_of

_OWN = frozenset({"StringTable", "CUPTI_ACTIVITY_KIND_DEVICE"})


@parser
class NvprofDatabase(Parser):
    """Recognised as a SQLite database with CUPTI's records and their table of strings."""

    format = "nvprof"
    title = "nvprof and Visual Profiler"
    files = "databases (.nvvp, .nvprof)"
    suffixes = (".nvvp", ".nvprof")
    priority = 27

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
