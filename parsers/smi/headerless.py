"""Logs of nvidia-smi with ``--format=csv,noheader``: what a column is, by the units in its first line."""

from __future__ import annotations

import re
from collections.abc import Sequence

_TIME = re.compile(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d(\.\d{1,6})?")
_UNIT = re.compile(r"(\[?N/A\]?|\[Not Supported\]|\d+(?:\.\d+)?) (%|MiB|W|MHz)")
_BY_UNIT = {
    "%": ("utilization.gpu [%]", "utilization.memory [%]"),
    "W": ("power.draw [W]", "power.limit [W]"),
}
_IDENTITY = (
    (re.compile(r"GPU-[0-9a-f-]{8,}"), "uuid"),
    (re.compile(r"[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d"), "pci.bus_id"),
)
_INDEX = re.compile(r"\d{1,3}")


def columns_of(cells: Sequence[str]) -> list[str]:
    """A name for each cell of a line without a header, "" for one that nothing tells; empty for other lines.

    The order is that in which nearly everybody asks: of two shares the GPU's goes before the memory's, of two powers
    the draw before the limit. Memory is what is used where it is the smaller one of two, or stands alone.
    """
    cells = [cell.strip() for cell in cells]
    units = [match[2] if (match := _UNIT.fullmatch(cell)) else "" for cell in cells]
    if not cells or not _TIME.fullmatch(cells[0]) or not {"%", "W"} & set(units):
        return []
    names = ["timestamp", *[""] * (len(cells) - 1)]
    for unit, known in _BY_UNIT.items():
        for place, name in zip((at for at, each in enumerate(units) if each == unit), known, strict=False):
            names[place] = name
    memory = [at for at, each in enumerate(units) if each == "MiB"]
    sizes = [float(cells[at].split()[0]) for at in memory if cells[at][0].isdigit()]
    if len(sizes) == len(memory) and memory and sizes[0] == min(sizes):
        names[memory[0]] = "memory.used [MiB]"
    for at, cell in enumerate(cells[1:], 1):
        names[at] = next((name for pattern, name in _IDENTITY if pattern.fullmatch(cell)), names[at])
    if len(cells) > 1 and _INDEX.fullmatch(cells[1]):
        names[1] = "index"
    return names
