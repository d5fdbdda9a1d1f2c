"""Logs of NCCL_DEBUG: how ranks are connected, which never finished their start, and warnings."""

from __future__ import annotations

from parsers.files.base import Parser, Source, parser
from parsers.files.texts import utf8
from parsers.model import Malformed, Progress, ResultTable, Trace
from parsers.nccl_messages import NCCL_LINE, nccl_tables
from parsers.printed_profile import read_profile


@parser
class NcclLog(Parser):
    """Recognised by NCCL's own lines, after every format that may hold some of them."""

    format = "nccl-log"
    accompanies = True
    title = "NCCL"
    files = "logs of NCCL_DEBUG=INFO: how ranks are connected, and warnings"
    suffixes = (".log", ".txt")
    priority = 67

    def recognises(self, source: Source) -> bool:
        return any(b" NCCL " in each and NCCL_LINE.search(each.decode("latin-1")) for each in source.printed)

    def read(self, source: Source, progress: Progress) -> Trace:
        def tables(content: bytes) -> list[ResultTable]:
            found = [*nccl_tables(utf8(content).decode("utf-8", "replace"))]
            if not found:
                raise Malformed(
                    source.path,
                    "This log of NCCL does not say how its ranks are connected.",
                    "Set NCCL_DEBUG=INFO, and copy the log from the start of the program on.",
                )
            return found

        return read_profile(source, progress, (self.format, "NCCL"), tables)
