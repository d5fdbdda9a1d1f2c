"""``stallscope query``: answers a question in SQL, or a ready-made one by name, as a table, CSV, JSON or Parquet."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parsers.model import Progress, TraceError
from parsers.model.units import size
from viewer.loading.questions import ENDINGS, all_rows
from viewer.query.limits import MAX_MEMORY, MAX_SECONDS, Limits
from viewer.terminal.console import NamesOutput, inputs, json_text, not_written, terminal_progress
from viewer.terminal.exit_codes import DONE
from viewer.terminal.option_values import memory, seconds

if TYPE_CHECKING:
    import pandas as pd

    from rules.analysis.analysis import Analysis
    from viewer.query.result import Result


_MAX_PRINTED = 40
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
    parser.add_argument("--list", action="store_true", help="list the ready-made questions and the tables")
    parser.add_argument("--format", choices=_FORMS, default="table", help="output format")
    parser.add_argument(
        "--out",
        action=NamesOutput,
        metavar="FILE",
        help="write all rows into a .csv, .json or .parquet file instead",
    )
    parser.add_argument(
        "--rows",
        type=int,
        metavar="N",
        help=f"print at most this many rows (default: {_MAX_PRINTED} of a table)",
    )
    parser.add_argument(
        "--time-limit",
        type=seconds,
        default=MAX_SECONDS,
        metavar="SECONDS",
        help=f"time limit for the query, not counting the time to read the recording ({MAX_SECONDS:g})",
    )
    parser.add_argument(
        "--memory-limit",
        type=memory,
        default=MAX_MEMORY,
        metavar="SIZE",
        help=f"memory limit for the query, such as 500MB ({size(MAX_MEMORY)})",
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
    if options.out is not None and options.out.suffix.lower() not in ENDINGS:
        raise TraceError(
            options.out, "The ending of the file says its format.", "Use .csv, .json or .parquet."
        )
    from viewer.loading.recording_process import AskedRecording
    from viewer.query.errors import LimitReached, QueryError
    from viewer.query.questions import sql_of
    from viewer.remote.addresses import bring_here
    from viewer.user_data.storage import write_pieces

    progress = terminal_progress()
    paths = inputs(words[:-1])
    bring_here(paths, progress.part(0.0, 0.3))
    asked = AskedRecording([paths], Limits(options.time_limit, options.memory_limit))
    try:
        sql = sql_of(words[-1])
        if options.out is not None:
            pieces = asked.pieces(all_rows, progress, sql=sql, ending=options.out.suffix.lower())
            try:
                write_pieces(options.out, pieces)
            except OSError as error:
                raise not_written(options.out, error) from error
            print(options.out)
        else:
            for piece in asked.pieces(rows, progress, sql=sql, form=options.format, most=options.rows):
                sys.stdout.write(piece.decode())
    except QueryError as error:
        hint = error.hint
        if isinstance(error, LimitReached):
            hint = f"Narrow it, or raise the limit with {error.option}."
        raise TraceError(Path(words[0]), error.problem, hint) from None
    finally:
        asked.close()
        progress.step(1.0, "")
    return DONE


def rows(analysis: Analysis, progress: Progress, sql: str, form: str, most: int | None) -> Iterator[bytes]:
    """The answer as it is printed; for the process that holds the recording."""
    from viewer.query.database import database_of

    if most is None and form == "table":
        most = _MAX_PRINTED
    return _FORMS[form](database_of(analysis).run(sql, most, progress))


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
    lines += ["", "Tables, one row per item:"]
    for name, table in row_tables().items():
        lines.append(f"  {name:<20} {table.about}")
        lines.append(f"  {'':<20} {', '.join(column.name for column in described(name))}")
    lines += ["", "Summaries of the analysed window:"]
    for name, summary in summaries().items():
        lines.append(f"  {name:<20} {summary.about}")
        lines.append(f"  {'':<20} {', '.join(column.name for column in summary.columns)}")
    lines += ["", "Views and functions:"]
    lines += [f"  {name:<20} {view.about}" for name, view in {**VIEWS, **FUNCTIONS}.items()]
    return lines[1:]


def _csv(result: Result) -> Iterator[bytes]:
    from viewer.query.result import in_text
    from viewer.reports.conversion.tables import pieces_of

    return pieces_of(in_text(result.frame), ".csv")


def _rows_of(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    from viewer.reports.tables_report import plain

    return list(zip(*(plain(frame.iloc[:, index].tolist()) for index in range(frame.shape[1])), strict=True))


def _json(result: Result) -> Iterator[bytes]:
    told = {
        "columns": list(map(str, result.frame.columns)),
        "rows": _rows_of(result.frame),
        "rows_in_all": result.rows,
    }
    yield json_text(told).encode()


def _table(result: Result) -> Iterator[bytes]:
    from viewer.appearance.plain_text import one_line
    from viewer.query.result import in_text

    rows = _rows_of(in_text(result.frame))
    for line in _aligned([str(name) for name in result.frame.columns], rows):
        yield f"{one_line(line)}\n".encode(errors="replace")
    left = result.rows - len(rows)
    yield f"{result.rows:,} rows{f', {left:,} of them not printed' if left else ''}\n".encode()


def _aligned(names: list[str], rows: list[tuple[Any, ...]]) -> list[str]:
    """Columns side by side, numbers to the right."""
    cells = [[_cell(value) for value in row] for row in rows]
    is_text = [all(isinstance(row[index], str) for row in rows) for index in range(len(names))]
    widths = [max([len(name), *(len(row[index]) for row in cells)]) for index, name in enumerate(names)]
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


_FORMS = {"table": _table, "csv": _csv, "json": _json}
