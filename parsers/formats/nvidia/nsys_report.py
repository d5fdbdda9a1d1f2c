"""Nsight Systems reports (.nsys-rep, .qdrep): converted by the user's nsys, because only it can read them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from parsers.files.base import Parser, Source, parser
from parsers.model import ArgumentSource, Progress, Trace, TraceError

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
    version = 4

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
