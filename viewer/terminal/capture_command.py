"""``stallscope capture TOOL [options] -- python train.py ARGS``: records, prints the files, diagnoses them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from viewer.capture import advice
from viewer.capture.commands import FILE_NAME, save_runner
from viewer.capture.output_stream import Event
from viewer.capture.plan import portable_lines
from viewer.capture.recording import Outcome, Recording
from viewer.capture.request import (
    CaptureProblem,
    CaptureRequest,
    NcuOptions,
    NsysOptions,
    Target,
    Tool,
    TorchOptions,
    Window,
)
from viewer.capture.storage import FarRun, Presets
from viewer.capture.target_words import UnreadableCommand, read_target
from viewer.terminal.console import NamesOutput, complain
from viewer.terminal.interruption import run_stoppably

DONE, FAILED, BAD_USE, INTERRUPTED = 0, 1, 2, 130

Part = TypeVar("Part", Window, TorchOptions, NsysOptions, NcuOptions)

EPILOG = """examples:
  stallscope capture torch -- python train.py --epochs 1
  stallscope capture torch --out traces -- torchrun --nproc_per_node=2 train.py
  stallscope capture nsys --range time --duration 20 -- python serve.py
  stallscope capture ncu --kernel-name ampere_sgemm_128x64_nn --launch-skip 20 --launch-count 1 -- python train.py
