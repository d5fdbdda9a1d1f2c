"""Tables of a recording in a diagnosis: the rows that matter, or all of them, as text, plain values and HTML."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from parsers.model.late import dataclass
from parsers.model.units import quantity
from rules.analysis.analysis import Analysis
from viewer.reports.rendering import blocks
from viewer.reports.rendering.terminal_report import table_lines
from viewer.reports.result_tables import figure
from viewer.statistics.kernels import kernel_columns
from viewer.statistics.operators import operator_columns, operator_times
from viewer.tables.sizes import Sizes
from viewer.tables.summaries.cpu import OperatorSummary
from viewer.tables.summaries.gpu import KernelSummary
from viewer.tables.table import Column, summaries, summary_of

FEW = 5
MAX_ROWS = 10_000  # of one table in JSON: more is asked for by a query
MAX_PRINTED = 25
MAX_ON_PAGE = 200
_SIZES = {"B": "", "B/s": "/s"}  # what stands behind the unit
_UNSAID = ("event",)
_AS_READ = {"short name": "name"}
_SHORT = {"name": "short_name"}  # instead of which people read what


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of plain values; ``units`` and ``about`` stand beside ``names``; ``left_out`` rows were too many."""

    id: str
    title: str
    about: str
    names: tuple[str, ...]
    units: tuple[str, ...]
    explained: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    left_out: int = 0

    @property
    def headings(self) -> tuple[str, ...]:
        """The columns as people read them: without the unit, which the values have."""
        return tuple(heading(name, unit) for name, unit in zip(self.names, self.units, strict=True))

    def cells(self, most: int) -> list[tuple[str, ...]]:
        """The first rows as people read them."""
        shown = self.rows[:most]
        sizes = {
            unit: Sizes([row[place] for row in shown for place in places if row[place] is not None], ending)
            for unit, ending in _SIZES.items()
            if (places := [place for place, each in enumerate(self.units) if each == unit])
        }
        return [
            tuple(
                cell(value, unit) if unit not in sizes or value is None else sizes[unit].written(value)
                for value, unit in zip(row, self.units, strict=True)
            )
            for row in shown
        ]

    def without(self, *hidden: str) -> Table:
        kept = [place for place, name in enumerate(self.names) if name not in hidden]

        def chosen(values: Sequence[Any]) -> tuple[Any, ...]:
            return tuple(values[place] for place in kept)

        return Table(
            self.id,
            self.title,
            self.about,
            chosen(self.names),
            chosen(self.units),
            chosen(self.explained),
            tuple(chosen(row) for row in self.rows),
            self.left_out,
        )


def rows_that_matter(analysis: Analysis, most: int = FEW) -> list[Table]:
    """The kernels and the operators that take most time; needs no pandas, so that a diagnosis stays quick."""
    t0, t1 = analysis.window
    kernels = kernel_columns(analysis, t0, t1)
    operators = operator_columns(analysis.trace, operator_times(analysis.trace), t0, t1)
    tables = (
        ("kernels", "Most time on the GPU", kernels, KernelSummary.columns, _OF_KERNELS),
        ("operators", "Most time in operators on the CPU", operators, OperatorSummary.columns, _OF_OPERATORS),
    )
    return [_first(*each, most) for each in tables if len(each[2]["event"])]


_OF_KERNELS = ("name", "short_name", "calls", "total_ns", "gpu_time_share")
_OF_OPERATORS = ("name", "calls", "cpu_self_ns", "cpu_total_ns", "gpu_total_ns")


def _first(
    id: str, title: str, rows: dict[str, Any], columns: Sequence[Column], names: Sequence[str], most: int
) -> Table:
    chosen = [column for column in columns if column.name in names]
    shown = tuple(zip(*(rows[column.name][:most].tolist() for column in chosen), strict=True))
    left = len(rows["event"]) - len(shown)
    return Table(id, title, "the first rows, of the analysed time", *_headed(chosen), shown, left)


def _headed(columns: Sequence[Column]) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Names, units and explanations of columns."""
    return (
        tuple(column.name for column in columns),
        tuple(column.unit for column in columns),
        tuple(column.about for column in columns),
    )


def every_table(analysis: Analysis) -> list[Table]:
    """All summaries of the analysed time that have rows."""

    tables = (table_of(analysis, name) for name in summaries())
    return [table for table in tables if table.rows]


def table_of(analysis: Analysis, name: str, span: tuple[int, int] | None = None) -> Table:
    """One summary, of the analysed time or of [t0, t1)."""

    summary, frame = summaries()[name], summary_of(analysis, name, span)
    columns = [plain(frame[column.name].tolist()) for column in summary.columns] if len(frame) else []
    rows = tuple(zip(*(values[:MAX_ROWS] for values in columns), strict=True))
    return Table(name, summary.title, summary.about, *_headed(summary.columns), rows, len(frame) - len(rows))


def plain(values: Iterable[Any]) -> list[Any]:
    """Values that JSON can hold: nothing in place of what is no number."""
    return [
        None if value is None or value != value or (isinstance(value, float) and math.isinf(value)) else value
        for value in (None if type(value).__name__ == "NAType" else value for value in values)
    ]


def tables_json(tables: Sequence[Table]) -> dict[str, Any]:
    """Tables as plain values, by id."""
    return {
        table.id: {
            "title": table.title,
            "about": table.about,
            "columns": [
                {"name": name, "unit": unit, "about": about}
                for name, unit, about in zip(table.names, table.units, table.explained, strict=True)
            ],
            "rows": [list(row) for row in table.rows],
            "rows_left_out": table.left_out,
        }
        for table in tables
    }


def tables_blocks(tables: Sequence[Table], most: int, few: int) -> list[blocks.Table]:
    """The first rows of each as a table of a page, which shows ``few`` until more are wanted."""
    return [replace(_block(table, most), few=few) for table in tables]


def tables_text(tables: Sequence[Table], most: int = FEW) -> list[str]:
    """The first rows of each for a terminal."""
    return [line for table in tables for line in table_lines(_block(table, most))]


def _block(table: Table, most: int) -> blocks.Table:
    """The first rows as people read them: long names give way to short ones."""
    long = [name for name, short in _SHORT.items() if short in table.names]
    shown = table.without(*_UNSAID, *long)
    texts = [all(isinstance(row[index], str) for row in shown.rows) for index in range(len(shown.names))]
    return blocks.Table(
        table.title,
        tuple(_AS_READ.get(each, each) for each in shown.headings),
        shown.cells(most),
        table.left_out + max(len(table.rows) - most, 0),
        few=most,
        prose=tuple(index for index, is_text in enumerate(texts) if is_text),
        values=shown.rows[:most],
        form=blocks.Form.PAGE,
    )


def heading(name: str, unit: str) -> str:
    """ "total_ns" as "total": the unit stands beside each value."""
    ends = {"ns": "_ns", "B": "_bytes", "B/s": "_bytes_per_s", "share": "_share"}
    return name.removesuffix(ends.get(unit, "")).replace("_", " ")


def cell(value: Any, unit: str) -> str:
    """A value as people read it."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if unit == "share":
        return f"{100 * value:.1f} %"
    return quantity(value, unit) if unit else figure(value)
