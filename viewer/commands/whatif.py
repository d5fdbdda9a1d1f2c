"""``stallscope whatif``: says how fast it would be with some fixes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parsers.model import TraceError
from viewer.terminal.console import json_text, recording, terminal_progress
from viewer.terminal.exit_codes import DONE
from viewer.terminal.kept_answers import Answer, Question, question_of
from viewer.terminal.option_values import add_thresholds, thresholds_of

if TYPE_CHECKING:
    from rules import Diagnosis
    from rules.analysis.analysis import Analysis
    from rules.fixes.plan import Plan


def declare(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("whatif", help="predict the speed-up from one or more fixes")
    parser.add_argument("paths", nargs="+", metavar="PATH")
    parser.add_argument(
        "--fix",
        action="append",
        default=[],
        metavar="ID",
        help="ID of a fix from `stallscope diagnose`; several are predicted together",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_thresholds(parser)
    parser.set_defaults(run=run, question=_question)


def _question(options: argparse.Namespace) -> Question | None:
    asked = {
        "command": "whatif",
        "json": options.json,
        "fixes": options.fix,
        "thresholds": dict(options.threshold),
    }
    return question_of(options.paths, asked)


def run(options: argparse.Namespace) -> int:
    """Predict; the exit code."""
    question = _question(options)
    from rules import Diagnosis, diagnosis_of
    from rules.analysis.analysis import Analysis
    from rules.fixes.plan import plan_of

    progress = terminal_progress()
    analysis = Analysis(recording(options.paths, progress.part(0.0, 0.7)), thresholds_of(options))
    plan = plan_of(analysis)
    progress.step(1.0, "")
    diagnosis = Diagnosis() if options.fix else diagnosis_of(analysis)
    answer = Answer(_printed(options, analysis, plan, diagnosis), DONE)
    if question is not None and not (plan.crashed or diagnosis.crashed):
        question.keep(answer, analysis.trace)
    return answer.tell()


def _printed(options: argparse.Namespace, analysis: Analysis, plan: Plan, diagnosis: Diagnosis) -> str:
    from viewer.capture.trials.records import trial_records
    from viewer.reports.fixes_report import fixes_json, fixes_text, outcome_json, outcome_text

    if not options.fix:
        records = trial_records(analysis.trace)
        if options.json:
            return json_text(fixes_json(analysis, diagnosis, records))
        return "\n".join(fixes_text(analysis, diagnosis, records))
    try:
        chosen = plan.chosen(options.fix)
    except KeyError as error:
        known = ", ".join(each.id for each in plan.promises) or plan.reason or "none"
        raise TraceError(
            Path(options.paths[0]),
            f"This recording has no fix {error.args[0]!r}.",
            f"Available fixes: {known}.",
        ) from None
    outcome = plan.predict(options.fix)
    if options.json:
        return json_text(outcome_json(plan, outcome, chosen))
    return outcome_text(plan, outcome, chosen)
