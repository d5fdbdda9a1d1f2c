"""An answer: its first rows, how many there are in all, and sums; and the same as bytes for another process."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, field
from typing import Any

import numpy as np
import pandas as pd

from parsers.model.late import dataclass, regex
from viewer.tables.table import Column


@dataclass(frozen=True, slots=True)
class ColumnSums:
    """Over all rows of a result, also those that were left out; in the unit of the column."""

    total: float
    median: float
    p99: float


_IDS = frozenset(
    {
        *(
            "event", "lane", "rank", "device", "stream", "process", "thread", "launch", "operation",
            "next_event",
        ),
        *("depth", "step", "gap", "instance", "start_ns", "end_ns"),
        *("id", "ts", "track_id", "utid", "upid", "tid", "pid", "arg_set_id", "parent_id"),
        *("slice_id", "slice_in", "slice_out"),
    }
)  # fmt: skip
_OF_EACH = regex(
    r"(^|_)(mean|avg|average|med|median|p\d+|q\d|min|max|std|stddev|shortest|longest|first|last|share|percent|per|a|"
    r"ttft|tpot|answered|at|from|to|epoch|start|end|time|arrival|(cpu|gpu|memory)_total)(_|$)",
    re.IGNORECASE,
)
_COUNTED = regex(
    r"(^|_)(count|calls|launches|kernels|operators|gaps|copies|collectives|waits|steps|requests|tokens|events|rows|"
    r"dur|duration)$",
    re.IGNORECASE,
)


def is_quantity(column: pd.Series[Any]) -> bool:
    """Whether a column holds amounts: numbers that are no ids."""
    return (
        pd.api.types.is_numeric_dtype(column)
        and not pd.api.types.is_bool_dtype(column)
        and str(column.name) not in _IDS
    )


def adds_up(name: str) -> bool:
    """Whether the amounts of a column of this name add up: times, sizes and counts, not means, shares or moments."""
    if _OF_EACH.search(name):
        return False
    return Column(name, "").unit in ("ns", "B") or _COUNTED.search(name) is not None


def sums_of(frame: pd.DataFrame) -> dict[str, ColumnSums]:
    """Of all quantities, from rows that are all there; percentiles are values that occur, as quantile_disc."""
    found = {}
    for name in frame.columns:
        column = frame.loc[:, name]
        if column.ndim > 1 or not is_quantity(column):  # a name that two columns have
            continue
        values = np.sort(column.dropna().to_numpy(np.float64))
        if len(values):
            at = [int(np.ceil(share * len(values))) - 1 for share in (0.5, 0.99)]
            found[name] = ColumnSums(float(values.sum()), *(float(values[max(each, 0)]) for each in at))
    return found


_BESIDE = b"stallscope"


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """The first rows, how many there are in all, and sums of the columns of numbers.

    Cells are numbers, text, missing, or what lists and structures are in JSON.
    """

    frame: pd.DataFrame
    rows: int
    seconds: float
    sums: Mapping[str, ColumnSums] = field(default_factory=dict)

    @property
    def cut(self) -> bool:
        """Whether there are more rows than ``frame`` holds."""
        return self.rows > len(self.frame)


def in_text(frame: pd.DataFrame) -> pd.DataFrame:
    """The same rows, with lists, structures and whatever else is no number and no text as JSON."""
    flat = frame.copy(deep=False)
    for index in range(frame.shape[1]):
        if pd.api.types.is_object_dtype(frame.dtypes.iloc[index]):
            told = [_told(value) for value in frame.iloc[:, index].tolist()]
            flat.isetitem(index, pd.Series(told, dtype=object).array)
    return flat


def _told(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def packed(result: Result) -> bytes:
    """An Arrow stream, with what stands beside the rows as JSON in its schema; lists and structures as text."""
    import pyarrow as pa

    names = [str(name) for name in result.frame.columns]
    flat = in_text(result.frame)
    flat.columns = pd.Index([str(index) for index in range(len(names))])
    table = pa.Table.from_pandas(flat, preserve_index=False)
    beside = {
        "names": names,
        "rows": result.rows,
        "seconds": result.seconds,
        "sums": {name: asdict(each) for name, each in result.sums.items()},
    }
    known = table.schema.metadata or {}
    table = table.replace_schema_metadata({**known, _BESIDE: json.dumps(beside).encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def unpacked(content: bytes) -> Result:
    """What ``packed`` made bytes of."""
    import pyarrow as pa

    with pa.ipc.open_stream(content) as stream:
        table = stream.read_all()
    beside = json.loads(table.schema.metadata[_BESIDE])
    frame = table.to_pandas()
    frame.columns = pd.Index(beside["names"])
    sums = {name: ColumnSums(**each) for name, each in beside["sums"].items()}
    return Result(frame, beside["rows"], beside["seconds"], sums)
