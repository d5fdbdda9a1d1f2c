"""Checks a request against this machine and turns it into the one command that records it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from parsers import program_search
from parsers.model.late import dataclass
from viewer.capture import commands, tools
from viewer.capture.commands import FILE_NAME
from viewer.capture.interpreters import default_interpreter, probe
from viewer.capture.request import CaptureProblem, CaptureRequest, Target, TargetKind, Tool
from viewer.capture.storage import captures_folder
from viewer.capture.target_words import starts_python_itself

SUFFIXES = {
    Tool.TORCH: (".pt.trace.json.gz", ".memory.pickle.gz", ".trial.jsonl"),
    Tool.NSYS: (".nsys-rep", ".qdrep", ".qdstrm", ".sqlite"),
    Tool.NCU: (".ncu-rep",),
}
"""How the files end that each tool can leave."""
FOLDER_THERE = "FOLDER"
"""Stands for a folder at another place that is made when the recording begins."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One command ready to run; ``out`` and ``control`` are paths where the command runs."""

    request: CaptureRequest
    command: tuple[str, ...]
    out: str
    name: str
    control: str
    tool_path: str


def command_for(
    request: CaptureRequest,
    out: str,
    name: str,
    *,
    tool_path: str = "",
    version: tuple[int, ...] = (),
    runner: str = str(commands.RUNNER),
    status: str = "text",
    control: str = "",
) -> list[str]:
    """The recording's argument list; ``tool_path`` is where nsys or ncu is, their plain name by default."""
    target = request.target
    if target.kind is TargetKind.RUNNING:
        if request.tool is not Tool.TORCH:
            raise CaptureProblem(
                f"{request.tool.title} can't record a program that already runs.",
                "Choose the PyTorch profiler.",
            )
        return commands.attach_command(request, out, name, runner, status, control)
    if request.tool is Tool.TORCH:
        if not target.is_python:
            raise CaptureProblem(
                f"The PyTorch profiler records Python programs, and {target.program} is not one.",
                "Name the script after its interpreter, or record it with Nsight Systems.",
            )
        return commands.runner_command(
            target, commands.torch_options(request, out, name), runner, status, control
        )
    if commands.needs_runner(request):
        options = commands.range_options(request.window, out, name)
        inner = commands.runner_command(target, options, runner, status, control)
    else:
        inner = commands.plain_command(target)
    path = tool_path or request.tool.value
    report = f"{out}/{name}"
    if request.tool is Tool.NSYS:
        return [*commands.nsys_profile(path, request.nsys, report, request.window, version), *inner]
    return [*commands.ncu_profile(path, request.ncu, report, request.window), *inner]


def portable_lines(request: CaptureRequest) -> list[str]:
    """Shell lines that make the same recording on another machine, with the runner file copied beside the script."""
    target = request.target
    folder = target.folder
    plain = replace(request, target=replace(target, interpreter=_portable_interpreter(target)))
    words = command_for(_without_impossible_ranges(plain), ".", target.name, runner=FILE_NAME)
    lines = [commands.shell_line(words, folder, dict(target.environment), windows=False)]
    if request.tool is Tool.NSYS:
        lines.append(
            commands.shell_line(
                commands.nsys_export("nsys", f"{target.name}.nsys-rep", f"{target.name}.sqlite"),
                windows=False,
            )
        )
    return lines


def lines_there(request: CaptureRequest, setup: str) -> list[str]:
    """Shell lines that a recording runs at another place, in the environment that ``setup`` prepares."""
    target = request.target
    words = command_for(request, f"{FOLDER_THERE}/out", target.name, runner=f"{FOLDER_THERE}/{FILE_NAME}")
    line = commands.shell_line(words, target.folder, dict(target.environment), windows=False)
    return [
        f"# on {request.on}, with what records it in a new folder, {FOLDER_THERE}",
        *([setup] if setup else []),
        line,
    ]


