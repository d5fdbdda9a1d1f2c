"""Makes a Nsight Systems export of any size, shaped like that of a training run: steps, regions, launches, kernels."""

from __future__ import annotations

import argparse
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]

PROCESS = 1 << 48 | 4242 << 24
MAIN, AUTOGRAD = PROCESS | 4242, PROCESS | 4300
KERNEL_NAMES = 180
API_NAMES = (
    "cudaLaunchKernel_v7000",
    "cudaMemcpyAsync_v3020",
    "cuLaunchKernelEx",
    "cudaStreamSynchronize_v3020",
)
LAUNCHES_A_STEP = 1500
_CHUNK = 200_000
_SHARES = {"RUNTIME": 0.52, "KERNEL": 0.40, "MEMCPY": 0.01, "NVTX": 0.05, "SYNCHRONIZATION": 0.02}

_TABLES = {
    "StringIds": "id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL",
    "META_DATA_EXPORT": "name TEXT, value TEXT",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs INTEGER, utcTime TEXT, localTime TEXT",
    "TARGET_INFO_GPU": (
        "vmId INTEGER, id INTEGER NOT NULL, name TEXT, totalMemory INTEGER, memoryBandwidth INTEGER, "
        "smCount INTEGER, cuDevice INTEGER, computeMajor INTEGER, computeMinor INTEGER, uuid TEXT"
    ),
    "CUPTI_ACTIVITY_KIND_RUNTIME": (
        'start INTEGER NOT NULL, "end" INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER, '
        "correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER"
    ),
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        'start INTEGER NOT NULL, "end" INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, '
        "greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, "
        "demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER, launchType INTEGER, "
        "cacheConfig INTEGER, registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, "
        "gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL, "
        "staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL, "
        "localMemoryPerThread INTEGER NOT NULL, localMemoryTotal INTEGER NOT NULL, gridId INTEGER NOT NULL, "
        "sharedMemoryExecuted INTEGER, graphNodeId INTEGER, sharedMemoryLimitConfig INTEGER"
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (
        'start INTEGER NOT NULL, "end" INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, '
        "greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, "
        "bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, deprecatedSrcId INTEGER, srcKind INTEGER, "
        "dstKind INTEGER, graphNodeId INTEGER"
    ),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": (
        'start INTEGER NOT NULL, "end" INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, '
        "greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, "
        "deprecatedSyncType INTEGER, syncType INTEGER NOT NULL, eventId INTEGER NOT NULL, eventSyncId INTEGER"
    ),
    "NVTX_EVENTS": (
        'start INTEGER NOT NULL, "end" INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, category INTEGER, '
        "color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, "
        "uint64Value INTEGER, int64Value INTEGER, doubleValue REAL, uint32Value INTEGER, int32Value INTEGER, "
        "floatValue REAL, jsonTextId INTEGER, jsonText TEXT, binaryData TEXT"
    ),
}


def write_export(path: Path, rows: int, seed: int = 1) -> Path:
    """A database of about ``rows`` rows of events."""
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    for name, columns in _TABLES.items():
        connection.execute(f"CREATE TABLE {name} ({columns})")
    _describe(connection)
    random = np.random.default_rng(seed)
    counts = {name: int(rows * share) for name, share in _SHARES.items()}
    for first in range(0, counts["RUNTIME"], _CHUNK):
        _launches(connection, random, first, min(_CHUNK, counts["RUNTIME"] - first), counts)
    _regions(connection, counts["NVTX"], counts["RUNTIME"])
    connection.commit()
    connection.close()
    return path


def _describe(connection: sqlite3.Connection) -> None:
    strings = [
        (number, f"void at::native::kernel_{number}<float, {number}>(float*, int)")
        for number in range(KERNEL_NAMES)
    ]
    strings += [(1000 + number, name) for number, name in enumerate(API_NAMES)]
    connection.executemany("INSERT INTO StringIds VALUES (?, ?)", strings)
    connection.execute("INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PRODUCT_VERSION', '2025.3.2.0')")
    connection.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000, '', '')")
    connection.execute(
        "INSERT INTO TARGET_INFO_GPU VALUES (1, 0, 'NVIDIA H200', 150109880320, 4814304000000, 132, 0, 9, 0, '')"
    )


