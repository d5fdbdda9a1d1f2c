"""``stallscope whatif``: says how fast it would be with some fixes."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from parsers.model import TraceError
from viewer.terminal.console import inputs, print_json, terminal_progress
from viewer.terminal.exit_codes import DONE
from viewer.terminal.option_values import add_thresholds, thresholds_of


def declare(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("whatif", help="say how fast it would be with some fixes")
    parser.add_argument("paths", nargs="+", metavar="PATH")
    parser.add_argument(
        "--fix",
        action="append",
        default=[],
        metavar="ID",
        help="a fix that `stallscope diagnose` names; several are predicted together",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_thresholds(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Predict; the exit code."""
    from rules import diagnosis_of
    from rules.analysis.analysis import Analysis
    from rules.fixes.plan import plan_of
    from viewer.loading.loader import read_apart
    from viewer.reports.fixes_report import fixes_json, fixes_text, outcome_json, outcome_text

    progress = terminal_progress()
    paths = inputs(options.paths)
    analysis = Analysis(read_apart(paths, progress.part(0.0, 0.7)), thresholds_of(options))
    plan = plan_of(analysis)
    progress.step(1.0, "")
    if not options.fix:
        if options.json:
            print_json(fixes_json(analysis, diagnosis_of(analysis)))
        else:
            sys.stdout.write("\n".join(fixes_text(analysis)))
        return DONE
    try:
        chosen = plan.chosen(options.fix)
    except KeyError as error:
        known = ", ".join(each.id for each in plan.promises) or plan.reason or "none"
        raise TraceError(
            paths[0], f"There is no fix {error.args[0]!r} here.", f"Known are: {known}."
        ) from None
    outcome = plan.predict(options.fix)
    if options.json:
        print_json(outcome_json(plan, outcome, chosen))
    else:
        sys.stdout.write(outcome_text(plan, outcome, chosen))
    return DONE
