"""Tables of results as text for a terminal and as plain values."""

from __future__ import annotations

import math
from typing import Any

from parsers.model import ResultTable
from parsers.model.units import three_digits
from viewer.reports.rendering.blocks import Table
from viewer.reports.rendering.terminal_report import table_lines

MAX_SHOWN = 12


def table_text(table: ResultTable) -> list[str]:
    """Title, header and the first rows, columns aligned."""
    texts = tuple(
        index
        for index in range(len(table.columns))
        if all(isinstance(row[index], str) or row[index] is None for row in table.rows)
    )
    rows = [tuple(_cell(cell) for cell in row) for row in table.rows[:MAX_SHOWN]]
    left = len(table.rows) - len(rows)
    headings = tuple(column.title for column in table.columns)
    return table_lines(Table(table.title, headings, rows, left, prose=texts))


def table_json(table: ResultTable) -> dict[str, Any]:
    """A table as plain values."""
    return {
        "title": table.title,
        "columns": [{"name": column.name, "unit": column.unit} for column in table.columns],
        "rows": [
            [None if isinstance(cell, float) and not math.isfinite(cell) else cell for cell in row]
            for row in table.rows
        ],
    }


def figure(value: float) -> str:
    """A number as it is shown in a table: whole ones whole."""
    if not math.isfinite(value):
        return "-"
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e15 else three_digits(value)


def _cell(cell: str | float | None) -> str:
    return "-" if cell is None else cell if isinstance(cell, str) else figure(cell)
