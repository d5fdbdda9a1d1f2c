"""Makes small Nsight Systems exports, so that a test can say which tables and columns there are."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

PID = 100
LOCAL = 1 << 48
PROCESS = LOCAL | PID << 24
THREAD = PROCESS | PID
STRINGS = {1: "cudaLaunchKernel_v7000", 2: "gemm", 3: "void gemm<float>(float*)", 4: "cudaMemcpyAsync_v3020"}

Row = Mapping[str, Any]


def kernel(start: int, end: int, correlation: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "start": start,
        "end": end,
        "deviceId": 0,
        "streamId": 7,
        "correlationId": correlation,
        "globalPid": PROCESS,
        "demangledName": 3,
        "shortName": 2,
        "gridX": 4,
        "gridY": 2,
        "gridZ": 1,
        "blockX": 128,
        "blockY": 1,
        "blockZ": 1,
        "registersPerThread": 32,
        **more,
    }


def call(start: int, end: int | None, correlation: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "start": start,
        "end": end,
        "eventClass": 0,
        "globalTid": THREAD,
        "correlationId": correlation,
        "nameId": 1,
        "returnValue": 0,
        **more,
    }


def copy(start: int, end: int, correlation: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "start": start,
        "end": end,
        "deviceId": 0,
        "streamId": 7,
        "correlationId": correlation,
        "globalPid": PROCESS,
        "bytes": 4096,
        "copyKind": 1,
        "srcKind": 0,
        "dstKind": 2,
        **more,
    }


def nvtx(start: int, end: int | None, text: str | None, kind: int = 59, **more: Any) -> dict[str, Any]:
    return {
        "start": start,
        "end": end,
        "eventType": kind,
        "text": text,
        "globalTid": THREAD,
        "endGlobalTid": None,
        "textId": None,
        "domainId": 0,
        **more,
    }


def export(path: Path, tables: Mapping[str, Sequence[Row]], strings: Mapping[int, str] = STRINGS) -> Path:
    """Write a database in the place of an earlier one; each table has the columns of all its rows."""
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    write_table(connection, "StringIds", [{"id": key, "value": text} for key, text in strings.items()])
    for name, rows in tables.items():
        write_table(connection, name, rows)
    connection.commit()
    connection.close()
    return path


def write_table(connection: sqlite3.Connection, name: str, rows: Iterable[Row]) -> None:
    rows = list(rows)
    columns = list(dict.fromkeys(column for row in rows for column in row)) or ["start"]
    declared = ", ".join(
        f'"{column}" INTEGER PRIMARY KEY' if name == "StringIds" and column == "id" else f'"{column}"'
        for column in columns
    )
    connection.execute(f'CREATE TABLE "{name}" ({declared})')
    marks = ", ".join("?" * len(columns))
    connection.executemany(
        f'INSERT INTO "{name}" VALUES ({marks})', [[row.get(column) for column in columns] for row in rows]
    )
