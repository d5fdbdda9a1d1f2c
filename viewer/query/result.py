"""An answer: its first rows, how many there are in all, and sums; and the same as bytes for another process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, field
from typing import Any

import pandas as pd

from parsers.model.late.dataclass import dataclass
from viewer.query.sums import ColumnSums

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
