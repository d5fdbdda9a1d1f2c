"""``stallscope try``: makes changes in a running program, block by block, and says what each of them gives."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parsers.model import TraceError
from viewer.capture.request import CaptureProblem, CaptureRequest, Target, Window
from viewer.capture.target_words import UnreadableCommand
from viewer.terminal.capture_command import add_program, target_from
from viewer.terminal.console import NamesOutput, complain, inputs, json_text, terminal_progress, write_bytes
from viewer.terminal.exit_codes import BAD_INPUT, DONE, GATE_INCONCLUSIVE, INTERRUPTED
from viewer.terminal.interruption import run_stoppably
from viewer.terminal.option_values import add_reports, seconds, write_reports

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rules.fixes.plan import Promise
    from rules.trials.trial import Trials
    from viewer.capture.trials.source import Source
    from viewer.capture.trials.trying import Progress, Trying

FAILED = 1
MAX_BLOCKS = 100
_NO_STEPS = "A trial needs a few hundred steps; say what ends one (--steps), or which range begins one (--region NAME)."
EPILOG = """examples:
  stallscope try -- python train.py --epochs 1
  stallscope try --fix fuse-optimizer-1 --recording run.pt.trace.json.gz -- python train.py
  stallscope try --fix tf32 --fix num-workers --time-limit 60 -- python train.py
  stallscope try --on ssh:me@gpu-box -- torchrun --nproc_per_node=4 train.py
Ctrl+C once stops and tells what is known by then; twice kills the program."""


def declare(commands: Any) -> None:
    """Add the command's parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "try",
        help="try changes in a running script and measure the gain of each",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--fix",
        action="append",
        default=[],
        metavar="ID",
        help="fix or change to try; repeatable (default: all that apply)",
    )
    parser.add_argument(
        "--recording",
        nargs="+",
        default=[],
        metavar="PATH",
        help="a recording of the program, used to choose what to try first (default: record five steps)",
    )
    parser.add_argument(
        "--blocks",
        type=_blocks,
        default=6,
        metavar="N",
        help="timed blocks in each state, with and without the change (default 6)",
    )
    parser.add_argument(
        "--time-limit",
        type=seconds,
        default=120.0,
        metavar="S",
        help="time budget in seconds, including launches (default 120)",
    )
    parser.add_argument(
        "--no-losses",
        dest="losses",
        action="store_false",
        help="measure time only; don't check that results stay the same",
    )
    parser.add_argument(
        "--steps",
        choices=("auto", "optimizer", "dataloader", "backward", "forward", "region"),
        help="what ends a step",
    )
    parser.add_argument("--region", default="", metavar="NAME", help="range that begins a step")
    add_program(parser)
    parser.add_argument("--journal", default="", metavar="NAME", help="name of the program in the journal")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_reports(parser, ("markdown",))
    parser.add_argument(
        "--patch",
        action=NamesOutput,
        metavar="FILE",
        help="save the changes that helped as a patch; the script is not modified",
    )
    parser.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="python train.py ARGS"
    )
    parser.set_defaults(run=run)


def _blocks(text: str) -> int:
    if not text.isdecimal() or not 4 <= int(text) <= MAX_BLOCKS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of blocks from 4 to {MAX_BLOCKS}")
    return int(text)


def run(options: argparse.Namespace) -> int:
    """Try, print, keep; the exit code."""
    try:
        return _run(options)
    except (UnreadableCommand, CaptureProblem) as error:
        complain(error)
        return BAD_INPUT


