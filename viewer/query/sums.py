"""What can be said of the columns of an answer beside its rows: which of them are quantities, and which add up."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd

from parsers.model.late.dataclass import dataclass
from parsers.model.late.regex import regex
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
            "event",
            "lane",
            "rank",
            "device",
            "stream",
            "process",
            "thread",
            "launch",
            "operation",
            "next_event",
        ),
        *("depth", "step", "gap", "instance", "start_ns", "end_ns"),
        *("id", "ts", "track_id", "utid", "upid", "tid", "pid", "arg_set_id", "parent_id"),
        *("slice_id", "slice_in", "slice_out"),
    }
)
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
