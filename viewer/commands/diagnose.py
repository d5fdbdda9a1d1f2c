"""``stallscope diagnose``: says what is slow and why, as text, JSON or a page, and is a gate on findings."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parsers.model import TraceError
from viewer.terminal.console import complain, print_json, recording, terminal_progress, write
from viewer.terminal.exit_codes import DONE, GATE_FAILED, GATE_INCONCLUSIVE
from viewer.terminal.option_values import add_gates, add_thresholds, count, price, thresholds_of

if TYPE_CHECKING:
    from parsers.model import Progress
    from rules import Diagnosis
    from rules.analysis.analysis import Analysis
    from viewer.loading.ranks.opening import FilesOfRun


def declare(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("diagnose", help="say what is slow and why")
    add_options(parser)
    parser.add_argument("paths", nargs="+", metavar="PATH")


def add_options(parser: argparse.ArgumentParser) -> None:
    """All but the paths."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page that stands alone")
    parser.add_argument(
        "--tables", action="store_true", help="show every table, not only the rows that matter"
    )
    parser.add_argument(
        "--fail-on",
        choices=["high", "medium", "low"],
        help="exit with 1 on such a finding, with 3 where there is no GPU work, or no run, to judge",
    )
    add_gates(parser)
    add_thresholds(parser)
    parser.add_argument(
        "--cost-per-hour",
        type=price,
        metavar="PRICE",
        help="of one GPU, in any currency: say what idle GPUs cost",
    )
    parser.add_argument(
        "--workers",
        type=count,
        default=0,
        metavar="N",
        help="judge any number of ranks by summaries, made by N processes; default: one for each core",
    )
    parser.add_argument(
        "--scheduler",
        default="",
        metavar="ADDRESS",
        help="have the summaries made on this Dask cluster, such as tcp://host:8786; local starts one here",
    )
    parser.set_defaults(run=run)


def diagnose_files(paths: Sequence[Path]) -> int:
    """Print what is wrong in files of one run, as the command does without options."""
    parser = argparse.ArgumentParser()
    add_options(parser)
    return run(argparse.Namespace(**vars(parser.parse_args([])), paths=[str(path) for path in paths]))


def run(options: argparse.Namespace) -> int:
    """Diagnose; the exit code."""
    from rules import diagnosis_of
    from rules.analysis.analysis import Analysis

    progress = terminal_progress()
    if (many := _many_ranks(options, progress)) is not None:
        return _diagnose_many(many, options, progress)
    trace = recording(options.paths, progress.part(0.0, 0.7))
    analysis = Analysis(trace, thresholds_of(options))
    diagnosis = diagnosis_of(analysis, progress.part(0.7, 1.0))
    progress.step(1.0, "")
    if options.html:
        from viewer.reports.html_report import as_html

        write(options.html, as_html(trace, diagnosis, analysis, all_tables=options.tables))
    if options.json:
        from viewer.reports.json_report import as_json

        told = as_json(trace, diagnosis, analysis, options.cost_per_hour, all_tables=options.tables)
        print_json(told)
    else:
        from viewer.reports.text_report import as_text

        text = as_text(trace, diagnosis, analysis, options.cost_per_hour, all_tables=options.tables)
        sys.stdout.write(text)
    sys.stdout.flush()
    level = _level(options)
    return _gate(diagnosis, level, _why_unjudged(analysis, diagnosis)) if level else DONE


def _level(options: argparse.Namespace) -> str:
    stated: str = options.fail_on or ""
    return stated or (options.gates.fail_on.value if options.gates and options.gates.fail_on else "")


def _diagnose_many(files: FilesOfRun, options: argparse.Namespace, progress: Progress) -> int:
    """The same of a run of many ranks, by summaries."""
    from rules.summaries.diagnosis import diagnosis_of_many
    from viewer.loading.ranks.opening import Workers, open_many
    from viewer.reports.many_ranks_report import as_json, as_text

    if options.html:
        raise TraceError(
            options.html,
            "There is no page for a run of so many ranks.",
            "Leave --html out, or name a few of its ranks.",
        )
    workers = Workers(options.workers, options.scheduler)
    run = open_many(files, progress.part(0.05, 0.9), thresholds_of(options), workers)
    facts, diagnosis = diagnosis_of_many(run, progress.part(0.9, 1.0))
    progress.step(1.0, "")
    if options.json:
        print_json(as_json(facts, diagnosis))
    else:
        sys.stdout.write(as_text(facts, diagnosis))
    sys.stdout.flush()
    level = _level(options)
    return _gate(diagnosis, level, "") if level else DONE


def _many_ranks(options: argparse.Namespace, progress: Progress) -> FilesOfRun | None:
    """The files of a run of so many ranks that these are judged by summaries; None for others."""
    from viewer.loading.ranks.opening import FilesOfRun, files_of_many
    from viewer.loading.ranks.remote_files import is_address, listed

    if any(is_address(name) for name in options.paths):
        return FilesOfRun(tuple(each for name in options.paths for each in listed(name)), ())
    if "-" in options.paths:
        return None
    asked = bool(options.scheduler or options.workers)
    return files_of_many([Path(name) for name in options.paths], progress.part(0.0, 0.05), always=asked)


def _gate(diagnosis: Diagnosis, level: str, unjudged: str) -> int:
    """Fails on a finding of the level or above; what cannot be judged, for a reason, does not pass."""
    from rules import Severity

    levels = [each.value for each in Severity]
    loud = levels[: levels.index(level) + 1]
    found = [finding for finding in diagnosis.findings if finding.severity.value in loud]
    if found:
        complain(f"The gate failed: {found[0].title} [{found[0].severity}]{_and_more(len(found) - 1)}.")
        return GATE_FAILED
    if not unjudged and diagnosis.crashed:
        unjudged = f"these checks failed: {', '.join(sorted(diagnosis.crashed))}"
    if not unjudged:
        return DONE
    complain(f"The gate cannot decide: {unjudged}.")
    return GATE_INCONCLUSIVE


def _why_unjudged(analysis: Analysis, diagnosis: Diagnosis) -> str:
    from rules.wording.verdict import shows_no_run

    if not (len(analysis.trace.gpu_operations) or analysis.trace.kernels):
        return "no GPU work was recorded"
    return "what was recorded is no run" if shows_no_run(analysis, diagnosis) else ""


def _and_more(count: int) -> str:
    return f", and {count} more" if count else ""
