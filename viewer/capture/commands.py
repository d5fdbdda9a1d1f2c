"""Exact argument lists for each tool; nothing here runs anything, and nothing is ever joined for a shell to read."""

from __future__ import annotations

import os
import shlex
import subprocess
import zipfile
from collections.abc import Sequence
from pathlib import Path

from viewer.capture.request import (
    CaptureRequest,
    NcuOptions,
    NsysOptions,
    Target,
    TargetKind,
    Tool,
    Window,
    without_secrets,
)
from viewer.capture.target_words import starts_python_itself
from viewer.user_data.storage import in_one_piece

RUNNER = Path(__file__).parent / "torch_runner"
"""The folder that the target's interpreter runs."""


def plain_command(target: Target) -> list[str]:
    """The target as it runs without a profiler."""
    return [*_before_program(target), *_program(target)]


def runner_command(
    target: Target, options: Sequence[str], runner: str = str(RUNNER), status: str = "text", control: str = ""
) -> list[str]:
    """The target started by the runner, with its launcher and interpreter kept."""
    before = [*_before_program(target), runner, *options]
    return [*before, *_told_by(status, control), "--", *_program(target)]


def attach_command(
    request: CaptureRequest, out: str, name: str, runner: str, status: str, control: str
) -> list[str]:
    """The runner that records what runs already."""
    target, window = request.target, request.window
    words = [target.interpreter or "python3", runner, "--attach", "--out", out, "--name", name]
    if target.program.startswith("job "):
        words += ["--job", target.program.removeprefix("job ")]
    elif target.program != "any":
        words += ["--pid", target.program]
    words += ["--active", str(window.active), "--times", str(window.repeat)]
    words += ["--wait", f"{window.time_limit_s:g}"]
    return [*words, *_told_by(status, control)]


def _told_by(status: str, control: str) -> list[str]:
    """How the runner says what it does, and where it is told to finish."""
    words = [] if status == "text" else ["--status", status]
    return [*words, "--control", control] if control else words


def torch_options(request: CaptureRequest, out: str, name: str) -> list[str]:
    """Options of the runner for a recording with the PyTorch profiler."""
    words = ["--out", out, "--name", name, *window_options(request.window)]
    if request.trial:
        return [*words, "--recorder", "trial", "--trial", request.trial]
    extras = request.torch
    if request.torch.when_slow:
        words += ["--when-slow", f"{extras.when_slow:g}", "--incidents", str(extras.incidents)]
    words += [f"--{extra}" for extra in ("shapes", "stacks", "memory") if getattr(extras, extra)]
    return words


def range_options(window: Window, out: str, name: str) -> list[str]:
    """Options of the runner that only marks the steps for an Nsight tool around it."""
    return ["--out", out, "--name", name, "--recorder", "cuda-range", *window_options(window)]


def window_options(window: Window) -> list[str]:
    """Options of the runner that say which steps, only those that differ from its own defaults or matter to see."""
    words = ["--steps", window.steps]
    if window.steps == "region":
        words += ["--region", window.region]
    if window.steps == "whole":
        if window.delay_s:
            words += ["--delay", f"{window.delay_s:g}"]
    else:
        words += ["--skip-first", str(window.skip_first)]
        if window.wait:
            words += ["--wait", str(window.wait)]
        words += ["--warmup", str(window.warmup), "--active", str(window.active)]
        if window.repeat != 1:
            words += ["--repeat", str(window.repeat)]
    words += ["--time-limit", f"{window.time_limit_s:g}"]
    if not window.phases:
        words.append("--no-phases")
    if window.modules:
        words.append("--modules")
    if window.keep_running:
        words.append("--keep-running")
    return words


