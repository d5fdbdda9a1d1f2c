"""What is to be recorded and how: the target, the tool and its options, as plain values that presets keep."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

import resources
from parsers.model.late import dataclass, regex

_SECRET = regex(r"key|token|secret|passw|credential|auth", re.IGNORECASE)


class Tool(Enum):
    """What does the recording."""

    TORCH = "torch"
    NSYS = "nsys"
    NCU = "ncu"

    @property
    def title(self) -> str:
        return {"torch": "PyTorch profiler", "nsys": "Nsight Systems", "ncu": "Nsight Compute"}[self.value]


class TargetKind(Enum):
    """How the program is started."""

    SCRIPT = "script"
    MODULE = "module"
    COMMAND = "command"
    RUNNING = "running"


@dataclass(frozen=True, slots=True)
class Target:
    """A program to record.

    ``program`` is a script's path, a module's name, another executable, or of what runs already its process
    (``1234``), its job (``job 77``), or ``any``. ``launcher`` are the words before it
    that start several processes or wrap the interpreter (``torchrun --nproc_per_node=2``).
    """

    kind: TargetKind = TargetKind.SCRIPT
    program: str = ""
    arguments: tuple[str, ...] = ()
    interpreter: str = ""
    interpreter_options: tuple[str, ...] = ()
    launcher: tuple[str, ...] = ()
    folder: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_python(self) -> bool:
        """Whether the runner can start it."""
        return self.kind in (TargetKind.SCRIPT, TargetKind.MODULE)

    @property
    def name(self) -> str:
        """A short name that is safe in a file name."""
        if self.kind is TargetKind.RUNNING:
            return f"attached-{self.program.replace(' ', '-')}"
        stem = self.program.rsplit(".", 1)[-1] if self.kind is TargetKind.MODULE else Path(self.program).stem
        safe = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in stem).strip("-")
        return safe or "recording"


@dataclass(frozen=True, slots=True)
class Window:
    """Which part of the run is recorded: some steps after the warm-up, or a stretch of time."""

    steps: str = "auto"
    region: str = ""
    skip_first: int = 3
    wait: int = 0
    warmup: int = 2
    active: int = 5
    repeat: int = 1
    delay_s: float = 0.0
    time_limit_s: float = 60.0
    phases: bool = True
    modules: bool = False
    keep_running: bool = False


@dataclass(frozen=True, slots=True)
class TorchOptions:
    """Extras of the PyTorch profiler; the first three make the recording larger and the program slower.

    With ``when_slow`` only what follows a step of so many times the usual time is recorded, at most ``incidents`` times
    an hour.
    """

    shapes: bool = False
    stacks: bool = False
    memory: bool = False
    when_slow: float = 0.0
    incidents: int = 6


@dataclass(frozen=True, slots=True)
class NsysOptions:
    """Options of ``nsys profile``.

    ``range`` is ``steps`` (the runner marks them), ``time`` (delay and duration), ``nvtx`` (``nvtx_range`` is
    ``message@domain``) or ``api`` (the program itself calls cudaProfilerStart).
    """

    traces: tuple[str, ...] = ("cuda", "nvtx")
    range: str = "steps"
    duration_s: float = 30.0
    nvtx_range: str = ""
    graph_mode: str = "graph"
    python_sampling: bool = False
    gpu_metrics: bool = False


@dataclass(frozen=True, slots=True)
class NcuOptions:
    """Options of ``ncu``; ``range`` is ``steps`` (the runner marks them) or ``whole``."""

    section_set: str = "detailed"
    kernel_name: str = ""
    kernel_name_base: str = "function"
    launch_skip: int = 0
    launch_count: int = 10
    keep_clocks: bool = False
    range: str = "steps"
    source: bool = False


@dataclass(frozen=True, slots=True)
class CaptureRequest:
    """One recording to make. ``on`` is a place or its name, empty for this machine; ``out`` empty: the data folder.

    ``setup`` is the line of a shell that prepares the environment at that place.

    ``trial`` is what is tried instead of recording, as the JSON that the recorder reads; presets do not keep it.
    """

    tool: Tool = Tool.TORCH
    target: Target = field(default_factory=Target)
    window: Window = field(default_factory=Window)
    torch: TorchOptions = field(default_factory=TorchOptions)
    nsys: NsysOptions = field(default_factory=NsysOptions)
    ncu: NcuOptions = field(default_factory=NcuOptions)
    out: str = ""
    on: str = ""
    setup: str = ""
    trial: str = ""

    def to_json(self) -> dict[str, Any]:
        """As it is kept: without what looks like a secret."""
        import msgspec

        values: dict[str, Any] = msgspec.to_builtins(self)
        values["target"]["environment"] = without_secrets(self.target.environment)
        return values

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> CaptureRequest:
        """The request that ``to_json`` wrote; unknown keys of a newer version are left out. Raises ``ValueError``."""
        import msgspec

        known = {key: value for key, value in values.items() if key != "trial"}
        try:
            return msgspec.convert({**known, "on": _place(values)}, CaptureRequest)
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from error


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that may be shown and kept: those whose names promise no password, token or key."""
    return {name: value for name, value in environment.items() if not _SECRET.search(name)}


