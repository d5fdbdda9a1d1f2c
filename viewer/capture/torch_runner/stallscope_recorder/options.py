"""What one recording is asked to do, as read from the command line of the runner."""

from __future__ import annotations

import argparse
import sys
from typing import List, NamedTuple, Optional, Tuple

STEP_SOURCES = ("auto", "optimizer", "dataloader", "backward", "forward", "region", "whole")
RECORDERS = ("torch", "cuda-range", "trial")


class Options(NamedTuple):
    """One recording: where to, which steps of what, and with which extras."""

    out: str
    name: str
    recorder: str = "torch"
    steps: str = "auto"
    region: str = ""
    skip_first: int = 5
    wait: int = 0
    warmup: int = 2
    active: int = 5
    repeat: int = 1
    delay: float = 0.0
    time_limit: float = 60.0
    shapes: bool = False
    stacks: bool = False
    memory: bool = False
    phases: bool = True
    modules: bool = False
    keep_running: bool = False
    status: str = "text"
    control: str = ""
    trial: str = ""
    when_slow: float = 0.0
    incidents: int = 6

    @property
    def before_recording(self) -> int:
        """Steps that pass before the first recorded one."""
        return self.skip_first + self.wait + self.warmup

    @property
    def all_steps(self) -> int:
        """Steps after which everything asked for is recorded; no number of steps is, where slow ones are waited for."""
        if self.when_slow:
            return sys.maxsize
        return self.skip_first + (self.wait + self.warmup + self.active) * self.repeat


def parse(arguments: List[str]) -> Tuple[Options, List[str]]:
    """Options and the target's own words, which follow ``--`` and are left exactly as they are."""
    if "--" not in arguments:
        own, target = arguments, arguments[:0]
    else:
        at = arguments.index("--")
        own, target = arguments[:at], arguments[at + 1 :]
    parser = _parser()
    read = parser.parse_args(own)
    if not target:
        parser.error("name the script after --, as in: torch_runner --out DIR -- train.py --epochs 1")
    if read.active < 1 or read.repeat < 1:
        parser.error("--active and --repeat are at least 1")
    if (read.recorder == "trial") != bool(read.trial):
        parser.error("--recorder trial and --trial go together")
    if read.when_slow and (read.when_slow <= 1 or read.recorder != "torch" or read.steps == "whole"):
        parser.error("--when-slow needs a factor above 1, and steps")
    read.keep_running = read.keep_running or bool(read.when_slow)
    if read.steps == "region" and not read.region:
        parser.error("--steps region needs --region NAME")
    return Options(**vars(read)), target


def _parser(prog: Optional[str] = "torch_runner") -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=prog, description=__doc__)
    default = Options("", "")
    parser.add_argument("--out", required=True, help="folder the recording is written into")
    parser.add_argument("--name", default="recording", help="how the recording's file name begins")
    parser.add_argument("--recorder", choices=RECORDERS, default=default.recorder)
    parser.add_argument("--steps", choices=STEP_SOURCES, default=default.steps, help="what ends a step")
    parser.add_argument(
        "--region", default="", help="name of the record_function or NVTX range that starts a step"
    )
    for count, text in (
        ("skip-first", "steps left alone at the start"),
        ("wait", "steps skipped before each warm-up"),
        ("warmup", "steps profiled and thrown away"),
        ("active", "steps recorded"),
        ("repeat", "how often wait, warm-up and recording are done"),
    ):
        parser.add_argument(
            "--" + count, type=int, default=getattr(default, count.replace("-", "_")), metavar="N", help=text
        )
    parser.add_argument("--delay", type=float, default=0.0, help="whole run: seconds before recording starts")
    parser.add_argument(
        "--time-limit", type=float, default=default.time_limit, help="longest recording in seconds"
    )
    for extra in ("shapes", "stacks", "memory", "modules", "keep-running"):
        parser.add_argument("--" + extra, action="store_true")
    parser.add_argument("--no-phases", dest="phases", action="store_false")
    parser.add_argument("--status", choices=("text", "lines", "none"), default=default.status)
    parser.add_argument("--trial", default="", metavar="JSON", help="changes to try, with --recorder trial")
    parser.add_argument(
        "--when-slow",
        type=float,
        default=default.when_slow,
        metavar="FACTOR",
        help="record only after a step that takes so many times as long as usual",
    )
    parser.add_argument(
        "--incidents", type=int, default=default.incidents, metavar="N", help="such recordings in an hour"
    )
    parser.add_argument("--control", default="", help="recording is finished as soon as this file exists")
    return parser
