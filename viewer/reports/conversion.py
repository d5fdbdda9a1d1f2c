"""Writes the events of a trace as Chrome JSON, Parquet or CSV."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

import msgspec
import numpy as np
import pandas as pd

from parsers.model import EventKind, LaneKind, Progress, Trace
from viewer.kept.storage import in_one_piece

CHUNK = 100_000
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_CHROME_CATEGORY = {
    EventKind.CPU_OP: "cpu_op",
    EventKind.PYTHON: "python_function",
    EventKind.API: "cuda_runtime",
    EventKind.REGION: "user_annotation",
    EventKind.STEP: "user_annotation",
    EventKind.KERNEL: "kernel",
    EventKind.MEMCPY: "gpu_memcpy",
    EventKind.MEMSET: "gpu_memset",
    EventKind.GRAPH: "kernel",
    EventKind.GPU_SYNC: "cuda_sync",
    EventKind.GPU_REGION: "gpu_user_annotation",
    EventKind.OVERHEAD: "overhead",
}


def write(trace: Trace, to: str, out: Path, progress: Progress) -> None:
    """Write ``out`` in one piece or not at all; ``to`` is "chrome", "parquet" or "csv"."""
    with in_one_piece(out) as part:
        if to == "chrome":
            with cast(IO[bytes], gzip.open(part, "wb")) if out.suffix == ".gz" else part.open("wb") as file:
                _write_chrome(trace, file, progress)
        elif to == "parquet":
            _table(trace, slice(None)).to_parquet(part, index=False)
        else:
            for first in range(0, max(len(trace.events), 1), CHUNK):
                progress.step(first / max(len(trace.events), 1), "writing")
                table = without_formulas(_table(trace, slice(first, first + CHUNK)))
                table.to_csv(part, mode="a" if first else "w", header=not first, index=False)


def _table(trace: Trace, rows: slice) -> pd.DataFrame:
    events = trace.events
    names = np.array(trace.strings, object)
    lanes = np.array([lane.name for lane in trace.lanes], object)
    ranks = np.array([-1 if lane.rank is None else lane.rank for lane in trace.lanes], np.int64)
    kinds = np.array([kind.name.lower() for kind in EventKind], object)
    return pd.DataFrame(
        {
            "start_ns": events.start[rows],
            "duration_ns": events.duration[rows],
            "name": names[events.name[rows]],
            "kind": kinds[events.kind[rows]],
            "rank": ranks[events.lane[rows]],
            "lane": lanes[events.lane[rows]],
            "depth": events.depth[rows],
        }
    )


def without_formulas(table: pd.DataFrame) -> pd.DataFrame:
    """Text that a spreadsheet would run as a formula gets an apostrophe before it."""
    safe = table.copy(deep=False)
    for place in range(table.shape[1]):
        if not pd.api.types.is_numeric_dtype(table.dtypes.iloc[place]):
            text = table.iloc[:, place].astype(object)
            is_formula = text.map(lambda each: isinstance(each, str) and each.startswith(_FORMULA))
            safe.isetitem(place, text.where(~is_formula, "'" + text.astype(str)).array)
    return safe


def _write_chrome(trace: Trace, file: IO[bytes], progress: Progress) -> None:
    encode = msgspec.json.Encoder().encode
    file.write(b'{"schemaVersion":1,"displayTimeUnit":"ms","traceEvents":[\n')
    lines = _chrome_events(trace, progress)
    file.write(encode(next(lines)))
    for line in lines:
        file.write(b",\n" + encode(line))
    file.write(b"\n]}\n")


def _chrome_events(trace: Trace, progress: Progress) -> Iterator[dict[str, object]]:
    yield {"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": {"name": "Stallscope export"}}
    launches = dict(zip(trace.links.operation.tolist(), trace.links.launch.tolist(), strict=True))
    launching = set(launches.values())
    events = trace.events
    for index in range(len(events)):
        if index % CHUNK == 0:
            progress.step(index / len(events), "writing")
        lane = trace.lanes[events.lane[index]]
        kind = EventKind(events.kind[index])
        on_gpu = lane.device is not None and lane.kind is not LaneKind.MEMORY
        device = trace.devices[lane.device].id if lane.device is not None else 0
        arguments: dict[str, object] = {}
        if index in launches or index in launching:
            arguments["correlation"] = launches.get(index, index)
        if on_gpu:
            arguments |= {"device": device, "stream": lane.stream or 0}
        yield {
            "ph": "X",
            "cat": _CHROME_CATEGORY.get(kind, "other"),
            "name": trace.strings[events.name[index]],
            "pid": device if on_gpu else lane.process or 0,
            "tid": lane.stream or 0 if on_gpu else lane.thread or 0,
            "ts": int(events.start[index]) / 1000,
            "dur": int(events.end[index] - events.start[index]) / 1000,
            "args": arguments,
        }
