"""``stallscope attach``: takes up recordings that were left at another place when a connection broke."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from viewer.commands.capture import diagnose_and_keep
from viewer.terminal.capture_command import record_and_tell
from viewer.terminal.console import complain
from viewer.terminal.exit_codes import DONE

if TYPE_CHECKING:
    from viewer.capture.left_there import FarRun


def declare(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser(
        "attach", help="take up a recording that goes on elsewhere, and fetch what it recorded"
    )
    parser.add_argument("--on", default="", metavar="PLACE", help="where it runs (default: anywhere)")
    parser.add_argument("--no-diagnosis", action="store_true", help="only fetch")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Follow what was left, the oldest first; the exit code of the last."""
    from viewer.capture.left_there import far_runs

    left = [each for each in far_runs(options.on) if each.is_abandoned and not each.unwanted]
    if not left:
        complain("Nothing of ours goes on elsewhere.")
    code = DONE
    for each in left:
        code = _follow(each, options)
    return code


def _follow(left: FarRun, options: argparse.Namespace) -> int:
    print(
        f"stallscope: {left.request.target.program} on {left.request.on} (Ctrl+C: finish it now)",
        file=sys.stderr,
    )
    return record_and_tell(left.request, None if options.no_diagnosis else diagnose_and_keep, "", left)