def prepare(request: CaptureRequest) -> Plan:
    """The plan for a recording on this machine; raises ``CaptureProblem`` for what can be known before it starts."""
    request = _completed(request)
    if request.target.kind is not TargetKind.RUNNING:
        _check_target(request.target)
    tool_path = ""
    version: tuple[int, ...] = ()
    if request.tool is not Tool.TORCH:
        found = tools.find(request.tool.value)
        if found.problem:
            raise CaptureProblem(found.problem, found.fix)
        tool_path, version = found.path, found.version
    if needs_interpreter(request) and request.target.is_python:
        answer = probe(request.target.interpreter)
        if answer.problem:
            raise CaptureProblem(answer.problem, answer.fix)
    out = made_folder(request)
    name = _free_name(out, request.target.name)
    control = str(out / f".{name}.finish")
    words = command_for(
        request, str(out), name, tool_path=tool_path, version=version, status="lines", control=control
    )
    return Plan(request, tuple(words), str(out), name, control, tool_path)


def needs_interpreter(request: CaptureRequest) -> bool:
    """Whether the target's own interpreter is asked to run the recorder."""
    if request.target.kind is TargetKind.RUNNING:
        return False
    return commands.needs_runner(request) and not starts_python_itself(request.target)


def environment_for(target: Target, mark: Mapping[str, str]) -> dict[str, str]:
    """The target's environment: this one, without what a frozen program put into it, plus the target's own."""
    environment = dict(os.environ)
    for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"):
        kept = environment.pop(f"{name}_ORIG", None)
        if kept is not None:
            environment[name] = kept
    for name in ("_MEIPASS2", "_PYI_ARCHIVE_FILE", "_PYI_APPLICATION_HOME_DIR", "QT_PLUGIN_PATH"):
        environment.pop(name, None)
    environment.setdefault("PYTHONUNBUFFERED", "1")
    environment.update(target.environment)
    environment.update(mark)
    return environment


def _completed(request: CaptureRequest) -> CaptureRequest:
    target = request.target
    if target.is_python and not target.interpreter and not starts_python_itself(target):
        folder = Path(target.folder or ".").absolute()
        target = replace(target, interpreter=default_interpreter(folder))
    return _without_impossible_ranges(replace(request, target=target))


def _without_impossible_ranges(request: CaptureRequest) -> CaptureRequest:
    """Only Python programs have steps the runner can mark: others are recorded by time, or whole."""
    if request.target.is_python:
        return request
    nsys, ncu = request.nsys, request.ncu
    return replace(
        request,
        nsys=replace(nsys, range="time") if nsys.range == "steps" else nsys,
        ncu=replace(ncu, range="whole") if ncu.range == "steps" else ncu,
    )


def _check_target(target: Target) -> None:
    folder = Path(target.folder or ".")
    if not folder.is_dir():
        raise CaptureProblem(
            f"There is no folder {folder}.", "Choose the folder the script is usually started in."
        )
    if not target.program:
        raise CaptureProblem("No script was given.", "Pick the script or module to record.")
    if target.kind is TargetKind.SCRIPT and not (folder / target.program).exists():
        raise CaptureProblem(
            f"There is no script {target.program} in {folder.absolute()}.",
            "Check its path and the working folder.",
        )
    first = target.launcher[0] if target.launcher else ""
    if target.kind is TargetKind.COMMAND and not first:
        first = target.program
    if (
        first
        and program_search.program(first, path=target.environment.get("PATH")) is None
        and not (folder / first).exists()
    ):
        raise CaptureProblem(
            f"There is no program {first}.", "Give its full path, or activate its environment first."
        )


def _portable_interpreter(target: Target) -> str:
    if starts_python_itself(target):
        return ""
    return "python3" if os.sep in target.interpreter or not target.interpreter else target.interpreter


def made_folder(request: CaptureRequest) -> Path:
    """The folder on this machine that the recordings end up in; raises ``CaptureProblem``."""
    out = Path(request.out).absolute() if request.out else new_folder(request)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CaptureProblem(
            f"The folder {out} cannot be created: {error.strerror}.", "Choose another."
        ) from error
    return out


def new_folder(request: CaptureRequest) -> Path:
    """A folder of its own for a recording whose folder nobody named; not made yet."""
    return captures_folder() / f"{request.target.name}-{time.strftime('%Y%m%d-%H%M%S')}"


def _free_name(out: Path, wanted: str) -> str:
    taken = {path.name for path in out.iterdir()}
    for number in range(1, 10_000):
        name = wanted if number == 1 else f"{wanted}-{number}"
        if not any(existing.startswith(f"{name}.") for existing in taken):
            return name
    raise CaptureProblem(f"The folder {out} is full of recordings.", "Choose another.")
