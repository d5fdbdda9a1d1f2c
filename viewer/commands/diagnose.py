"""``stallscope diagnose``: says what is slow and why, as text, JSON or a page, and is a gate on findings."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from viewer.terminal.console import complain, print_json, recording, terminal_progress, write
from viewer.terminal.exit_codes import DONE, GATE_FAILED, GATE_INCONCLUSIVE
from viewer.terminal.option_values import add_thresholds, price, thresholds_of

if TYPE_CHECKING:
    from parsers.model import Trace
    from rules import Diagnosis


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
        "--fail-on",
        choices=["high", "medium", "low"],
        help="exit with 1 on such a finding, with 3 where there is no GPU work to judge",
    )
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

        write(options.html, as_html(trace, diagnosis, analysis))
    if options.json:
        from viewer.reports.json_report import as_json

        print_json(as_json(trace, diagnosis, analysis, options.cost_per_hour))
    else:
        from viewer.reports.text_report import as_text

        sys.stdout.write(as_text(trace, diagnosis, analysis, options.cost_per_hour))
    sys.stdout.flush()
    return _gate(trace, diagnosis, options.fail_on) if options.fail_on else DONE


def _gate(trace: Trace, diagnosis: Diagnosis, level: str) -> int:
    from rules import Severity

    levels = [each.value for each in Severity]
    loud = levels[: levels.index(level) + 1]
    if any(finding.severity.value in loud for finding in diagnosis.findings):
        return GATE_FAILED
    if not (len(trace.gpu_operations) or trace.kernels):
        complain("The gate cannot decide: no GPU work was recorded.")
        return GATE_INCONCLUSIVE
    return DONE
