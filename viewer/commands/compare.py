"""``stallscope compare``: says what changed between two runs, or along a series, and is a gate on what got worse."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parsers.model.late import dataclass
from viewer.terminal.console import complain, print_json, recording, terminal_progress
from viewer.terminal.exit_codes import DONE, GATE_FAILED, GATE_INCONCLUSIVE
from viewer.terminal.option_values import (
    add_gates,
    add_reports,
    add_store,
    add_thresholds,
    files_asked_for,
    items,
    limit,
    thresholds_of,
    write_reports,
)

if TYPE_CHECKING:
    from parsers.model import Progress
    from rules.comparison.compare import Comparison
    from rules.gates.judging import Answer
    from rules.gates.limits import Gates
    from rules.terms import Thresholds
    from viewer.reports.report_files import Makers

KEPT = "baseline:"
USAGE = """stallscope compare BEFORE AFTER [options]
       stallscope compare --before PATH... --after PATH... [options]
       stallscope compare --series RUN... [options]"""


def declare(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser(
        "compare", help="show what changed between two recordings", usage=USAGE, allow_abbrev=False
    )
    parser.add_argument("runs", nargs="*", metavar="RUN", help=f"two recordings; the first may be {KEPT}NAME")
    for side in ("before", "after"):
        parser.add_argument(
            f"--{side}",
            nargs="+",
            action="append",
            default=[],
            metavar="PATH",
            help="the files of one run; repeat the option for each further run of it",
        )
    parser.add_argument("--series", nargs="+", default=[], metavar="RUN", help="several runs, oldest first")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_reports(parser)
    parser.add_argument(
        "--fail-on-regression",
        type=limit,
        action="append",
        default=[],
        metavar="LIMIT",
        help="exit with 1 when the mean step got longer by this much (5 or 5%%), or something else got worse "
        "(launches=0, memory-peak=10%%, kernel:NAME=5%%, ...), with 3 when the noise, or what the recordings lack, "
        "does not allow to say; may be repeated",
    )
    add_gates(parser)
    parser.add_argument(
        "--per-step-items",
        type=items,
        metavar="N",
        help="items of one step, such as the batch, for a limit on throughput; BEFORE,AFTER where they differ",
    )
    add_thresholds(parser)
    add_store(parser)
    parser.set_defaults(run=lambda options: run(parser, options))


def run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    """Compare; the exit code."""
    from rules.comparison.comparable import Incomparable

    gates, thresholds = _gates(options), thresholds_of(options)
    if options.series:
        if options.runs or options.before or options.after:
            parser.error("--series names all runs and takes no other recordings")
        return _series(options, gates, thresholds)
    sides = _sides(parser, options)
    progress = terminal_progress()
    try:
        result, answers = _compared(sides, gates, thresholds, progress)
    except Incomparable as error:
        if not gates.limits:
            raise
        _report_refusal(options, gates, str(error))
        return GATE_INCONCLUSIVE
    progress.step(1.0, "")
    return _report(options, result, answers)


def _gates(options: argparse.Namespace) -> Gates:
    """The limits of the file and of the command line."""
    from rules.gates.limits import Gates

    kept: Gates = options.gates or Gates()
    return replace(
        kept, limits=(*kept.limits, *options.fail_on_regression), items=options.per_step_items or kept.items
    )


@dataclass(frozen=True, slots=True)
class _Sides:
    """The files of each run of a side, the first of which is shown; ``kept`` is a baseline's name in their place."""

    before: list[list[str]]
    after: list[list[str]]
    kept: str = ""
    store: Path | None = None


def _sides(parser: argparse.ArgumentParser, options: argparse.Namespace) -> _Sides:
    if options.runs and (options.before or options.after):
        parser.error("name the two runs either as BEFORE AFTER or with --before and --after")
    if options.runs and len(options.runs) != 2:
        parser.error(
            "compare needs two runs: BEFORE AFTER; several files of one run: --before PATH... --after PATH..."
        )
    before = options.before or [[each] for each in options.runs[:1]]
    after = options.after or [[each] for each in options.runs[1:]]
    if not before or not after:
        parser.error("compare needs two runs: BEFORE AFTER, or --before PATH... --after PATH...")
    named = [path for files in (*before, *after) for path in files if path.startswith(KEPT)]
    if not named or Path(named[0]).exists():
        return _Sides(before, after)
    if before != [named]:
        parser.error(f"{named[0]} can only be BEFORE, and must be the only recording there")
    return _Sides([], after, named[0].removeprefix(KEPT), options.store)


