"""What NCCL says about itself beside its NVTX ranges: message sizes, and the rank of each process."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any

import numpy as np

from parsers.model import I64, Effect
from parsers.model.arrays import MAX_NUMBER
from parsers.model.late import dataclass
from parsers.nsys.reading import Reading, global_process
from parsers.sqlite.database import Table
from parsers.sqlite.guarded import quote

_HEADER = struct.Struct("<QQQQ")
_INTEGERS = {
    3: "<h", 4: "<H", 5: "<i", 6: "<I", 9: "<q", 10: "<Q", 11: "<b", 12: "<B", 13: "<h", 14: "<H", 15: "<i",
    16: "<I", 17: "<q", 18: "<Q", 22: "<Q",
}  # fmt: skip  # NVTX_PAYLOAD_ENTRY_TYPE_SHORT to _SIZE; those whose width depends on the machine are left out
_MAX_PAYLOAD = 4096  # bytes, or characters of JSON
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
            yield row, thread, _binary_fields(data, layouts)


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


def _binary_fields(data: object, layouts: Mapping[tuple[int, int], Layout]) -> Mapping[str, int] | None:
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


@dataclass(frozen=True, slots=True)
class Payloads:
    """Message size, bytes, by rowid of NVTX_EVENTS (sorted); rank by globalPid."""

    rows: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    sizes: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    ranks: Mapping[int, int] = field(default_factory=dict)

    def of(self, rows: I64) -> I64 | None:
        """The message size of each row, -1 where none is stated; None when no row has one."""
        if not len(self.rows):
            return None
        place = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        return np.where(self.rows[place] == rows, self.sizes[place], -1)


def read_payloads(reading: Reading, table: Table) -> Payloads:
    """Payloads that the export wrote out as JSON or kept as bytes; bytes that are not understood are counted."""
    sizes: dict[int, int] = {}
    ranks: dict[int, int] = {}
    unread = 0
    for row, thread, stated in binary_payloads(reading, table):
        if stated is None:
            unread += 1
        else:
            _keep(row, thread, stated, sizes, ranks)
    for key, owner, written in _written_out(reading, table):
        if isinstance(key, int) and isinstance(owner, int):
            _keep(key, owner, _fields(written), sizes, ranks)
    reason = "NVTX payloads in an unknown binary form were left out, so their message sizes are missing."
    reading.builder.quality.note("binary payloads", Effect.NOTED, reason, f"{table.name}.binaryData", unread)
    rows = np.array(sorted(sizes), np.int64)
    return Payloads(rows, np.array([sizes[row] for row in rows.tolist()], np.int64), ranks)


def _written_out(reading: Reading, table: Table) -> Iterable[tuple[object, ...]]:
    """Rowid, globalTid and JSON of the rows that have any."""
    if "jsonText" in table:
        text = "jsonText"
        if "jsonTextId" in table:
            text = "coalesce(jsonText, (SELECT value FROM StringIds WHERE id = jsonTextId))"
    elif "jsonTextId" in table:
        text = "(SELECT value FROM StringIds WHERE id = jsonTextId)"
    else:
        return ()
    given = " OR ".join(f"{each} IS NOT NULL" for each in ("jsonText", "jsonTextId") if each in table)
    sql = f"SELECT {table.rowid}, {table.expression('globalTid', 0)}, {text} FROM {quote(table.name)} WHERE {given}"
    return reading.streamed(sql, DOING)


def _keep(
    row: int, thread: int, stated: Mapping[str, Any], sizes: dict[int, int], ranks: dict[int, int]
) -> None:
    size, rank = _number(stated, "message size"), _number(stated, "rank")
    if size is not None:
        sizes[row] = size
    if rank is not None and _number(stated, "no. of ranks") is not None:
        ranks.setdefault(global_process(thread), rank)


def _fields(written: object) -> Mapping[str, Any]:
    if not isinstance(written, str) or len(written) > _MAX_PAYLOAD:
        return {}
    try:
        stated = json.loads(written)
    except (ValueError, RecursionError):
        return {}
    return {str(key).lower(): value for key, value in stated.items()} if isinstance(stated, dict) else {}


def _number(stated: Mapping[str, Any], name: str) -> int | None:
    for key, value in stated.items():
        if key.split("[")[0].strip() == name and isinstance(value, int) and 0 <= value < MAX_NUMBER:
            return value
    return None
