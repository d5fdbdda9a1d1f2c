"""What summaries have in common: columns of counts and times, rows inside a span, grouping by a text."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from rules.analysis.analysis import Analysis
from viewer.statistics.grouping import Groups, grouped
from viewer.tables.table import Column, rows_of

I64 = npt.NDArray[np.int64]
CALLS = Column("calls", "how many")
TOTAL = Column("total_ns", "time of all of them, added up")
MEAN = Column("mean_ns", "time of one, on average")
P50 = Column("p50_ns", "half of them took no longer")
P99 = Column("p99_ns", "99 of 100 took no longer")
LONGEST = Column("event", "the longest of them, as a number of the table events")
_NAMES = {"total": "total_ns", "mean": "mean_ns", "p50": "p50_ns", "p99": "p99_ns"}


def renamed(frame: pd.DataFrame, **names: str) -> pd.DataFrame:
    """Columns of times with their unit, and others as said."""
    return frame.rename(columns=_NAMES | names)


def during(analysis: Analysis, table: str, t0: int, t1: int) -> pd.DataFrame:
    """The rows of a table that begin in [t0, t1)."""
    rows = rows_of(analysis, table)
    start = rows["start_ns"].to_numpy(np.int64)
    return rows[(start >= t0) & (start < t1)]


def by_text(rows: pd.DataFrame, *keys: str) -> tuple[I64, Groups, pd.DataFrame]:
    """Rows grouped by columns of texts: the group of each row, statistics of durations, and the texts of the groups."""
    length = (rows["end_ns"] - rows["start_ns"]).to_numpy(np.int64)
    code = np.zeros(len(rows), np.int64)
    for key in keys:
        column = rows[key].cat
        code = code * (len(column.categories) + 1) + column.codes.to_numpy().astype(np.int64) + 1
    _, first, group = np.unique(code, return_index=True, return_inverse=True)
    stats = grouped(group, length)
    words = rows.iloc[first][list(keys)].astype(object).reset_index(drop=True)
    return group, stats, words.where(words.notna(), "")


def tell_durations(table: pd.DataFrame, stats: Groups) -> None:
    """Columns for how many there are and how long they take."""
    table["calls"], table["total_ns"], table["mean_ns"] = stats.count, stats.total, stats.mean
    table["p50_ns"], table["p99_ns"] = stats.median, stats.p99


def summed(group: I64, values: npt.NDArray[np.integer], groups: int) -> I64:
    """The sum of whole numbers for each group, exactly."""
    found = np.zeros(groups, np.int64)
    np.add.at(found, group, values)
    return found
