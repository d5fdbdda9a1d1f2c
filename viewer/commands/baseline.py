"""``stallscope baseline``: keeps what a run costs under a name, to compare later runs with it."""

from __future__ import annotations

import argparse
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from viewer.terminal.console import complain, recording, terminal_progress
from viewer.terminal.exit_codes import DONE, GATE_FAILED
from viewer.terminal.option_values import add_gates, add_store, add_thresholds, thresholds_of

if TYPE_CHECKING:
    from viewer.user_data.history import Entry, History


def declare(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("baseline", help="save the figures of a run as a baseline for later runs")
    actions = parser.add_subparsers(required=True, metavar="save|list|remove")
    save = actions.add_parser("save", help="save a run under a name, to use as baseline:NAME")
    save.add_argument("name", metavar="NAME")
    save.add_argument("paths", nargs="+", metavar="PATH", help="the files of one run")
    save.add_argument(
        "--repeat", nargs="+", action="append", default=[], metavar="PATH", help="the files of a repeat run"
    )
    save.add_argument("--revision", default="", metavar="ID", help="the commit that was recorded")
    save.add_argument(
        "--reason", default="", metavar="TEXT", help="why a slower run is accepted; saved with the baseline"
    )
    add_gates(save)
    add_thresholds(save)
    save.set_defaults(run=_save)
    listed = actions.add_parser("list", help="list the saved baselines")
    listed.set_defaults(run=_list)
    remove = actions.add_parser("remove", help="delete a baseline and its history")
    remove.add_argument("name", metavar="NAME")
    remove.set_defaults(run=_remove)
    for each in (save, listed, remove):
        add_store(each)


def _history(options: argparse.Namespace) -> History:
    from viewer.user_data.history import History

    return History(options.store)


def _save(options: argparse.Namespace) -> int:
    """A run that is seen to be slower than the one before needs a reason."""
    from rules.analysis.analysis import Analysis
    from rules.comparison.gate import Outcome
    from rules.gates.against_kept import judgement_on
    from rules.gates.limits import Gates
    from viewer.reports.series_report import bounds
    from viewer.user_data.history import Entry, Series

    history, thresholds, progress = _history(options), thresholds_of(options), terminal_progress()
    files = [options.paths, *options.repeat]
    gates = options.gates or Gates()
    parts = [progress.part(number / len(files), (number + 1) / len(files)) for number in range(len(files))]
    runs = tuple(
        gates.figures_of(Analysis(recording(paths, part), thresholds))
        for paths, part in zip(files, parts, strict=True)
    )
    progress.step(1.0, "")
    former = history.entries(Series.BASELINE, options.name)
    if former and not options.reason:
        judgement = judgement_on(former[-1].runs, runs)
        if judgement.outcome is Outcome.SLOWER:
            complain(
                f"This run takes {bounds(judgement)} of the step time of baseline:{options.name}, which was not "
                "replaced. To accept the run anyway, say why with --reason."
            )
            return GATE_FAILED
    kept = history.keep(Entry(options.name, runs, revision=options.revision, reason=options.reason))
    print(_line(kept))
    return DONE


def _list(options: argparse.Namespace) -> int:
    from viewer.user_data.history import Series, names_of

    entries = _history(options).entries(Series.BASELINE)
    for name in names_of(entries):
        print(_line([each for each in entries if each.name == name][-1]))
    if not entries:
        complain("No baseline is saved. Save one with `stallscope baseline save NAME RUN`.")
    return DONE


def _remove(options: argparse.Namespace) -> int:
    from viewer.user_data.history import Series

    history = _history(options)
    history.latest(Series.BASELINE, options.name)
    print(f"{history.forget(Series.BASELINE, options.name)} forgotten")
    return DONE


def _line(entry: Entry) -> str:
    from parsers.model.units import duration
    from viewer.appearance.plain_text import one_line
    from viewer.reports.series_report import Point

    step = Point(entry.name, entry.runs).step_ns
    said = [
        f"{entry.name:<24}",
        f"{datetime.fromtimestamp(entry.saved):%Y-%m-%d %H:%M}",
        f"{duration(step)} a step" if step else "no steps",
        entry.revision,
        entry.reason,
        ", ".join(Path(path).name for run in entry.runs for path in run.files),
    ]
    return one_line("  ".join(part for part in said if part))
