"""Tables of results as text for a terminal and as plain values."""

from __future__ import annotations

import math
from typing import Any

from parsers.model import ResultTable
from parsers.model.units import three_digits

MOST_SHOWN = 12
_WIDEST = 40


def table_text(table: ResultTable) -> list[str]:
    """Title, header and the first rows, columns aligned."""
    rows = [[_cell(cell) for cell in row] for row in table.rows[:MOST_SHOWN]]
    grid = [[_shortened(column.title) for column in table.columns], *rows]
    widths = [max(len(row[place]) for row in grid) for place in range(len(table.columns))]
    texts = [
        all(isinstance(row[place], str) or row[place] is None for row in table.rows)
        for place in range(len(table.columns))
    ]
    lines = [
        "  "
        + "  ".join(
            cell.ljust(width) if is_text else cell.rjust(width)
            for cell, width, is_text in zip(row, widths, texts, strict=True)
        ).rstrip()
        for row in grid
    ]
    left = len(table.rows) - MOST_SHOWN
    return [f"{table.title}:", *lines, *([f"  and {left:,} more rows (see --json)"] if left > 0 else []), ""]


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
    if cell is None:
        return "-"
    return _shortened(cell) if isinstance(cell, str) else figure(cell)


def _shortened(text: str) -> str:
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"
