"""How long it takes to open a Nsight Systems export, against reading its columns with ADBC and nothing else."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from adbc_driver_sqlite import dbapi

from parsers import open_trace
from parsers.model.late import dataclass
from tests.benchmarks.generate_nsys import write_export
from tests.benchmarks.loading import forget_cached, peak_of_opening

ROWS_AT_ONCE = 1 << 16
COLUMNS: dict[str, str] = {
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        'start, "end", deviceId, streamId, correlationId, globalPid, demangledName, registersPerThread, gridX, gridY, '
        "gridZ, blockX, blockY, blockZ"
    ),
    "CUPTI_ACTIVITY_KIND_RUNTIME": 'start, "end", globalTid, correlationId, nameId',
    "CUPTI_ACTIVITY_KIND_MEMCPY": (
        'start, "end", deviceId, streamId, correlationId, globalPid, bytes, copyKind, srcKind, dstKind'
    ),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": 'start, "end", deviceId, streamId, correlationId, globalPid, syncType',
    "NVTX_EVENTS": 'start, "end", eventType, globalTid, text',
}


@dataclass(frozen=True, slots=True)
class DatabaseLoading:
    """Medians in seconds over the rounds of one size; memory in bytes above the program before it opens anything."""

    events: int
    floor: float
    opening: float
    peak: int


def scan(path: Path) -> int:
    """The number of rows, with every column that a reader has to look at in numpy; nothing is done with them."""
    kept = []
    rows = 0
    with dbapi.connect(f"{path.resolve().as_uri()}?mode=ro", autocommit=True) as connection:
        for table, columns in COLUMNS.items():
            with connection.cursor() as cursor:
                cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": ROWS_AT_ONCE})
                cursor.execute(f"SELECT {columns} FROM {table}")
                reader = cursor.fetch_record_batch()
                for batch in reader:
                    kept.append(
                        [
                            column.to_numpy(zero_copy_only=False)
                            for column in batch.columns
                            if column.type == pa.int64()
                        ]
                    )
                    rows += batch.num_rows
                reader.close()
    return rows


def measure(rows: int, folder: Path, rounds: int = 3) -> DatabaseLoading:
    """Take floor and opening in turns, so that both see the same machine."""
    path = write_export(folder / "benchmark.sqlite", rows)
    events = len(open_trace([path]).events)
    floors, openings = [], []
    for _ in range(rounds):
        floors.append(_seconds(lambda: scan(path)))
        forget_cached()
        openings.append(_seconds(lambda: open_trace([path])))
    peak = peak_of_opening(path)
    path.unlink()
    return DatabaseLoading(events, statistics.median(floors), statistics.median(openings), peak)


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin
