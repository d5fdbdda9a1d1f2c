"""``stallscope diagnose``: says what is slow and why, as text, JSON or a page, and is a gate on findings."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from viewer.terminal.console import complain, print_json, recording, terminal_progress, write
from viewer.terminal.exit_codes import DONE, GATE_FAILED, GATE_INCONCLUSIVE
from viewer.terminal.option_values import add_gates, add_thresholds, price, thresholds_of

if TYPE_CHECKING:
    from rules import Diagnosis
    from rules.analysis.analysis import Analysis


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
    level = options.fail_on or (
        options.gates.fail_on.value if options.gates and options.gates.fail_on else ""
    )
    return _gate(analysis, diagnosis, level) if level else DONE


def _gate(analysis: Analysis, diagnosis: Diagnosis, level: str) -> int:
    """Fails on a finding of the level or above; what cannot be judged does not pass."""
    from rules import Severity
    from rules.wording.verdict import shows_no_run

    levels = [each.value for each in Severity]
    loud = levels[: levels.index(level) + 1]
    found = [finding for finding in diagnosis.findings if finding.severity.value in loud]
    trace = analysis.trace
    if found:
        complain(f"The gate failed: {found[0].title} [{found[0].severity}]{_and_more(len(found) - 1)}.")
        return GATE_FAILED
    if not (len(trace.gpu_operations) or trace.kernels):
        why = "no GPU work was recorded"
    elif shows_no_run(analysis, diagnosis):
        why = "what was recorded is no run"
    elif diagnosis.crashed:
        why = f"these checks failed: {', '.join(sorted(diagnosis.crashed))}"
    else:
        return DONE
    complain(f"The gate cannot decide: {why}.")
    return GATE_INCONCLUSIVE


def _and_more(count: int) -> str:
    return f", and {count} more" if count else ""