def _compared(
    sides: _Sides, gates: Gates, thresholds: Thresholds, progress: Progress
) -> tuple[Comparison, list[Answer]]:
    from rules.analysis.analysis import Analysis
    from rules.comparison.compare import compare
    from rules.gates.against_kept import compare_with_kept
    from rules.gates.judging import judge
    from viewer.user_data.history import History, Series

    count = len(sides.before) + len(sides.after)
    parts = iter([progress.part(number / count, (number + 1) / count) for number in range(count)])
    traces = [recording(files[0], next(parts)) for files in (sides.before, sides.after) if files]
    before = [gates.figures_of(Analysis(traces[0], thresholds))] if sides.before else []
    after = [gates.figures_of(Analysis(traces[-1], thresholds))]
    for runs, files_of_runs in ((before, sides.before[1:]), (after, sides.after[1:])):
        runs += [
            gates.figures_of(Analysis(recording(files, next(parts)), thresholds)) for files in files_of_runs
        ]
    if sides.kept:
        before = list(History(sides.store).latest(Series.BASELINE, sides.kept).runs)
        result = compare_with_kept(before, f"{KEPT}{sides.kept}", traces[0], after[1:], thresholds)
    else:
        more = [run.steps for run in before[1:]], [run.steps for run in after[1:]]
        result = compare(traces[0], traces[1], thresholds, more)
    return result, judge(gates, before, after, result.judgement)


def _report_refusal(options: argparse.Namespace, gates: Gates, why: str) -> None:
    """A build server hears of two recordings that cannot be set against each other as of any other answer."""
    from rules.comparison.gate import Decision
    from rules.gates.judging import Answer

    complain(why)
    answers = [Answer(each, Decision.INCONCLUSIVE, why) for each in gates.limits]
    _write(options, {}, why, answers)


def _report(options: argparse.Namespace, result: Comparison, answers: Sequence[Answer]) -> int:
    from viewer.reports.comparison_blocks import as_text
    from viewer.reports.comparison_report import as_json

    if files_asked_for(options):
        from viewer.reports.report_files import comparison_files

        _write(options, comparison_files(result, answers), result.verdict, answers)
    return _answer(options, as_json(result), as_text(result), answers)


def _write(options: argparse.Namespace, makers: Makers, verdict: str, answers: Sequence[Answer]) -> None:
    from viewer.reports.gate_report import comparison_junit

    junit = comparison_junit(verdict, answers).encode("utf-8", "replace")
    write_reports(options, {**makers, "junit": lambda: junit})


def _answer(options: argparse.Namespace, json: dict[str, Any], text: str, answers: Sequence[Answer]) -> int:
    """Print the result and what the gate says; the exit code."""
    from rules.comparison.gate import Decision
    from rules.gates.judging import overall
    from viewer.reports.gate_report import gate_json

    if options.json:
        print_json({**json, **gate_json(answers)})
    else:
        sys.stdout.write(text)
    sys.stdout.flush()
    for answer in answers:
        complain(answer.why)
    if not answers:
        return DONE
    return {Decision.PASSED: DONE, Decision.FAILED: GATE_FAILED, Decision.INCONCLUSIVE: GATE_INCONCLUSIVE}[
        overall(answers)
    ]


def _series(options: argparse.Namespace, gates: Gates, thresholds: Thresholds) -> int:
    """A table of runs in their order; the gate is on the last against the first."""
    from rules.analysis.analysis import Analysis
    from rules.gates.against_kept import judgement_on
    from rules.gates.judging import judge
    from viewer.reports.comparison_blocks import trend_report
    from viewer.reports.rendering.terminal_report import as_terminal_text
    from viewer.reports.series_report import Point, series_json

    progress = terminal_progress()
    count = len(options.series)
    runs = [
        gates.figures_of(
            Analysis(recording([path], progress.part(number / count, (number + 1) / count)), thresholds)
        )
        for number, path in enumerate(options.series)
    ]
    progress.step(1.0, "")
    points = [Point(path, (run,)) for path, run in zip(options.series, runs, strict=True)]
    judgement = judgement_on(runs[:1], runs[-1:])
    answers = judge(gates, runs[:1], runs[-1:], judgement)
    if files_asked_for(options):
        from viewer.reports.report_files import trend_files

        verdict = f"The last run of the series: {judgement.outcome.value}"
        _write(options, trend_files("a series of runs", points), verdict, answers)
    text = as_terminal_text(trend_report("a series of runs", points))
    return _answer(options, series_json(points), text, answers)