def _run(options: argparse.Namespace) -> int:
    from parsers.files.private_folder import PrivateFolder
    from viewer.capture.elsewhere import check_place
    from viewer.capture.trials.choice import choice_of
    from viewer.capture.trials.launch import first_recording
    from viewer.capture.trials.trying import Trying, Wish
    from viewer.loading.promises import promises_if_any, promises_of

    request = _request(options)
    if not options.recording:
        _refuse_unknown(options.fix, choice_of)
    check_place(request)
    _note_what_a_trial_is(request, options.journal)
    folder = PrivateFolder()
    promises: Sequence[Promise] = ()
    if options.recording:
        promises = promises_of(inputs(options.recording), terminal_progress())
    else:
        complain("recording five steps to choose what to try first")
        recorded = first_recording(request, folder.path)
        outcome = run_stoppably(recorded.run, recorded.kill, recorded.kill, "stopping the program")
        if outcome.killed:
            complain("Stopped before anything was tried.")
            return INTERRUPTED
        if outcome.traceback:
            sys.stderr.write(outcome.traceback)
            complain(f"{outcome.problem or 'The script failed.'} {outcome.fix}".rstrip())
            return FAILED
        if outcome.retry is not None:
            complain(f"{outcome.problem} {_NO_STEPS}")
            return FAILED
        if outcome.recordings:
            promises = promises_if_any(outcome.recordings, terminal_progress())
    wish = Wish(request, tuple(options.fix), options.blocks, options.time_limit, options.losses)
    trying = Trying(wish, folder.path / "trial", promises, _Teller(quiet=options.json))
    trials = run_stoppably(trying.run, trying.stop, trying.kill, "stopping; results so far will be shown")
    if trying.killed:
        complain("The program was killed, so there are no results.")
        return INTERRUPTED
    return _tell(options, request, trying, trials)


def _tell(options: argparse.Namespace, request: CaptureRequest, trying: Trying, trials: Trials) -> int:
    from viewer.reports.rendering.markdown_report import as_markdown
    from viewer.reports.trial_report import trial_text, trials_json, trials_report

    title = Path(request.target.program).name
    sys.stderr.write(trying.traceback)
    if options.json:
        sys.stdout.write(json_text(trials_json(trials, trying.program)))
    else:
        sys.stdout.write(trial_text(trials))
    sys.stdout.flush()
    write_reports(options, {"markdown": lambda: as_markdown(trials_report(trials, title)).encode()})
    if options.patch is not None:
        _write_patch(options.patch, trying.source, trials)
    _keep(request, trials, options.journal)
    if trials.restless:
        return GATE_INCONCLUSIVE
    measured = any(each.gain is not None for each in trials.trials)
    return FAILED if trials.problem and not measured else DONE


def _write_patch(path: Path, source: Source, trials: Trials) -> None:
    """The lines of what won; where there are none, say why and write nothing."""
    from rules.verdict.trials import no_patch, unpatched

    patch = source.patch(trials.winners)
    if not patch.files:
        complain(no_patch(trials))
        return
    write_bytes(path, patch.diff.encode())
    if patch.missing:
        complain(unpatched(trials, patch.missing))


def _keep(request: CaptureRequest, trials: Trials, name: str) -> None:
    """A journal that cannot be written costs nothing but itself."""
    from viewer.capture.trials.journal import keep_trials

    try:
        keep_trials(request, trials, name)
    except TraceError as error:
        complain(error)


def _request(options: argparse.Namespace) -> CaptureRequest:
    from viewer.capture.trials.launch import trial_request

    target = target_from(options, Target())
    steps = options.steps or ("region" if options.region else "auto")
    if steps == "region" and not options.region:
        raise CaptureProblem("--steps region needs --region NAME.")
    window = Window(steps=steps, region=options.region)
    return trial_request(CaptureRequest(target=target, window=window, on=options.on, setup=options.setup))


def _refuse_unknown(asked: Sequence[str], choose: Any) -> None:
    """Before anything runs."""
    if asked:
        choose((), asked)


def _note_what_a_trial_is(request: CaptureRequest, name: str) -> None:
    from viewer.capture.trials.journal import was_tried
    from viewer.capture.trials.launch import runs_for_real

    try:
        if was_tried(request, name):
            return
    except TraceError:
        pass
    complain(
        f"{runs_for_real(request)} "
        "Use its own arguments or --env to keep those out of the way (--env WANDB_MODE=offline)."
    )


class _Teller:
    """One line a candidate on standard output, and on a terminal how far it is."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()

    def __call__(self, progress: Progress) -> None:
        from viewer.reports.trial_report import trial_line

        if self._terminal:
            sys.stderr.write("\r\x1b[K")
        if progress.trial is not None and not self._quiet:
            print(f"  {trial_line(progress.trial)}", flush=True)
        elif progress.trial is None and self._terminal:
            block = f": block {progress.block} of {progress.of}" if progress.of else ""
            left = f", about {progress.seconds_left:.0f} s left" if progress.seconds_left else ""
            sys.stderr.write(f"{progress.text}{block}{left}")
            sys.stderr.flush()
