"""NVTX payloads that an export keeps as bytes (``--include-blobs=true``), laid out as its schema tables say.

NVIDIA describes the schemas (nvToolsExtPayload.h) but not the 32 bytes before each payload: domain, schema, size of
the payload, and one number more, little-endian, as seen in exports of 2026. A payload is therefore believed only
where its schema is declared, and is as large as that schema says.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import field

from parsers.model.late.dataclass import dataclass
from parsers.nsys.reading import Reading
from parsers.sqlite.database import Table
from parsers.sqlite.guarded import quote

_HEADER = struct.Struct("<QQQQ")
_INTEGERS = {
    3: "<h", 4: "<H", 5: "<i", 6: "<I", 9: "<q", 10: "<Q", 11: "<b", 12: "<B", 13: "<h", 14: "<H", 15: "<i",
    16: "<I", 17: "<q", 18: "<Q", 22: "<Q",
}  # fmt: skip  # NVTX_PAYLOAD_ENTRY_TYPE_SHORT to _SIZE; those whose width depends on the machine are left out
_MAX_PAYLOAD = 4096
DOING = "reading NVTX payloads"


@dataclass(slots=True)
class Layout:
    """The bytes of one schema's payloads; ``fields`` has offset and ``struct`` format by name in lower case."""

    size: int
    fields: dict[str, tuple[int, str]] = field(default_factory=dict)


def binary_payloads(reading: Reading, table: Table) -> Iterator[tuple[int, int, Mapping[str, int] | None]]:
    """(rowid, globalTid, fields that are whole numbers) of each row with bytes; None where they are not understood."""
    if "binaryData" not in table:
        return
    layouts = _layouts(reading)
    sql = (
        f"SELECT {table.rowid}, {table.expression('globalTid', 0)}, "
        f"substr(CAST(binaryData AS BLOB), 1, {_MAX_PAYLOAD}) FROM {quote(table.name)} WHERE binaryData IS NOT NULL"
    )
    for row, thread, data in reading.streamed(sql, DOING):
        if isinstance(row, int) and isinstance(thread, int):
            yield row, thread, _fields(data, layouts)


def _layouts(reading: Reading) -> dict[tuple[int, int], Layout]:
    """Layouts by (domain, schema). Each process declares its own: those that contradict each other are left out."""
    layouts: dict[tuple[int, int], Layout] = {}
    ambiguous = set()
    declared = reading.database.few("NVTX_PAYLOAD_SCHEMAS", "domainId", "schemaId", "payloadSize")
    for domain, schema, size in declared:
        if not (isinstance(domain, int) and isinstance(schema, int) and isinstance(size, int) and size > 0):
            continue
        if layouts.setdefault((domain, schema), Layout(size)).size != size:
            ambiguous.add((domain, schema))
    columns = ("domainId", "schemaId", "idx", "flags", "type", "name", "offset")
    for domain, schema, place, flags, kind, name, offset in reading.database.few(
        "NVTX_PAYLOAD_SCHEMA_ENTRIES", *columns
    ):
        layout = layouts.get((domain, schema))
        if layout is None or flags or not isinstance(name, str):
            continue
        if offset is None and place == 0:
            offset = 0
        text = _INTEGERS.get(kind)
        if text is None or not isinstance(offset, int):
            continue
        if not 0 <= offset <= layout.size - struct.calcsize(text):
            continue
        if layout.fields.setdefault(name.lower(), (offset, text)) != (offset, text):
            ambiguous.add((domain, schema))
    return {key: layout for key, layout in layouts.items() if key not in ambiguous}


def _fields(data: object, layouts: Mapping[tuple[int, int], Layout]) -> Mapping[str, int] | None:
    if not isinstance(data, bytes) or len(data) < _HEADER.size:
        return None
    domain, schema, size, _ = _HEADER.unpack_from(data)
    layout = layouts.get((domain, schema))
    if layout is None or size != layout.size or len(data) < _HEADER.size + size:
        return None
    return {
        name: int(struct.unpack_from(text, data, _HEADER.size + offset)[0])
        for name, (offset, text) in layout.fields.items()
    }
