"""PyTorch's memory snapshots and other pickles: refused, because reading a pickle runs what is in it."""

from __future__ import annotations

import re
from typing import ClassVar

from parsers.base import Source, parser
from parsers.model import Progress, Trace, UnknownFormat

_PICKLE = re.compile(rb"\x80[\x02-\x05][}\]\x95cq(]")


@parser
class MemorySnapshot:
    """Recognised by the first bytes of a pickle of protocol 2 or later."""

    format: ClassVar[str] = "memory-snapshot"
    title: ClassVar[str] = ""
    files: ClassVar[str] = ""
    suffixes: ClassVar[tuple[str, ...]] = ()
    priority: ClassVar[int] = 30
    version: ClassVar[int] = 1

    def recognises(self, source: Source) -> bool:
        return _PICKLE.match(source.head) is not None

    def read(self, source: Source, progress: Progress) -> Trace:
        raise UnknownFormat(
            source.path,
            "This is a pickle, such as a memory snapshot of PyTorch, and reading one would run what is in it.",
            "Open a memory snapshot at pytorch.org/memory_viz; a trace with profile_memory=True shows memory here.",
        )
