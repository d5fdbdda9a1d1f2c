"""``stallscope compare``: says what changed between two runs, and is a gate on what got worse."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from viewer.terminal.console import complain, print_json, recording, terminal_progress, write
from viewer.terminal.exit_codes import DONE, GATE_FAILED, GATE_INCONCLUSIVE
from viewer.terminal.option_values import add_thresholds, percentage, thresholds_of


def declare(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("compare", help="say what changed between two recordings")
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page that stands alone")
    parser.add_argument(
        "--fail-on-regression",
        type=percentage,
        metavar="PERCENT",
        help="exit with 1 when the mean step got longer by this much (5 or 5%%), "
        "with 3 when the noise, or what the recordings lack, does not allow to say",
    )
    add_thresholds(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compare; the exit code."""
    from rules.comparison.comparable import Incomparable
    from rules.comparison.compare import compare
    from rules.comparison.gate import Decision
    from viewer.reports.comparison_report import as_json, as_text

    progress = terminal_progress()
    before = recording([options.before], progress.part(0.0, 0.5))
    after = recording([options.after], progress.part(0.5, 1.0))
    progress.step(1.0, "")
    limit = options.fail_on_regression
    try:
        result = compare(before, after, thresholds_of(options))
    except Incomparable as error:
        if limit is None:
            raise
        complain(error)
        return GATE_INCONCLUSIVE
    if options.html:
        from viewer.reports.html_report import comparison_as_html

        write(options.html, comparison_as_html(result))
    if options.json:
        print_json(as_json(result))
    else:
        sys.stdout.write(as_text(result))
    if limit is None:
        return DONE
    sys.stdout.flush()
    decision, why = result.gate(limit)
    complain(why)
    codes = {
        Decision.PASSED: DONE,
        Decision.FAILED: GATE_FAILED,
        Decision.INCONCLUSIVE: GATE_INCONCLUSIVE,
    }
    return codes[decision]
