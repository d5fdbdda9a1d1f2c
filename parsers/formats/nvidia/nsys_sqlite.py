"""Nsight Systems SQLite exports of every schema: tables and columns are looked for, never assumed."""

from __future__ import annotations

from parsers.files.base import Parser, Source, parser
from parsers.files.signatures import DATABASE
from parsers.model import ArgumentSource, Progress, Trace
from parsers.preview import with_common_end

_LARGE_TABLES = 3  # kernels, calls and ranges, of which a preview shows equal parts


@parser
class NsightSystemsSqlite(Parser):
    """Recognised as a SQLite database; which one it is shows when its tables are read."""

    format = "nsys-sqlite"
    title = "Nsight Systems"
    files = "SQLite exports"
    suffixes = (".sqlite", ".sqlite3", ".db")
    priority = 30
    version = 7

    def recognises(self, source: Source) -> bool:
        return source.head.startswith(DATABASE)

    def argument_source(self, source: Source) -> ArgumentSource:
        from parsers.nsys.arguments import arguments_in
        from parsers.sqlite.private_copy import unpacked

        return arguments_in(unpacked(source, Progress()))

    def read(self, source: Source, progress: Progress) -> Trace:
        from parsers.nsys.export import read_export
        from parsers.sqlite.private_copy import unpacked

        progress.step(0.0, "opening the database")
        path = unpacked(source, progress.part(0.0, 0.05))
        return read_export(path, str(source.path), self.format, progress)

    def preview(self, source: Source, most_events: int, progress: Progress) -> Trace | None:
        """The first rows of each table; None for a packed file, which has to be unpacked as a whole first."""
        from parsers.nsys.export import read_export

        if source.compression:
            return None
        first = read_export(
            source.path, str(source.path), self.format, progress, most_events // _LARGE_TABLES
        )
        return with_common_end(first)
