"""What summaries have in common: columns of counts and times, rows inside a span, grouping by a text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parsers.model.arrays import I64
from rules.analysis.analysis import Analysis
from viewer.statistics.kernels import grouped, longest_events
from viewer.tables.table import Column, rows_of

if TYPE_CHECKING:
    import pandas as pd

CALLS = Column("calls", "how many", "Calls")
TOTAL = Column("total_ns", "total time", "Total")
MEAN = Column("mean_ns", "time of one, on average", "Mean")
P50 = Column("p50_ns", "median time of one")
P99 = Column("p99_ns", "99th percentile of the time of one")
LONGEST = Column("event", "the longest one, by its number in the table events")


def during(analysis: Analysis, table: str, t0: int, t1: int) -> pd.DataFrame:
    """The rows of a table that begin in [t0, t1)."""
    rows = rows_of(analysis, table)
    start = rows["start_ns"].to_numpy(np.int64)
    return rows[(start >= t0) & (start < t1)]


class ByText:
    """Rows of durations grouped by columns of texts, and a table with a row a group that is filled column by column."""

    def __init__(self, rows: pd.DataFrame, *keys: str) -> None:
        self._rows = rows
        self._length = (rows["end_ns"] - rows["start_ns"]).to_numpy(np.int64)
        code = np.zeros(len(rows), np.int64)
        for key in keys:
            column = rows[key].cat
            code = code * (len(column.categories) + 1) + column.codes.to_numpy().astype(np.int64) + 1
        _, first, self._group = np.unique(code, return_index=True, return_inverse=True)
        self.stats = grouped(self._group, self._length)
        words = rows.iloc[first][list(keys)].astype(object).reset_index(drop=True)
        self.table = words.where(words.notna(), "")
        self.table["calls"] = self.stats.count

    def tell_durations(self) -> None:
        stats = self.stats
        self.table["total_ns"], self.table["mean_ns"] = stats.total, stats.mean
        self.table["p50_ns"], self.table["p99_ns"] = stats.median, stats.p99

    def summed(self, column: str, *, outermost: bool = False) -> I64:
        """The sum of whole numbers for each group, exactly; "" sums durations, ``outermost`` leaves out recursion."""
        values = self._rows[column].fillna(0).to_numpy(np.int64) if column else self._length
        if outermost:
            values = np.where(self._rows["outermost"].to_numpy(bool), values, 0)
        found = np.zeros(len(self.stats.key), np.int64)
        np.add.at(found, self._group, values)
        return found

    def by(self, column: str) -> pd.DataFrame:
        """The table with the longest of each group, the largest of a column first."""
        events = self._rows["event"].to_numpy(np.int64)
        self.table["event"] = longest_events(self._group, self._length, events, self.stats.key)
        return self.table.sort_values(column, ascending=False, ignore_index=True)
