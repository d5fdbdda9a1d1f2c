"""Recordings of any size that are made up: Chrome JSON as Kineto writes it, and an export of Nsight Systems."""

from __future__ import annotations

import sqlite3
from pathlib import Path

_HEAD = (
    '{"schemaVersion": 1, "baseTimeNanoseconds": 1790857026000000000, "displayTimeUnit": "ms", '
    '"deviceProperties": [{"id": 0, "name": "made-up GPU", "totalGlobalMem": 80000000000, "computeMajor": 9, '
    '"computeMinor": 0}],\n"traceEvents": [\n'
)
_TAIL = '\n], "traceName": "made-up.pt.trace.json"}\n'
_STEP = '{{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{}", "pid": 1, "tid": 1, "ts": {}, "dur": {}}}'
_OPERATOR = """{"ph": "X", "cat": "cpu_op", "name": "aten::linear", "pid": 1, "tid": 1,
 "ts": %(at)d.000, "dur": 14.000, "args": {"External id": %(id)d, "Ev Idx": %(id)d}},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1,
 "ts": %(at)d.400, "dur": 4.000, "args": {"External id": %(id)d, "cbid": 211, "correlation": %(id)d}},
{"ph": "X", "cat": "kernel", "name": "made_up_gemm_bf16_tn_n_tilesize128x128x64", "pid": 0, "tid": 7,
 "ts": %(at)d.900, "dur": 9.250, "args": {"device": 0, "context": 1, "stream": 7, "correlation": %(id)d,
 "grid": [2, 66, 1], "block": [384, 1, 1]}},
{"ph": "s", "id": %(id)d, "pid": 1, "tid": 1, "ts": %(at)d.400, "cat": "ac2g", "name": "ac2g"},
{"ph": "f", "id": %(id)d, "pid": 0, "tid": 7, "ts": %(at)d.900, "cat": "ac2g", "name": "ac2g", "bp": "e"}"""
_OPERATORS, _EVERY_US = 500, 16  # of a step
_LAUNCHES, _EVERY_NS = 500, 9_000  # likewise

_TABLES = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel_v7000'), (2, 'made_up_gemm'), (3, 'void made_up_gemm<float>(int)');
CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PRODUCT_VERSION', '2025.3.2.0');
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000, '', '');
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (
    start INTEGER NOT NULL, "end" INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER,
    correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (
    start INTEGER NOT NULL, "end" INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
    streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL,
    shortName INTEGER NOT NULL, gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL,
    blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL, registersPerThread INTEGER NOT NULL);
CREATE TABLE NVTX_EVENTS (
    start INTEGER NOT NULL, "end" INTEGER, eventType INTEGER NOT NULL, text TEXT, globalTid INTEGER, domainId INTEGER);
"""
_PROCESS = 1 << 48 | 4242 << 24


def write_chrome(path: Path, size: int) -> None:
    """About ``size`` bytes, at least one operator; whole operators, and steps of 500 of them."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        written = file.write(_HEAD)
        number = 0
        while True:
            last = min(number + _OPERATORS, number + max((size - written) // len(_OPERATOR), 1))
            ids = range(number + 1, last + 1)
            events = [_OPERATOR % {"at": 1_000_000 + each * _EVERY_US, "id": each} for each in ids]
            step, at = number // _OPERATORS, 1_000_000 + (number + 1) * _EVERY_US
            events.append(_STEP.format(step, at, len(ids) * _EVERY_US))
            written += file.write(",\n".join(events))
            number = last
            if written >= size - len(_OPERATOR):
                break
            written += file.write(",\n")
        file.write(_TAIL)


def write_nsight(path: Path, size: int) -> None:
    """About ``size`` bytes, and no less than empty tables take: one step, doubled as often as it needs."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.executescript(_TABLES)
        connection.execute("BEGIN")
        launches = range(1, _LAUNCHES + 1)
        connection.executemany(
            f"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, {_PROCESS | 4242}, ?, 1, 0, NULL)",
            ((each * _EVERY_NS, each * _EVERY_NS + 4_000, each) for each in launches),
        )
        connection.executemany(
            f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 1, 7, ?, {_PROCESS}, 3, 2, 64, 1, 1, 128, 1, 1, "
            "96)",
            ((each * _EVERY_NS + 7_000, each * _EVERY_NS + 12_500, each) for each in launches),
        )
        step_ns = _LAUNCHES * _EVERY_NS
        connection.execute(
            f"INSERT INTO NVTX_EVENTS VALUES ({_EVERY_NS}, {_EVERY_NS + step_ns}, 59, 'step', {_PROCESS | 4242}, 0)"
        )
        steps = 1
        while (share := size / max(_written(connection), 1) - 1) > 0.02:
            _go_on(connection, steps, min(max(round(share * steps), 1), steps), step_ns)
            steps += min(max(round(share * steps), 1), steps)
            if share * steps < 1:
                break
        connection.execute("COMMIT")
    finally:
        connection.close()


def _written(connection: sqlite3.Connection) -> int:
    pages, page = (connection.execute(f"PRAGMA {each}").fetchone()[0] for each in ("page_count", "page_size"))
    return int(pages * page)


def _go_on(connection: sqlite3.Connection, steps: int, more: int, step_ns: int) -> None:
    """The first ``more`` of ``steps`` once again, behind all of them."""
    later, launches = steps * step_ns, steps * _LAUNCHES
    until = _EVERY_NS + more * step_ns
    for table, columns in (
        ("CUPTI_ACTIVITY_KIND_RUNTIME", f"0, globalTid, correlationId + {launches}, 1, 0, NULL"),
        (
            "CUPTI_ACTIVITY_KIND_KERNEL",
            f"0, 1, 7, correlationId + {launches}, globalPid, 3, 2, 64, 1, 1, 128, 1, 1, 96",
        ),
        ("NVTX_EVENTS", "59, text, globalTid, 0"),
    ):
        connection.execute(
            f'INSERT INTO {table} SELECT start + {later}, "end" + {later}, {columns} FROM {table} WHERE start < {until}'
        )


MADE_UP = {"Chrome JSON": (".json", write_chrome), "Nsight Systems": (".sqlite", write_nsight)}
