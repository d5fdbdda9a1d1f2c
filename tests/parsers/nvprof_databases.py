"""Small databases of nvprof, laid out as it writes them."""

from __future__ import annotations

import sqlite3
import struct
from pathlib import Path

from tests.parsers.nsys_exports import Row, write_table

MALLOC, COPY, LAUNCH, SYNCHRONIZE, DRIVER_LAUNCH, UNNAMED = 20, 31, 211, 165, 307, 9_999
PROCESS, THREAD = 4_711, -890_167_296  # as a pthread's number is stored
EPOCH = 1_736_031_718_000_000_000
_NAMES = {0: "-- null --", 1: "Tesla T4", 2: "_Z6vecAddPdS_S_i", 3: "solve"}


def call(cbid: int, start: int, end: int, correlation: int, thread: int = THREAD) -> Row:
    return {
        "cbid": cbid,
        "start": EPOCH + start,
        "end": EPOCH + end,
        "processId": PROCESS,
        "threadId": thread,
        "correlationId": correlation,
        "returnValue": 0,
    }


def operation(start: int, end: int, correlation: int, **more: int) -> Row:
    times = {"start": EPOCH + start, "end": EPOCH + end}
    return {**times, "deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": correlation, **more}


def kernel(start: int, end: int, correlation: int, name: int = 2) -> Row:
    shape = {"gridX": 40, "gridY": 2, "gridZ": 1, "blockX": 256, "blockY": 1, "blockZ": 1}
    return operation(start, end, correlation, name=name, registersPerThread=32, **shape)


def marker(number: int, flags: int, time: int, name: int) -> Row:
    owner = struct.pack("<II", PROCESS, THREAD & 0xFFFFFFFF) + bytes(4)
    return {"flags": flags, "timestamp": EPOCH + time, "id": number, "objectId": owner, "name": name}


def write(path: Path, **changed: list[Row]) -> Path:
    """A copy to the GPU, two kernels and the copy back, within a range; ``changed`` are other rows of some kinds."""
    kinds = {
        "DEVICE": [
            {
                "id": 0,
                "name": 1,
                "globalMemorySize": 15_642_329_088,
                "globalMemoryBandwidth": 320_064_000,
                "numMultiprocessors": 40,
                "computeCapabilityMajor": 7,
                "computeCapabilityMinor": 5,
            }
        ],
        "RUNTIME": [
            call(MALLOC, 0, 90_000, 1),
            call(COPY, 100_000, 400_000, 2),
            call(LAUNCH, 410_000, 420_000, 3),
            call(SYNCHRONIZE, 430_000, 900_000, 6),
            call(COPY, 910_000, 1_200_000, 7),
        ],
        "DRIVER": [
            call(DRIVER_LAUNCH, 412_000, 418_000, 4),  # what the runtime's launch makes
            call(DRIVER_LAUNCH, 421_000, 425_000, 5),
        ],
        "CONCURRENT_KERNEL": [kernel(430_000, 600_000, 3), kernel(600_000, 890_000, 5, 3)],
        "MEMCPY": [
            operation(110_000, 390_000, 2, copyKind=1, srcKind=1, dstKind=3, bytes=8_000),
            operation(920_000, 1_190_000, 7, copyKind=2, srcKind=3, dstKind=2, bytes=4_000),
        ],
        "MEMSET": [operation(95_000, 99_000, 1, bytes=512)],
        "MARKER": [marker(1, 2, 50_000, 3), marker(1, 4, 1_300_000, 0)],
    } | changed
    connection = sqlite3.connect(path)
    write_table(connection, "StringTable", [{"_id_": key, "value": text} for key, text in _NAMES.items()])
    for kind, rows in kinds.items():
        write_table(connection, f"CUPTI_ACTIVITY_KIND_{kind}", rows)
    connection.commit()
    connection.close()
    return path
