"""Reports as text for a terminal."""

from __future__ import annotations

import textwrap

from viewer.appearance.plain_text import joined
from viewer.reports.rendering.blocks import Block, Cards, Changes, Chart, Form, Points, Report, Table, Text

WIDTH = 96
MAX_CARDS = 6
MAX_NAME = 44


def wrapped(text: str, first: str = "", others: str = "") -> list[str]:
    """Lines as wide as a page; ``first`` stands before the first line, ``others`` before each other one."""
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=others)


def as_terminal_text(report: Report) -> str:
    """What of a report has room on a screen."""
    lines = [*wrapped(report.title), ""]
    for block in report.blocks:
        lines += _block(block) if block.form is Form.EVERYWHERE else []
    return joined(lines)


def _block(block: Block) -> list[str]:
    match block:
        case Text():
            return [*(line for each in block.lines for line in wrapped(each)), ""]
        case Points():
            return _points(block)
        case Changes():
            lines = [f"{number}. {each.title}: {each.gives}" for number, each in enumerate(block.items, 1)]
            return [f"{block.heading}:", *lines, ""] if lines else []
        case Cards():
            return _cards(block)
        case Chart():
            return table_lines(block.table) if block.table is not None else []
        case Table():
            return table_lines(block)


def _points(block: Points) -> list[str]:
    lines = [line for each in block.lines for line in wrapped(each, "  ", "    ")]
    return [*([f"{block.heading}:"] if block.heading else []), *lines, ""] if lines else []


def _cards(block: Cards) -> list[str]:
    lines = []
    for number, card in enumerate(block.items[:MAX_CARDS], 1):
        lines.append(f"{number}. {card.title}  [{card.severity}]")
        lines += wrapped(card.explanation, "   ", "   ")
        for advice in card.advice[:1]:
            lines += wrapped(advice, "   -> ", "      ")
        lines.append("")
    left = len(block.items) - MAX_CARDS
    return [*lines, f"and {left} smaller findings (see --json)", ""] if left > 0 else lines


def table_lines(table: Table) -> list[str]:
    """The first rows with columns aligned; long names are shortened, but for those at the end of a line."""
    if not table.rows:
        return []
    last = len(table.rows[0]) - 1
    rows = [table.columns, *table.rows[: table.few]] if any(table.columns) else table.rows[: table.few]
    grid = [
        tuple(_shortened(cell, WIDTH if index == last > 0 else MAX_NAME) for index, cell in enumerate(row))
        for row in rows
    ]
    widths = [max(len(row[index]) for row in grid) for index in range(last + 1)]
    lines = [
        "  "
        + "  ".join(
            cell.ljust(width) if index in table.prose else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in grid
    ]
    left = table.left + max(len(table.rows) - table.few, 0)
    more = [f"  and {left:,} more"] if left else []
    return [*([f"{table.heading}:"] if table.heading else []), *lines, *more, ""]


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
