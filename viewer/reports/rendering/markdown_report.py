"""Reports as Markdown for comments and summaries of builds: GitHub's and GitLab's, names shown letter by letter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from parsers.model.late import regex
from viewer.appearance.plain_text import safe
from viewer.reports.rendering.blocks import Block, Cards, Changes, Chart, Form, Points, Report, Table, Text

MAX_CHANGES, MAX_FINDINGS = 5, 8
_MARKS = regex(r"[\\`*_{}\[\]|~$]|^[#+=-]|(?<=^\d)[.)](?=\s)|(?<=^\d\d)[.)](?=\s)")
_REFERENCES = regex(r"([@#])(?=\w)")  # sites turn these into links to people and to other threads


def plain(text: str) -> str:
    """``text`` as Markdown that shows it letter by letter, in one line."""
    apart = _REFERENCES.sub("\\1\N{ZERO WIDTH SPACE}", " ".join(safe(text).split()))
    shown = _MARKS.sub(r"\\\g<0>", apart).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return shown.replace("://", ":\N{ZERO WIDTH SPACE}//")


def as_markdown(report: Report) -> str:
    """What of a report has room in a comment; long tables are folded."""
    lines = [f"## {plain(report.lead or report.title)}", ""]
    lines += [f"**{plain(report.title)}**", ""] if report.lead else []
    for block in report.blocks:
        lines += _block(block) if block.form is Form.EVERYWHERE else []
    return "\n".join(lines).rstrip() + "\n"


def _block(block: Block) -> list[str]:
    match block:
        case Text():
            lines = [plain(line) for line in block.lines]
            return ["  \n".join(lines), ""] if any(lines) else []
        case Points():
            lines = [f"* {plain(line)}" for line in block.lines]
            return [*_heading(block.heading), *lines, ""] if lines else []
        case Changes():
            lines = [
                f"{number}. **{plain(each.title)}**: {plain(each.gives)}"
                for number, each in enumerate(block.items[:MAX_CHANGES], 1)
            ]
            return [*_heading(block.heading), *lines, ""] if lines else []
        case Cards():
            rows = [(each.severity, each.title, each.short) for each in block.items]
            return _table(Table("Findings", ("", "finding", "gives"), rows, few=MAX_FINDINGS))
        case Chart():
            return _table(block.table) if block.table is not None else []
        case Table():
            return _table(block)


def _heading(text: str) -> list[str]:
    return [f"### {plain(text)}", ""] if text else []


def _table(table: Table) -> list[str]:
    """Numbers are set to the right; an empty line follows."""
    if not table.rows:
        return []
    shown, left = table.rows[: table.few], table.left + max(len(table.rows) - table.few, 0)
    columns = table.columns or ("",) * len(table.rows[0])
    lines = [
        _row(columns),
        _row((":---" if not _is_number(cell) else "---:" for cell in shown[0]), plainly=False),
    ]
    lines += [*map(_row, shown), "", *([f"and {left:,} more", ""] if left else [])]
    if not table.folded:
        return [*_heading(table.heading), *lines]
    return [f"<details><summary>{plain(table.heading)}</summary>", "", *lines, "</details>", ""]


def _row(cells: Iterable[str] | Sequence[str], *, plainly: bool = True) -> str:
    return f"| {' | '.join(plain(cell) if plainly else cell for cell in cells)} |"


def _is_number(cell: str) -> bool:
    return cell[:1] in "0123456789+-<" and bool(cell) and cell[1:2] != " "