def _launches(
    connection: sqlite3.Connection,
    random: np.random.Generator,
    first: int,
    count: int,
    counts: dict[str, int],
) -> None:
    number = np.arange(first, first + count, dtype=np.int64)
    start = number * 9_000
    end = start + random.integers(2_000, 8_000, count)
    thread = np.where(number // 700 % 2 == 0, MAIN, AUTOGRAD)
    kind = random.choice(4, count, p=[0.9, 0.02, 0.06, 0.02])
    connection.executemany(
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, ?, ?, ?, 0, NULL)",
        _rows(start, end, thread, number + 1, 1000 + kind),
    )
    launched = np.flatnonzero(random.random(count) < counts["KERNEL"] / counts["RUNTIME"])
    begins = start[launched] + 12_000
    ends = begins + random.integers(1_500, 8_500, len(launched))
    stream = np.where(random.random(len(launched)) < 0.95, 7, 13)
    names = random.integers(0, KERNEL_NAMES, len(launched))
    grid = random.integers(1, 4096, len(launched))
    connection.executemany(
        f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 1, 0, ?, ?, {PROCESS}, ?, ?, ?, 1, 1, ?, ?, 1, 1, "
        "128, 1, 1, 0, 0, 0, 0, ?, 32768, NULL, 0)",
        _rows(
            begins,
            ends,
            stream,
            number[launched] + 1,
            names,
            names,
            names,
            32 + names % 200,
            grid,
            number[launched],
        ),
    )
    copied = np.flatnonzero(random.random(count) < counts["MEMCPY"] / counts["RUNTIME"])
    connection.executemany(
        f"INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?, ?, 0, 1, 0, 17, ?, {PROCESS}, ?, 1, NULL, 1, 2, NULL)",
        _rows(start[copied] + 9_000, start[copied] + 15_000, number[copied] + 1, copied * 64 + 4096),
    )
    waited = np.flatnonzero(random.random(count) < counts["SYNCHRONIZATION"] / counts["RUNTIME"])
    connection.executemany(
        f"INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (?, ?, 0, 1, 0, 7, ?, {PROCESS}, NULL, 3, 0, NULL)",
        _rows(start[waited], end[waited], number[waited] + 1),
    )


def _regions(connection: sqlite3.Connection, count: int, launches: int) -> None:
    """Steps with five regions each, and operators nested in them."""
    length = launches * 9_000
    steps = max(launches // LAUNCHES_A_STEP, 1)
    width = length // steps
    rows: list[tuple[int, int, str]] = []
    for step in range(steps):
        begin = step * width
        rows.append((begin, begin + width - 10, f"step_{step}"))
        for place, name in enumerate(("data", "forward", "backward", "optimizer")):
            rows.append((begin + place * width // 4, begin + (place + 1) * width // 4 - 20, name))
    operators = max(count - len(rows), 0)
    spacing = length // max(operators, 1)
    columns = 'start, "end", eventType, text, globalTid, domainId'
    statement = f"INSERT INTO NVTX_EVENTS ({columns}) VALUES (?, ?, 59, ?, {MAIN}, 0)"
    connection.executemany(statement, rows)
    connection.executemany(
        statement,
        (
            (
                number * spacing + 30,
                number * spacing + spacing - 30,
                f"aten::op_{number % 90}, seq = {number}, op_id = {number}",
            )
            for number in range(operators)
        ),
    )


def _rows(*columns: I64) -> Iterator[tuple[int, ...]]:
    return zip(*(column.tolist() for column in columns), strict=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    chosen = parser.parse_args()
    print(write_export(chosen.path, chosen.rows))
