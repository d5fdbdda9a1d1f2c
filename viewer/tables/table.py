"""What a table is: a name, columns with units, and how its frame is made; and how the tables are found."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from parsers.model import derived_by
from parsers.model.catalogs import load_all
from parsers.model.late import dataclass

if TYPE_CHECKING:
    import pandas as pd  # what tables are called can be asked without it

    from rules.analysis.analysis import Analysis

START, END, DURATION, EVENT = "start_ns", "end_ns", "duration_ns", "event"
_UNITS = {"_bytes_per_s": "B/s", "_bytes": "B", "_ns": "ns", "_share": "share", "_flops": "flop"}


@dataclass(frozen=True, slots=True)
class Column:
    """One column; its unit is the end of its name, so that no number travels without one."""

    name: str
    about: str
    title: str = ""  # in a window; without one the name without its unit

    @property
    def unit(self) -> str:
        """ "ns", "B", "B/s", "share" (of one), or empty for counts, texts and ids."""
        return next((unit for end, unit in _UNITS.items() if self.name.endswith(end)), "")

    @property
    def heading(self) -> str:
        end = next((end for end in _UNITS if self.name.endswith(end)), "")
        return self.title or self.name.removesuffix(end).replace("_", " ")


class RowTable(ABC):
    """One row a thing. Where it has a start and an end, ``duration_ns`` follows from them wherever it is asked for."""

    name: ClassVar[str]
    about: ClassVar[str]  # what one row is
    columns: ClassVar[tuple[Column, ...]]

    @abstractmethod
    def rows(self, analysis: Analysis) -> Mapping[str, Any]:
        """Equal columns by name, in the order of ``columns``; columns of the model are handed over, not copied."""


class Summary(ABC):
    """Rows added up over a span of time; ``event`` is the longest event of a row, for who wants to see it."""

    name: ClassVar[str]
    title: ClassVar[str]
    about: ClassVar[str]
    order: ClassVar[int]
    columns: ClassVar[tuple[Column, ...]]
    whole_run: ClassVar[bool] = False  # about the analysed time, whatever span is asked for

    @abstractmethod
    def frame(self, analysis: Analysis, t0: int, t1: int) -> pd.DataFrame:
        """The rows for [t0, t1), what matters most first; empty where nothing was recorded."""


R = TypeVar("R", bound=type[RowTable])
S = TypeVar("S", bound=type[Summary])
_ROW_TABLES: dict[str, RowTable] = {}
_SUMMARIES: dict[str, Summary] = {}


def row_table(table: R) -> R:
    """Make a class known as a table of rows."""
    _ROW_TABLES[table.name] = table()
    return table


def summary(table: S) -> S:
    """Make a class known as a summary."""
    _SUMMARIES[table.name] = table()
    return table


@cache
def row_tables() -> Mapping[str, RowTable]:
    """Every table of rows, by name."""
    load_all(f"{__package__}.rows")
    return dict(sorted(_ROW_TABLES.items()))


@cache
def summaries() -> Mapping[str, Summary]:
    """Every summary by name, in the order in which they are shown."""
    load_all(f"{__package__}.summaries")
    return dict(sorted(_SUMMARIES.items(), key=lambda item: item[1].order))


@derived_by
def rows_of(analysis: Analysis, name: str) -> pd.DataFrame:
    """The frame of a table of rows, without what follows from other columns; made once for each analysis."""
    import pandas as pd

    table = row_tables()[name]
    columns = table.rows(analysis)
    assert tuple(columns) == tuple(column.name for column in table.columns), name
    return pd.DataFrame(columns, copy=False)


def has_duration(name: str) -> bool:
    """Whether ``duration_ns`` follows from the columns of a table of rows."""
    names = {column.name for column in row_tables()[name].columns}
    return {START, END} <= names


def frame_of(analysis: Analysis, name: str) -> pd.DataFrame:
    """A table of rows for people: with ``duration_ns``; the recording's own columns are still not copied."""
    frame = rows_of(analysis, name).copy(deep=False)
    if has_duration(name):
        frame.insert(list(frame.columns).index(END) + 1, DURATION, frame[END] - frame[START])
    return frame


def described(name: str) -> tuple[Column, ...]:
    """The columns of a table of rows or of a summary as they are asked for, ``duration_ns`` included."""
    if name in summaries():
        return summaries()[name].columns
    columns = list(row_tables()[name].columns)
    if has_duration(name):
        place = [column.name for column in columns].index(END)
        columns.insert(place + 1, Column(DURATION, "how long it took"))
    return tuple(columns)


def summary_of(analysis: Analysis, name: str, span: tuple[int, int] | None = None) -> pd.DataFrame:
    """A summary of [t0, t1), otherwise of the analysed time."""
    table = summaries()[name]
    t0, t1 = analysis.window if span is None or table.whole_run else span
    frame = table.frame(analysis, t0, t1)
    return frame[[column.name for column in table.columns]]