Ctrl+C once finishes the recording now and keeps it; twice kills the program."""


def add_parser(commands: Any, diagnose: Callable[[Sequence[Path], str], int]) -> argparse.ArgumentParser:
    """Declare the command under ``stallscope``.

    ``diagnose`` prints what is wrong in files, writes it into the journal of that name, and gives an exit code.
    """
    parser: argparse.ArgumentParser = commands.add_parser(
        "capture",
        help="record a script and diagnose the recording",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    tools = parser.add_subparsers(dest="tool", required=True, metavar="torch|nsys|ncu")
    for tool in Tool:
        _add_tool(tools, tool)
    parser.set_defaults(diagnose=diagnose)
    return parser


def _add_tool(tools: Any, tool: Tool) -> None:
    parser: argparse.ArgumentParser = tools.add_parser(tool.value, help=f"record with {tool.title}")
    parser.add_argument(
        "--out", default="", metavar="DIR", help="folder for the recordings (default: the user's data folder)"
    )
    parser.add_argument(
        "--preset", default="", metavar="NAME", help="start from a preset saved in the window"
    )
    add_program(parser)
    parser.add_argument(
        "--print-command", action="store_true", help="print the command for another machine and stop"
    )
    parser.add_argument(
        "--save-runner",
        action=NamesOutput,
        metavar="FILE",
        help=f"also write the file {FILE_NAME} that the command needs",
    )
    parser.add_argument("--no-diagnosis", action="store_true", help="only record")
    parser.add_argument(
        "--journal",
        default="",
        metavar="NAME",
        help="name that identifies this program across recordings (default: its script, its arguments without "
        "numbers, and the machine)",
    )
    _add_window(parser.add_argument_group("which part of the run"))
    _TOOL_OPTIONS[tool](parser.add_argument_group(tool.title))
    parser.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="python train.py ARGS"
    )
    parser.set_defaults(run=run)


def _add_window(group: Any) -> None:
    usual = Window()
    steps = ("auto", "optimizer", "dataloader", "backward", "forward", "region", "whole")
    group.add_argument("--steps", choices=steps, help="what ends a step (default: detected)")
    group.add_argument("--region", metavar="NAME", help="record_function or NVTX range that begins a step")
    for name, text in (
        ("skip_first", f"steps skipped at the start (default {usual.skip_first})"),
        ("wait", "steps skipped before each warm-up"),
        ("warmup", f"warm-up steps, not kept (default {usual.warmup})"),
        ("active", f"steps recorded (default {usual.active}; ncu 1)"),
        ("repeat", "number of times to repeat this"),
    ):
        group.add_argument(f"--{name.replace('_', '-')}", type=int, metavar="N", help=text)
    group.add_argument(
        "--delay",
        type=float,
        dest="delay_s",
        metavar="S",
        help="delay in seconds before a timed recording starts",
    )
    group.add_argument(
        "--time-limit", type=float, dest="time_limit_s", metavar="S", help="longest recording in seconds"
    )
    _switch(group, "no-phases", "don't add ranges for data, forward, backward and optimizer", "phases", False)
    _switch(group, "modules", "add a range for every module call")
    _switch(group, "keep-running", "keep the script running after the recording")


def _switch(group: Any, name: str, text: str, part: str | None = None, on: bool = True) -> None:
    """An option without a value; where it is not given, a preset decides."""
    part = part or name.replace("-", "_")
    group.add_argument(f"--{name}", dest=part, action="store_const", const=on, help=text)


def _add_torch(group: Any) -> None:
    _switch(group, "shapes", "record input shapes of every operator")
    _switch(group, "stacks", "record Python stacks; slows Python down")
    _switch(group, "memory", "every allocation, and a snapshot of the allocator (slower steps)")
    group.add_argument(
        "--when-slow",
        type=_factor,
        metavar="FACTOR",
        help="wait until the program ends, and record only after a step that takes FACTOR times as long as usual",
    )
    group.add_argument(
        "--incidents", type=int, metavar="N", help="with --when-slow: recordings an hour at most (default 6)"
    )


def _factor(text: str) -> float:
    factor = float(text)
    if not 1 < factor < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a factor above 1")
    return factor


def _add_nsys(group: Any) -> None:
    group.add_argument("--trace", metavar="LIST", help="cuda,nvtx,osrt,cudnn,cublas ... (default cuda,nvtx)")
    group.add_argument("--range", choices=["steps", "time", "nvtx", "api"], help="what limits the recording")
    group.add_argument(
        "--duration", type=float, dest="duration_s", metavar="S", help="seconds, with --range time"
    )
    group.add_argument("--nvtx-range", metavar="MESSAGE@DOMAIN", help="with --range nvtx")
    group.add_argument(
        "--graph-mode", choices=["graph", "node"], help="trace CUDA graphs as a whole or node by node"
    )
    _switch(group, "python-sampling", "sample Python stacks")
    _switch(group, "gpu-metrics", "sample hardware counters")


def _add_ncu(group: Any) -> None:
    group.add_argument(
        "--set", dest="section_set", metavar="NAME", help="basic, detailed (default), full, roofline"
    )
    group.add_argument(
        "--range", choices=["steps", "whole"], help="kernels of the recorded steps, or of the whole run"
    )
    group.add_argument("--kernel-name", metavar="NAME", help="function name, or regex:EXPRESSION")
    group.add_argument("--launch-skip", type=int, metavar="N", help="matching launches to skip first")
    group.add_argument("--launch-count", type=int, metavar="N", help="launches profiled (default 10, 0: all)")
    _switch(group, "keep-clocks", "ncu --clock-control none")


_TOOL_OPTIONS = {Tool.TORCH: _add_torch, Tool.NSYS: _add_nsys, Tool.NCU: _add_ncu}


def request_from(options: argparse.Namespace) -> CaptureRequest:
    """The request that a parsed command line stands for; raises ``UnreadableCommand`` and ``CaptureProblem``."""
    tool = Tool(options.tool)
    base = CaptureRequest(tool=tool, window=Window(active=1) if tool is Tool.NCU else Window())
    if options.preset:
        saved = Presets().all()
        if options.preset not in saved:
            raise CaptureProblem(
                f"There is no preset {options.preset}.", f"Saved: {', '.join(saved) or 'none'}."
            )
        base = replace(saved[options.preset], tool=tool)
    given = {key: value for key, value in vars(options).items() if value is not None}
    if "trace" in given:
        given["traces"] = tuple(word for word in given["trace"].split(",") if word)
    target = target_from(options, base.target)
    window = _with(base.window, given)
    if window.region and "steps" not in given:
        window = replace(window, steps="region")
    return replace(
        base,
        target=target,
        window=window,
        torch=_with(base.torch, given) if tool is Tool.TORCH else base.torch,
        nsys=_with(base.nsys, given) if tool is Tool.NSYS else base.nsys,
        ncu=_with(base.ncu, given) if tool is Tool.NCU else base.ncu,
        out=options.out or base.out,
        on=options.on or base.on,
        setup=options.setup or base.setup,
    )


def target_from(options: argparse.Namespace, usual: Target) -> Target:
    """The program that follows ``--``, or ``usual``, with its environment.

    Raises ``UnreadableCommand`` and ``CaptureProblem``.
    """
    words = options.command[1:] if options.command[:1] == ["--"] else options.command
    target = usual
    if words:
        target = read_target(words, options.cwd, options.python)
    elif not target.program:
        raise UnreadableCommand("name the program to record after --, as in: -- python train.py")
    environment = dict(target.environment)
    for pair in options.env:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise CaptureProblem(f"--env {pair} is not NAME=VALUE.")
        environment[name] = value
    return replace(target, environment=environment)


def add_program(parser: argparse.ArgumentParser) -> None:
    """The options that say which program is started, where and how."""
    parser.add_argument(
        "--on",
        default="",
        metavar="PLACE",
        help="where it runs: ssh:USER@HOST, 'slurm:LOGIN --nodes 2', container:NAME, pod:NAME, or a saved place",
    )
    parser.add_argument(
        "--host",
        dest="on",
        type=lambda host: f"ssh:{host}",
        default=argparse.SUPPRESS,
        metavar="USER@HOST",
        help="short for --on ssh:USER@HOST",
    )
    parser.add_argument(
        "--setup",
        default="",
        metavar="LINE",
        help="shell command that sets up the environment there, such as: module load cuda",
    )
    parser.add_argument("--cwd", default="", metavar="DIR", help="working folder of the program")
    parser.add_argument(
        "--python",
        default="",
        metavar="PATH",
        help="Python interpreter for a script given without one, or after a plain 'python'",
    )
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="environment variable for the program; repeatable",
    )


def _with(part: Part, given: dict[str, Any]) -> Part:
    return replace(part, **{key: value for key, value in given.items() if key in part.__dataclass_fields__})


def run(options: argparse.Namespace) -> int:
    """Record, print the paths, diagnose; the exit code."""
    try:
        request = request_from(options)
        if options.save_runner:
            save_runner(options.save_runner)
        if options.print_command:
            print("\n".join(portable_lines(request)))
            return DONE
        for warning in advice.warnings(request):
            print(f"note: {warning}", file=sys.stderr)
    except (UnreadableCommand, CaptureProblem) as error:
        complain(error)
        return BAD_USE
    return record_and_tell(request, None if options.no_diagnosis else options.diagnose, options.journal)


def record_and_tell(
    request: CaptureRequest,
    diagnose: Callable[[Sequence[Path], str], int] | None,
    journal: str,
    again: FarRun | None = None,
) -> int:
    """Record, or take up ``again`` what goes on elsewhere, print the paths, diagnose; the exit code."""
    from viewer.terminal.slow_step_report import SlowStepReport

    slow = SlowStepReport(request, diagnose, journal) if request.torch.when_slow else None

    def show(event: Event) -> None:
        if slow is not None:
            slow.take(event)
        _show_event(event)

    try:
        recording = Recording(request, on_text=_show_text, on_event=show, again=again)
        outcome = run_stoppably(
            recording.run, recording.finish_now, recording.kill, "finishing the recording now"
        )
    except CaptureProblem as error:
        complain(error)
        return BAD_USE
    return _report(outcome, diagnose, journal) if slow is None else slow.finish(outcome)


def _show_text(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def _show_event(event: Event) -> None:
    if event.phase in ("written", "starting", "done", "failed", "problem") or "percent" in event.values:
        return
    rank = f" (rank {event.rank})" if event.rank >= 0 else ""
    complain(f"{event.sentence}{rank}")


def _report(outcome: Outcome, diagnose: Callable[[Sequence[Path], str], int] | None, journal: str) -> int:
    if outcome.killed:
        complain(outcome.problem)
        return INTERRUPTED
    if not outcome.recordings:
        complain(f"{outcome.problem} {outcome.fix}".rstrip())
        complain(f"the whole output is in {outcome.log}")
        return FAILED
    print(*outcome.recordings, sep="\n")
    if outcome.failure:
        complain(f"the script failed ({outcome.failure}); what was recorded before is kept")
    sys.stdout.flush()
    code = DONE if diagnose is None else diagnose(outcome.recordings, journal)
    return FAILED if outcome.traceback and code == DONE else code
