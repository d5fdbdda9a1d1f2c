"""``stallscope trend``: how the runs that were kept under a name differ, in their order."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from viewer.appearance.plain_text import one_line
from viewer.terminal.console import print_json
from viewer.terminal.exit_codes import DONE
from viewer.terminal.option_values import add_reports, add_store, files_asked_for, write_reports

if TYPE_CHECKING:
    from viewer.reports.rendering.blocks import Report
    from viewer.user_data.history import History


def declare(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("trend", help="show how the saved runs of a program changed over time")
    parser.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help="a baseline, or a program recorded by `capture`; lists the names if omitted",
    )
    parser.add_argument(
        "--promises",
        action="store_true",
        help="show how well predictions held on this machine, by fix, over all saved trials",
    )
    parser.add_argument(
        "--incidents",
        action="store_true",
        help="list the slow steps that `capture torch --when-slow` recorded",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_reports(parser, ("html", "pdf", "markdown"))
    add_store(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the trend; the exit code."""
    from viewer.reports.comparison_blocks import trend_report
    from viewer.reports.series_report import points_of, series_json
    from viewer.user_data.history import History, Series, names_of

    history = History(options.store)
    if options.promises:
        return _print_promises(options, history)
    if options.incidents:
        return _print_incidents(options, history)
    if options.name is None:
        names = [name for series in Series for name in names_of(history.entries(series))]
        print("\n".join(one_line(name) for name in names) or "Nothing is saved yet.")
        return DONE
    entries = history.entries(Series.BASELINE, options.name) or history.entries(Series.PROGRAM, options.name)
    if not entries:
        history.latest(Series.BASELINE, options.name)
    points = points_of(entries)
    return _told(options, trend_report(options.name, points), series_json(points))


def _told(options: argparse.Namespace, report: Report, json: dict[str, Any]) -> int:
    from viewer.reports.rendering.terminal_report import as_terminal_text

    if files_asked_for(options):
        from viewer.reports.report_files import makers_of

        write_reports(options, makers_of(lambda: report))
    if options.json:
        print_json(json)
    else:
        sys.stdout.write(as_terminal_text(report))
    return DONE


def _print_incidents(options: argparse.Namespace, history: History) -> int:
    """When steps of one program, or of all, were slow, and how slow."""
    from datetime import datetime

    from viewer.user_data.history import Series

    entries = history.entries(Series.INCIDENT, options.name)
    if options.json:
        print_json({"incidents": [{"program": e.name, "saved": e.saved, "text": e.reason} for e in entries]})
        return DONE
    for entry in entries:
        when = datetime.fromtimestamp(entry.saved)
        print(f"{when:%Y-%m-%d %H:%M}  {one_line(entry.name)}: {one_line(entry.reason)}")
    if not entries:
        print("The journal contains no slow steps.")
    return DONE


def _print_promises(options: argparse.Namespace, history: History) -> int:
    """How well promises held in the trials of one program, or of all."""
    from rules.trials.record import records_by_fix
    from viewer.reports.promise_records import records_json, records_report
    from viewer.user_data.history import Series

    entries = history.entries(Series.TRIAL, options.name)
    records = records_by_fix(trial for entry in entries for trial in entry.trials)
    return _told(options, records_report(records), records_json(records))
