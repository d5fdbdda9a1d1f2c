"""ROCm Profile Data databases (.rpd): HIP calls, GPU operations, roctx ranges and monitored clocks and power."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

from parsers.files.base import Parser, Source, parser
from parsers.model import ArgumentSource, Progress, Trace, TraceInput
from parsers.sqlite.listed import tables_of

_TABLES = frozenset({"rocpd_api", "rocpd_op"})


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
        return bool(_TABLES & tables_of(source))

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
