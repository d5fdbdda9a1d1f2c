"""``stallscope query``: answers a question in SQL, or a ready-made one by name, as a table, CSV, JSON or Parquet."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parsers.model import TraceError
from viewer.terminal.console import not_written, recording, terminal_progress
from viewer.terminal.exit_codes import DONE

if TYPE_CHECKING:
    from viewer.query.database import Result

FORMATS = ("table", "csv", "json")
_MOST_PRINTED = 40
_WIDEST = 48


def declare(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser(
        "query",
        help="answer a question in SQL",
        description="Answers one SELECT over the tables of a recording, or a ready-made question by its name, such as "
        "cuda_gpu_kern_sum. --list names questions and tables, with their columns.",
    )
    parser.add_argument(
        "words",
        nargs="*",
        metavar="PATH ... SQL",
        help="a recording, then one SELECT or the name of a question",
    )
    parser.add_argument("--list", action="store_true", help="name the ready-made questions and the tables")
    parser.add_argument("--format", choices=FORMATS, default="table", help="how to print it")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write all rows into a .csv, .json or .parquet file instead"
    )
    parser.add_argument(
        "--rows",
        type=int,
        metavar="N",
        help=f"print at most so many rows (otherwise {_MOST_PRINTED} of a table)",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Answer; the exit code."""
    if options.list:
        print("\n".join(_listed()))
        return DONE
    words = options.words
    if len(words) < 2:
        raise TraceError(
            Path(words[0] if words else "query"),
            "A recording and a question are needed.",
            'Write it like: stallscope query trace.json.gz "select * from kernels limit 5".',
        )
    from rules.analysis.analysis import Analysis
    from viewer.query.database import database_of
    from viewer.query.errors import QueryError
    from viewer.query.questions import sql_of
    from viewer.reports.conversion.tables import ENDINGS, write_frame

    progress = terminal_progress()
    if options.out is not None and options.out.suffix.lower() not in ENDINGS:
        raise TraceError(
            options.out, "The ending of the file says its format.", "Use .csv, .json or .parquet."
        )
    try:
        sql = sql_of(words[-1])
        analysis = Analysis(recording(words[:-1], progress.part(0.0, 0.8)))
        printed = _MOST_PRINTED if options.format == "table" else None
        most = None if options.out else options.rows if options.rows is not None else printed
        result = database_of(analysis).run(sql, most, progress.part(0.8, 0.99))
    except QueryError as error:
        raise TraceError(Path(words[0]), error.problem, error.hint) from None
    progress.step(1.0, "")
    if options.out is not None:
        try:
            write_frame(result.frame, options.out)
        except OSError as error:
            raise not_written(options.out, error) from error
        print(options.out)
    else:
        _print(result, options.format)
    return DONE


def _listed() -> list[str]:
    from viewer.query.questions import questions
    from viewer.query.views import FUNCTIONS, VIEWS
    from viewer.tables.table import described, row_tables, summaries

    lines = []
    group = ""
    for question in questions().values():
        if question.group != group:
            group = question.group
            lines += ["", f"{group}:"]
        lines.append(f"  {question.id:<24} {question.title}")
    lines += ["", "Tables, with one row a thing:"]
    for name, table in row_tables().items():
        lines.append(f"  {name:<20} {table.about}")
        lines.append(f"  {'':<20} {', '.join(column.name for column in described(name))}")
    lines += ["", "Summaries of the analysed time:"]
    for name, summary in summaries().items():
        lines.append(f"  {name:<20} {summary.about}")
        lines.append(f"  {'':<20} {', '.join(column.name for column in summary.columns)}")
    lines += ["", "Views and functions:"]
    lines += [f"  {name:<20} {view.about}" for name, view in {**VIEWS, **FUNCTIONS}.items()]
    return lines[1:]


def _print(result: Result, form: str) -> None:
    from viewer.reports.conversion.tables import without_formulas
    from viewer.reports.plain_text import safe
    from viewer.reports.tables_report import plain

    frame = result.frame
    if form == "csv":
        without_formulas(frame).to_csv(sys.stdout, index=False)
        return
    rows = list(zip(*(plain(frame.iloc[:, place].tolist()) for place in range(frame.shape[1])), strict=True))
    if form == "json":
        told = {"columns": list(map(str, frame.columns)), "rows": rows, "rows_in_all": result.rows}
        json.dump(told, sys.stdout, allow_nan=False, default=str)
        print()
        return
    for line in _aligned([str(name) for name in frame.columns], rows):
        print(safe(line))
    left = result.rows - len(rows)
    print(f"{result.rows:,} rows" + (f", {left:,} of them not printed" if left else ""))


def _aligned(names: list[str], rows: list[tuple[Any, ...]]) -> list[str]:
    """Columns side by side, numbers to the right."""
    cells = [[_cell(value) for value in row] for row in rows]
    is_text = [all(isinstance(row[place], str) for row in rows) for place in range(len(names))]
    widths = [max([len(name), *(len(row[place]) for row in cells)]) for place, name in enumerate(names)]
    return [
        "  ".join(
            word.ljust(width) if text else word.rjust(width)
            for word, width, text in zip(row, widths, is_text, strict=True)
        ).rstrip()
        for row in [names, *cells]
    ]


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.3f}".rstrip("0").rstrip(".")
    text = str(value).replace("\n", " ")
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"