def _place(values: Mapping[str, Any]) -> str:
    """The place, which earlier versions kept as a host."""
    host = str(values.get("host", ""))
    return str(values.get("on", "")) or (f"ssh:{host}" if host else "")


FOUND_NOTHING = frozenset({"no-torch", "no-steps", "too-few-steps", "too-late", "no-slow-step"})
"""Why the runner says that it recorded nothing."""


def retry_after(request: CaptureRequest, problem: Mapping[str, Any]) -> CaptureRequest | None:
    """The same recording with another window; ``None`` where another window would not help."""
    reason, steps = problem.get("reason"), problem.get("steps")
    window = request.window
    if reason == "too-late":
        return dataclasses.replace(request, window=dataclasses.replace(window, delay_s=0.0))
    if reason == "too-few-steps" and isinstance(steps, int) and steps >= 3:
        fewer = dataclasses.replace(
            window, skip_first=1, wait=0, warmup=1, active=min(window.active, max(1, steps - 3)), repeat=1
        )
        return dataclasses.replace(request, window=fewer)
    if reason not in ("no-steps", "too-few-steps"):
        return None
    if request.tool is Tool.TORCH:
        return dataclasses.replace(request, window=dataclasses.replace(window, steps="whole"))
    if request.tool is Tool.NSYS:
        return dataclasses.replace(request, nsys=dataclasses.replace(request.nsys, range="time"))
    return dataclasses.replace(request, ncu=dataclasses.replace(request.ncu, range="whole"))


class CaptureProblem(Exception):
    """A recording cannot start or gave nothing; ``problem`` says why in one sentence and ``fix`` what mends it."""

    def __init__(self, problem: str, fix: str = "") -> None:
        super().__init__(f"{problem} {fix}".strip())
        self.problem = problem
        self.fix = fix


@cache
def _known() -> tuple[tuple[re.Pattern[str], Mapping[str, Any]], ...]:
    """What each pattern in the output of a tool means."""
    with resources.path("failures.toml").open("rb") as file:
        return tuple(
            (re.compile(each["pattern"], re.IGNORECASE), each) for each in tomllib.load(file)["known"]
        )


def explain(tool: Tool, output: str) -> tuple[str, str]:
    """Problem and fix for the first known failure in a tool's output, two empty texts when there is none."""
    for pattern, known in _known():
        if tool.value in known.get("tools", (tool.value,)) and pattern.search(output):
            return known["problem"], known["fix"]
    return "", ""


def explain_ending(exit_code: int) -> tuple[str, str]:
    """Problem and fix for the way a process ended when its output says nothing known."""
    if exit_code in (-9, 137):
        return (
            "The program was killed.",
            "Usually the machine ran out of memory: record without stacks and memory, or fewer steps.",
        )
    if exit_code in (-11, 139):
        return (
            "The program crashed (segmentation fault).",
            "Run it once without recording; if it works, record less.",
        )
    if exit_code == 127:
        return "The command was not found.", "Check the path of the interpreter or program."
    return f"The program ended with exit code {exit_code}.", "Its output says why."
