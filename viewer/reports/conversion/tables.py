"""The tables of a recording as CSV or Parquet: events, kernels with their counters, samples of counters, results ..."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from parsers.files.private_folder import PrivateFolder
from parsers.model import EventKind, Progress, Trace, TraceError
from parsers.model.attributes import TEXT_ATTRIBUTES
from parsers.model.memory import AFTER, BEFORE
from viewer.appearance.plain_text import cell
from viewer.user_data.storage import in_one_piece

CHUNK = 100_000
PIECE_BYTES = 1 << 20


def held(trace: Trace) -> list[str]:
    """The tables that a recording has rows for, the one that is written unasked first."""
    present = {
        "events": len(trace.events),
        "kernels": len(trace.kernels),
        "counters": len(trace.counters),
        "allocations": sum(len(memory.allocations.start) for memory in trace.memory),
        "results": len(trace.tables),
    }
    return [name for name, count in present.items() if count]


def write_table(trace: Trace, which: str, to: str, out: Path, progress: Progress) -> list[str]:
    """Write one table, "" for the first of ``held``, as "csv" or "parquet"; returns what is left out, as phrases.

    Raises TraceError where the recording has no such table, and OSError.
    """
    there = held(trace)
    name = which or next(iter(there), "")
    if name not in there:
        path = trace.inputs[0].path if trace.inputs else "the recording"
        raise TraceError(
            path,
            f"There are no {name or 'events, kernels, counters, allocations or results'} in it to write.",
            f"It holds {', '.join(there)}: choose one with --table."
            if there
            else "Record the program again.",
        )
    with in_one_piece(out) as part:
        if to == "parquet":
            write_parquet(pd.concat(_TABLES[name](trace, progress), ignore_index=True), part)
        else:
            for number, table in enumerate(_TABLES[name](trace, progress)):
                as_csv(table, part, mode="a" if number else "w", header=not number)
    return [f"{other} (--table {other})" for other in there if other != name]


def _events(trace: Trace, progress: Progress) -> Iterator[pd.DataFrame]:
    """Events in slices of CHUNK, with every attribute that is recorded of any event."""
    events = trace.events
    names, kinds = _words(trace.strings), _words([kind.name.lower() for kind in EventKind])
    lanes = _words([lane.name for lane in trace.lanes])
    ids = {
        "rank": _numbers([lane.rank for lane in trace.lanes]),
        "process": _numbers([lane.process for lane in trace.lanes]),
        "thread": _numbers([lane.thread for lane in trace.lanes]),
        "device": _numbers(
            [None if lane.device is None else trace.devices[lane.device].id for lane in trace.lanes]
        ),
        "stream": _numbers([lane.stream for lane in trace.lanes]),
    }
    for first in range(0, max(len(events), 1), CHUNK):
        progress.step(first / max(len(events), 1), "writing")
        rows = slice(first, first + CHUNK)
        lane = events.lane[rows]
        columns: dict[str, Any] = {
            "start_ns": events.start[rows],
            "duration_ns": events.duration[rows],
            "name": names[events.name[rows]],
            "kind": kinds[events.kind[rows]],
            "lane": lanes[lane],
            "depth": events.depth[rows],
        }
        columns |= {name: values[lane] for name, values in ids.items()}
        chosen = np.arange(first, first + len(lane), dtype=np.int64)
        for which, column in trace.attributes.items():
            stated = np.isin(chosen, column.event)
            value = trace.attribute(which, chosen)
            columns[which.value] = (
                np.where(stated, names[np.where(stated, value, 0)], "")
                if which in TEXT_ATTRIBUTES
                else pd.arrays.IntegerArray(value, ~stated)
            )
        yield pd.DataFrame(columns)


def _kernels(trace: Trace, _: Progress) -> Iterator[pd.DataFrame]:
    """One row a profiled launch, one column a metric."""
    metrics = list(dict.fromkeys(name for kernel in trace.kernels for name in kernel.metrics))
    yield pd.DataFrame(
        {
            "id": [kernel.id for kernel in trace.kernels],
            "name": [kernel.name for kernel in trace.kernels],
            "grid": [",".join(map(str, kernel.grid)) for kernel in trace.kernels],
            "block": [",".join(map(str, kernel.block)) for kernel in trace.kernels],
            "device": _numbers([kernel.device for kernel in trace.kernels]),
            "device_name": [kernel.device_name or "" for kernel in trace.kernels],
            "stream": _numbers([kernel.stream for kernel in trace.kernels]),
            "process": _numbers([kernel.process for kernel in trace.kernels]),
            "invocations": [kernel.invocations for kernel in trace.kernels],
            "duration_ns": [kernel.duration_ns for kernel in trace.kernels],
            **{name: _metric(trace, name) for name in metrics},
        }
    )


def _metric(trace: Trace, name: str) -> pd.Series[Any]:
    """Numbers where all are; text otherwise, since a column has one type."""
    values = [kernel.metrics.get(name) for kernel in trace.kernels]
    if any(isinstance(value, str) for value in values):
        return pd.Series([None if value is None else str(value) for value in values], dtype="string")
    return pd.Series(values, dtype="float64")


def _counters(trace: Trace, progress: Progress) -> Iterator[pd.DataFrame]:
    """One row a sample."""
    for number, counter in enumerate(trace.counters):
        progress.step(number / len(trace.counters), "writing")
        device = None if counter.device is None else trace.devices[counter.device].id
        count = len(counter.time)
        yield pd.DataFrame(
            {
                "time_ns": counter.time,
                "counter": [counter.name] * count,
                "value": counter.value,
                "unit": [counter.unit] * count,
                "rank": _numbers([counter.rank] * count),
                "device": _numbers([device] * count),
            }
        )


def _allocations(trace: Trace, _: Progress) -> Iterator[pd.DataFrame]:
    """One row an allocation; no start where it is older than the recording, no end where it was never released."""
    for memory in trace.memory:
        table = memory.allocations
        devices = _numbers([device.id for device in trace.devices])
        yield pd.DataFrame(
            {
                "start_ns": pd.arrays.IntegerArray(table.start, table.start == BEFORE),
                "end_ns": pd.arrays.IntegerArray(table.end, table.end == AFTER),
                "bytes": table.size,
                "address": table.address,
                "device": devices[table.device] if len(devices) else table.device,
                "thread": pd.arrays.IntegerArray(table.thread, table.thread < 0),
            }
        )


def _results(trace: Trace, _: Progress) -> Iterator[pd.DataFrame]:
    """One row a cell, since tables differ in their columns."""
    for table in trace.tables:
        rows = [
            (
                table.title,
                number,
                column.name,
                column.unit,
                cell if isinstance(cell, int | float) else float("nan"),
                cell if isinstance(cell, str) else "",
            )
            for number, row in enumerate(table.rows)
            for column, cell in zip(table.columns, row, strict=True)
        ]
        yield pd.DataFrame(rows, columns=["table", "row", "column", "unit", "value", "text"])


_TABLES: dict[str, Callable[[Trace, Progress], Iterator[pd.DataFrame]]] = {
    "events": _events,
    "kernels": _kernels,
    "counters": _counters,
    "allocations": _allocations,
    "results": _results,
}


def _words(texts: Any) -> npt.NDArray[np.object_]:
    return np.array(list(texts), object)


def _numbers(values: list[int | None]) -> Any:
    missing = np.array([value is None for value in values], bool)
    return pd.arrays.IntegerArray(np.array([value or 0 for value in values], np.int64), missing)


def as_csv(table: pd.DataFrame, out: Any, **options: Any) -> None:
    """Write a table as CSV, with names that no spreadsheet takes for formulas."""
    shown = table.copy(deep=False)
    shown.columns = pd.Index([cell(str(name)) for name in table.columns])
    for index in range(table.shape[1]):
        if not pd.api.types.is_numeric_dtype(table.dtypes.iloc[index]):
            shown.isetitem(index, _cells(table.iloc[:, index].tolist()))
    shown.to_csv(out, index=False, **options)


def _cells(values: list[Any]) -> npt.NDArray[np.object_]:
    """A name that occurs often is looked at once."""
    shown = {name: cell(name) for name in {value for value in values if isinstance(value, str)}}
    cells = np.empty(len(values), object)
    for row, value in enumerate(values):
        cells[row] = shown[value] if isinstance(value, str) else value
    return cells


def write_parquet(frame: pd.DataFrame, out: Path) -> None:
    """Write one file. Raises ``OSError``, and ``ImportError`` where neither library is there."""
    try:
        frame.to_parquet(out, index=False)
    except ImportError:
        import duckdb

        with duckdb.connect(":memory:") as writer:
            writer.register("answer", frame)
            try:
                place = str(out).replace("'", "''")
                writer.execute(f"COPY answer TO '{place}' (FORMAT parquet)").fetchall()
            except duckdb.IOException as error:
                raise OSError(str(error)) from None


def pieces_of(frame: pd.DataFrame, ending: str) -> Iterator[bytes]:
    """A table as the content of a .parquet, .json or .csv file; a part at a time, since it may be large."""
    if ending == ".parquet":
        folder = PrivateFolder()
        write_parquet(frame, written := folder.path / "answer")
        with written.open("rb") as file:
            while piece := file.read(PIECE_BYTES):
                yield piece
    elif ending == ".json":
        yield frame.to_json(orient="records").encode(errors="replace")
    else:
        for first in range(0, max(len(frame), 1), CHUNK):
            text = StringIO()
            as_csv(frame.iloc[first : first + CHUNK], text, header=not first)
            yield text.getvalue().encode(errors="replace")
