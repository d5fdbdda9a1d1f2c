"""``stallscope attach``: records a program that already runs, and takes up what was left at another place."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from viewer.capture.request import CaptureRequest, Target, TargetKind, Window
from viewer.capture.storage import FarRun, far_runs
from viewer.capture.target_words import UnreadableCommand, read_running
from viewer.commands.capture import diagnose_and_keep
from viewer.terminal.capture_command import record_and_tell
from viewer.terminal.console import complain
from viewer.terminal.exit_codes import BAD_INPUT, DONE

EPILOG = """examples:
  KINETO_USE_DAEMON=1 python train.py      # how the program was started
  stallscope attach 1234
  stallscope attach --on ssh:me@gpu-box --steps 5 --times 3 1234
  stallscope attach --on ssh:me@gpu-box    # take up recordings that a broken connection left
The program goes on to its own end. Ctrl+C once stops asking, twice ends at once."""


def declare(commands: Any) -> None:
    """Add the command's parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "attach",
        help="record a program that already runs",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "process",
        nargs="?",
        default="",
        metavar="PID|JOB",
        help="process ID, or that of the launcher of all ranks; job:N for a Slurm job; any: whichever program asks",
    )
    parser.add_argument("--on", default="", metavar="PLACE", help="where it runs")
    parser.add_argument("--setup", default="", metavar="LINE", help="shell command that sets up Python there")
    parser.add_argument("--python", default="", metavar="PATH", help="path to Python 3.8 or newer there")
    parser.add_argument(
        "--steps", type=_number, default=5, metavar="N", help="steps in each recording (default 5)"
    )
    parser.add_argument("--times", type=_number, default=1, metavar="N", help="recordings (default 1)")
    parser.add_argument(
        "--wait", type=float, default=60.0, metavar="S", help="seconds to wait for the program (default 60)"
    )
    parser.add_argument("--out", default="", metavar="DIR", help="folder for the recordings")
    parser.add_argument("--journal", default="", metavar="NAME", help="name of the program in the journal")
    parser.add_argument("--no-diagnosis", action="store_true", help="only record")
    parser.set_defaults(run=run)


def _number(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 1000")
    return int(text)


def run(options: argparse.Namespace) -> int:
    """Record, or follow what was left, the oldest first; the exit code of the last."""
    from viewer.remote.names import PlaceProblem, find_place

    try:
        find_place(options.on)
    except PlaceProblem as problem:
        complain(problem)
        return BAD_INPUT
    if options.process:
        try:
            request = _request(options)
        except UnreadableCommand as problem:
            complain(problem)
            return BAD_INPUT
        return record_and_tell(
            request, None if options.no_diagnosis else _diagnose_last(options.times), options.journal
        )
    left = [each for each in far_runs(options.on) if each.can_be_fetched]
    if not left:
        complain("No recording is left to finish there. Name a process to record: stallscope attach PID.")
    code = DONE
    for each in left:
        code = _follow(each, options)
    return code


def _diagnose_last(times: int) -> Callable[[Sequence[Path], str], int]:
    """The diagnosis of the last of several recordings, which are no ranks of one run."""

    def diagnose(paths: Sequence[Path], journal: str) -> int:
        last = [path for path in paths if times > 1 and f".{times}." in path.name]
        return diagnose_and_keep(last or paths, journal)

    return diagnose


def _request(options: argparse.Namespace) -> CaptureRequest:
    from viewer.capture.interpreters import default_interpreter

    process = read_running(options.process)
    interpreter = options.python or ("" if options.on else default_interpreter(None))
    return CaptureRequest(
        target=Target(TargetKind.RUNNING, process, interpreter=interpreter),
        window=Window(active=options.steps, repeat=options.times, time_limit_s=options.wait),
        out=options.out,
        on=options.on,
        setup=options.setup,
    )


def _follow(left: FarRun, options: argparse.Namespace) -> int:
    print(
        f"stallscope: {left.request.target.program} on {left.request.on} (Ctrl+C: finish it now)",
        file=sys.stderr,
    )
    return record_and_tell(
        left.request, None if options.no_diagnosis else diagnose_and_keep, options.journal, left
    )
