"""Nsight Systems' numbers for copies and kinds of memory; the file's own tables are believed first."""

from __future__ import annotations

from parsers.model import CopyKind, MemoryKind
from parsers.sqlite.database import Database

_COPY_TEXTS = {
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
    7: "DtoA",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
    11: "HtoD, unified memory",
    12: "DtoH, unified memory",
    13: "DtoD, unified memory",
}
COPY_KINDS = {number: CopyKind.between(text[0], text[3]) for number, text in _COPY_TEXTS.items()}
MEMORY_KINDS = {
    0: MemoryKind.PAGEABLE,
    1: MemoryKind.PINNED,
    2: MemoryKind.DEVICE,
    3: MemoryKind.ARRAY,
    4: MemoryKind.MANAGED,
    5: MemoryKind.DEVICE,
    6: MemoryKind.MANAGED,
}
_WORDS = (
    ("pageable", MemoryKind.PAGEABLE),
    ("pinned", MemoryKind.PINNED),
    ("managed", MemoryKind.MANAGED),
    ("array", MemoryKind.ARRAY),
    ("device", MemoryKind.DEVICE),
)
_MEMORY_TEXTS = {
    MemoryKind.UNKNOWN: "Unknown",
    MemoryKind.PAGEABLE: "Pageable",
    MemoryKind.PINNED: "Pinned",
    MemoryKind.DEVICE: "Device",
    MemoryKind.MANAGED: "Managed",
    MemoryKind.ARRAY: "Array",
}


def memory_kinds(database: Database) -> dict[int, MemoryKind]:
    """The kinds of memory by the file's own numbers."""
    kinds = dict(MEMORY_KINDS)
    for number, name in database.few("ENUM_CUDA_MEM_KIND", "id", "name"):
        text = str(name).lower()
        kinds[number] = next((kind for word, kind in _WORDS if word in text), MemoryKind.UNKNOWN)
    return kinds


def memory_text(kind: MemoryKind) -> str:
    """A kind of memory as PyTorch's profiler writes it."""
    return _MEMORY_TEXTS[kind]


def copy_text(number: int) -> str:
    """The direction of a copy as PyTorch's profiler writes it."""
    return _COPY_TEXTS.get(number, "unknown direction")
