"""Nsight Compute's binary report (.ncu-rep), read directly, also inside gzip or zstd (.ncu-repz)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from parsers.files.base import Parser, Source, parser
from parsers.model import Progress, Trace
from parsers.ncu.blocks import MAGIC


@parser
class NsightComputeReport(Parser):
    """Recognised by its first four bytes."""

    format = "ncu-report"
    accompanies = True
    title = "Nsight Compute"
    files = "reports (.ncu-rep)"
    suffixes = (".ncu-rep",)
    media_types: ClassVar[Mapping[str, str]] = {".ncu-rep": "application/x-nsight-compute-report"}
    priority = 20
    version = 2

    def recognises(self, source: Source) -> bool:
        return source.head.startswith(MAGIC)

    def read(self, source: Source, progress: Progress) -> Trace:
        from parsers.ncu.report import read_report

        return read_report(source, self.format, progress)
