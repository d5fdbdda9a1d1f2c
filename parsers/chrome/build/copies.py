"""Direction and memory kinds of copies, from names such as "Memcpy HtoD (Pageable -> Device)"."""

from __future__ import annotations

import re

import numpy as np

from parsers.chrome.build.quarantine import Table
from parsers.model import Attribute, CopyKind, EventKind, MemoryKind
from parsers.model.attributes import MEMORY_KINDS
from parsers.model.builder import TraceBuilder
from parsers.model.events import of_kinds
from parsers.model.late import regex

_DIRECTION = regex(r"([HDPA])(?:to|2)([HDPA])|Copy(Host|Device)To(Host|Device)", re.IGNORECASE)
_OF_MTIA = "dma_request"
_ENDS = regex(r"\((\w+)\s*->\s*(\w+)\)")


def copy_kind(name: str) -> CopyKind:
    """The direction that a copy's name states."""
    found = _DIRECTION.search(name)
    return CopyKind.between(*filter(None, found.groups())) if found else CopyKind.UNKNOWN


def memory_kinds(name: str) -> tuple[MemoryKind, MemoryKind]:
    """Where a copy comes from and goes to."""
    found = _ENDS.search(name)
    if not found:
        return MemoryKind.UNKNOWN, MemoryKind.UNKNOWN
    source, target = (MEMORY_KINDS.get(found[side].lower(), MemoryKind.UNKNOWN) for side in (1, 2))
    return source, target


def claim_dma_requests(strings: list[str], table: Table) -> None:
    """Make copies of what MTIA's profiler records among the kernels and calls by what makes them."""
    if _OF_MTIA in strings:
        table.kind[(table.kind == EventKind.KERNEL) & (table.name == strings.index(_OF_MTIA))] = (
            EventKind.MEMCPY
        )


def describe_copies(builder: TraceBuilder, table: Table) -> None:
    """Set the direction and memory kinds of every copy."""
    copies = np.flatnonzero(of_kinds(table.kind, EventKind.MEMCPY))
    if not len(copies):
        return
    distinct, which = np.unique(table.name[copies], return_inverse=True)
    texts = [builder.strings[index] for index in distinct.tolist()]
    kinds = np.array([copy_kind(text).value for text in texts], np.int64)
    ends = np.array([[end.value for end in memory_kinds(text)] for text in texts], np.int64)
    builder.attribute(Attribute.COPY_KIND, copies, kinds[which])
    for side, attribute in enumerate((Attribute.SOURCE_MEMORY, Attribute.TARGET_MEMORY)):
        values = ends[which, side]
        stated = values != MemoryKind.UNKNOWN.value
        builder.attribute(attribute, copies[stated], values[stated])