def nsys_profile(
    nsys: str, options: NsysOptions, output: str, window: Window, version: tuple[int, ...] = ()
) -> list[str]:
    """``nsys profile`` up to the program; ``output`` carries no suffix, ``version`` is () when unknown."""
    words = [nsys, "profile", f"--trace={','.join(options.traces) or 'none'}"]
    words += ["--sample=none", "--cpuctxsw=none"]
    words += ["--force-overwrite=true", f"--output={output}"]
    if "cuda" in options.traces and (not version or version >= (2022, 4)):
        words.append(f"--cuda-graph-trace={options.graph_mode}")
    if options.range in ("steps", "api"):
        words += [
            "--capture-range=cudaProfilerApi",
            f"--capture-range-end={_range_end(window, options.range)}",
        ]
    elif options.range == "nvtx":
        words += [
            "--capture-range=nvtx",
            f"--nvtx-capture={options.nvtx_range}",
            "--capture-range-end=stop-shutdown",
        ]
        words.append("--env-var=NSYS_NVTX_PROFILER_REGISTER_ONLY=0")
    else:
        if window.delay_s:
            words.append(f"--delay={window.delay_s:g}")
        words.append(f"--duration={options.duration_s:g}")
        words.append(f"--kill={'none' if window.keep_running else 'sigterm'}")
    if options.python_sampling:
        words += ["--python-sampling=true", "--python-sampling-frequency=1000"]
    if options.gpu_metrics:
        words.append(
            "--gpu-metrics-devices=all" if not version or version >= (2024, 1) else "--gpu-metrics-device=all"
        )
    return words


def _range_end(window: Window, kind: str) -> str:
    if kind == "steps":
        return f"repeat:{window.repeat}" if window.repeat > 1 else "stop"
    return "stop" if window.keep_running else "stop-shutdown"


def nsys_export(nsys: str, report: str, output: str) -> list[str]:
    """``nsys export`` of a report to SQLite."""
    return [nsys, "export", "--type=sqlite", "--force-overwrite=true", f"--output={output}", report]


def ncu_profile(ncu: str, options: NcuOptions, output: str, window: Window) -> list[str]:
    """``ncu`` up to the program; ``output`` carries no suffix."""
    words = [ncu, "--export", output, "--force-overwrite", "--target-processes", "all"]
    words += ["--set", options.section_set]
    if options.kernel_name:
        words += ["--kernel-name-base", options.kernel_name_base, "--kernel-name", options.kernel_name]
    if options.launch_skip:
        words += ["--launch-skip", str(options.launch_skip)]
    if options.launch_count:
        words += ["--launch-count", str(options.launch_count)]
        if not window.keep_running:
            words += ["--kill", "yes"]
    if options.keep_clocks:
        words += ["--clock-control", "none"]
    if options.source:
        words += ["--import-source", "yes"]
    if options.range == "steps":
        words += ["--profile-from-start", "off"]
    return words


def needs_runner(request: CaptureRequest) -> bool:
    """Whether the program is started by the runner, which finds and marks the steps."""
    if request.target.kind is TargetKind.RUNNING:
        return True
    if not request.target.is_python:
        return False
    if request.tool is Tool.TORCH:
        return True
    return (request.nsys.range if request.tool is Tool.NSYS else request.ncu.range) == "steps"


def shell_line(
    words: Sequence[str],
    folder: str = "",
    environment: dict[str, str] | None = None,
    windows: bool = os.name == "nt",
) -> str:
    """The command as one line to copy into a shell; only ever shown, never run."""
    if windows:
        return subprocess.list2cmdline(list(words))
    shown = without_secrets(environment or {})
    settings = [
        f"{name}={shlex.quote(shown[name])}" if name in shown else f'{name}="${name}"'
        for name in environment or {}
    ]
    line = " ".join([*settings, shlex.join(words)])
    return f"cd {shlex.quote(folder)} && {line}" if folder else line


def _before_program(target: Target) -> list[str]:
    if target.kind is TargetKind.COMMAND or starts_python_itself(target):
        return list(target.launcher)
    return [*target.launcher, target.interpreter or "python3", *target.interpreter_options]


def _program(target: Target) -> list[str]:
    head = ["-m", target.program] if target.kind is TargetKind.MODULE else [target.program]
    return [*head, *target.arguments]


FILE_NAME = "stallscope_runner.pyz"


def _is_runner(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return "stallscope_recorder/__init__.py" in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def save_runner(path: Path) -> Path:
    """Write the runner as a zip file that ``python FILE`` runs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with in_one_piece(path, _is_runner) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        for source in sorted(RUNNER.rglob("*.py")):
            if source.parent == RUNNER and source.name == "__init__.py":
                continue
            entry = zipfile.ZipInfo(source.relative_to(RUNNER).as_posix(), (2020, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, source.read_text(encoding="utf-8"))
    return path
