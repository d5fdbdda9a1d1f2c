"""Nsight Systems: its reports, converted by the user's nsys; SQLite exports of every schema; GPU operations as CSV."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from parsers.csv_tables import add_operations, has_columns, read_csv
from parsers.files.base import Parser, Source, parser
from parsers.files.signatures import DATABASE
from parsers.model import ArgumentSource, Progress, Trace, TraceError
from parsers.model.builder import TraceBuilder
from parsers.preview import with_common_end

_MAGIC = b"NVIDIA Tegra Profiler Report "
_STREAM_SUFFIX = ".qdstrm"


@parser
class NsightSystemsReport(Parser):
    """Recognised by the words at the start of a report; a raw .qdstrm has none and goes by its name."""

    format = "nsys-report"
    title = "Nsight Systems"
    files = "reports (.nsys-rep) where nsys is installed"
    suffixes = (".nsys-rep", ".qdrep")
    media_types: ClassVar[Mapping[str, str]] = {".nsys-rep": "application/x-nsight-systems-report"}
    priority = 20
    version = 6

    def recognises(self, source: Source) -> bool:
        return source.head.startswith(_MAGIC) or (
            source.name.lower().endswith(_STREAM_SUFFIX) and b"\0" in source.head
        )

    def argument_source(self, source: Source) -> ArgumentSource:
        from parsers.nsys.arguments import arguments_in
        from parsers.nsys.conversion import converted, find_nsys
        from parsers.sqlite.private_copy import unpacked

        nsys = find_nsys()
        if nsys is None:
            raise TraceError(source.path, "nsys is no longer on this computer.")
        path = unpacked(source, Progress(), ".nsys-rep")
        return arguments_in(converted(path, nsys, Progress()))

    def read(self, source: Source, progress: Progress) -> Trace:
        from parsers.nsys.conversion import converted, find_nsys
        from parsers.nsys.export import read_export
        from parsers.sqlite.private_copy import unpacked

        if not source.head.startswith(_MAGIC):
            raise TraceError(
                source.path,
                "This is the raw stream of an Nsight Systems recording, not yet a report.",
                "Import it with QdstrmImporter of the same Nsight Systems, then open the .nsys-rep.",
            )
        nsys = find_nsys()
        if nsys is None:
            raise TraceError(
                source.path,
                f"This Nsight Systems report{_made_by(source.head)} can only be read by Nsight Systems itself, "
                "and there is no nsys on this computer.",
                f"Where it was recorded, run: nsys export --type sqlite {source.name}",
            )
        path = unpacked(source, progress.part(0.0, 0.1), ".nsys-rep")
        database = converted(path, nsys, progress.part(0.1, 0.5))
        return read_export(database, str(source.path), self.format, progress.part(0.5, 1.0))


def _made_by(head: bytes) -> str:
    """ " of version 2026.1.1" where the report's first line states it."""
    match = re.match(rb"[\w ]+ (\d{4})@(\d+)@(\d+)", head)
    return f" of version {b'.'.join(match.groups()).decode()}" if match else ""


_LARGE_TABLES = 3  # kernels, calls and ranges, of which a preview shows equal parts


@parser
class NsightSystemsSqlite(Parser):
    """Recognised as a SQLite database; which one it is shows when its tables are read."""

    format = "nsys-sqlite"
    title = "Nsight Systems"
    files = "SQLite exports"
    suffixes = (".sqlite", ".sqlite3", ".db")
    priority = 30
    version = 9

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


_COLUMNS = (("startns",), ("durationns",), ("strm",), ("name",), ("grdx",), ("device",))


@parser
class NsysGpuTable(Parser):
    """Recognised by the names of its columns."""

    format = "nsys-gpu-table"
    title = "Nsight Systems"
    files = "CSV of nsys stats -r cuda_gpu_trace"
    suffixes = (".csv",)
    priority = 57
    excerpt_of = frozenset({"nsys-sqlite", "nsys-report"})

    def recognises(self, source: Source) -> bool:
        return has_columns(source.head, *_COLUMNS)

    def read(self, source: Source, progress: Progress) -> Trace:
        builder = TraceBuilder()
        table = read_csv(source, builder.quality, progress.part(0.0, 0.8))
        add_operations(
            table,
            builder,
            source.path,
            "To see why the GPU idles, open the report it was made from: nsys export --type sqlite REPORT.nsys-rep",
        )
        builder.came_from(source.name, self.format, "Nsight Systems (nsys stats)")
        return builder.build(progress.part(0.8, 1.0))
