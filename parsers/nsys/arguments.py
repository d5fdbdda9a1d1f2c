"""Everything the file says about one row, read from it when somebody clicks."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parsers.nsys.reading import process_id, thread_id
from parsers.sqlite.guarded import GuardedConnection
from parsers.sqlite.row_source import RowSource

_TEXT_COLUMNS = frozenset(
    {"demangledName", "shortName", "mangledName", "nameId", "textId", "jsonTextId", "symbol", "module"}
)
_LABELS = {
    "copyKind": "ENUM_CUDA_MEMCPY_OPER",
    "srcKind": "ENUM_CUDA_MEM_KIND",
    "dstKind": "ENUM_CUDA_MEM_KIND",
    "memKind": "ENUM_CUDA_MEM_KIND",
    "syncType": "ENUM_CUPTI_SYNC_TYPE",
    "launchType": "ENUM_CUDA_KERNEL_LAUNCH_TYPE",
    "eventType": "ENUM_NSYS_EVENT_TYPE",
    "eventClass": "ENUM_NSYS_EVENT_CLASS",
    "migrationCause": "ENUM_CUDA_UNIF_MEM_MIGRATION",
    "overheadType": "ENUM_CUPTI_OVERHEAD_TYPE",
    "threadState": "ENUM_SAMPLING_THREAD_STATE",
}
_CHAINS = {
    "COMPOSITE_EVENTS": ("id", "SAMPLING_CALLCHAINS"),
    "OSRT_API": ("callchainId", "OSRT_CALLCHAINS"),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("callchainId", "CUDA_CALLCHAINS"),
}
_DEEPEST_CHAIN = 200


def arguments_in(path: Path) -> RowSource:
    """Column names and values of rows of the database at ``path``, with names and labels in place of numbers."""
    return RowSource.of(path, _shown)


def _shown(database: GuardedConnection, table: str, row: Mapping[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for column, value in row.items():
        if column in _TEXT_COLUMNS:
            shown[column] = _lookup(database, "StringIds", "value", value) or value
        elif column in _LABELS:
            shown[column] = _lookup(database, _LABELS[column], "label", value) or value
        elif column == "globalTid" and isinstance(value, int):
            shown["process"], shown["thread"] = process_id(value), thread_id(value)
        elif column == "globalPid" and isinstance(value, int):
            shown["process"] = process_id(value)
        else:
            shown[column] = value
    chain = _CHAINS.get(table)
    if chain and chain[0] in row:
        calls = _call_chain(database, chain[1], row[chain[0]])
        if calls:
            shown["call chain"] = calls
    return shown


def _lookup(database: GuardedConnection, table: str, column: str, key: Any) -> str | None:
    try:
        found = database.named(f"SELECT {column} AS text FROM {table} WHERE id = ?", (key,))
    except sqlite3.Error:
        return None
    return str(found["text"]) if found and found["text"] is not None else None


def _call_chain(database: GuardedConnection, table: str, key: Any) -> list[str]:
    """Functions from the innermost outwards."""
    sql = (
        f"SELECT s.value, m.value FROM {table} c LEFT JOIN StringIds s ON s.id = c.symbol "
        f"LEFT JOIN StringIds m ON m.id = c.module WHERE c.id = ? ORDER BY c.stackDepth LIMIT {_DEEPEST_CHAIN}"
    )
    try:
        rows = database.rows(sql, (key,))
    except sqlite3.Error:
        return []
    return [
        f"{symbol or '(unknown)'}" + (f" [{Path(str(module)).name}]" if module else "")
        for symbol, module in rows
    ]
