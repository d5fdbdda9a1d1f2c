"""What a recording asks of the place it is made on, and this machine as the nearest of them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from viewer.capture import commands, process_tree, tools
from viewer.capture.plan import Plan, environment_for, prepare
from viewer.capture.request import CaptureRequest, Tool
from viewer.capture.running import ChildProcess, Running


class Place(Protocol):
    """Where a recording is made."""

    def prepare(self, request: CaptureRequest) -> Plan:
        """The command as it runs there; raises ``CaptureProblem``."""

    def start(self, words: Sequence[str], plan: Plan, mark: str, settings: Mapping[str, str]) -> Running:
        """Start a command there, with these environment variables besides those of the target."""

    def importer(self, plan: Plan) -> str:
        """The converter of raw Nsight Systems streams there, or empty."""

    def finish(self, plan: Plan, mark: str, root: int) -> None:
        """End the recording at the next chance; ``root`` is the process of this machine that stands for it."""

    def kill(self, mark: str, root: int) -> list[int]:
        """End every process of the recording; those left."""

    def is_anything_left(self, mark: str) -> bool:
        """Whether a process of the recording still runs."""

    def files(self, plan: Plan) -> list[str]:
        """Names in the folder of the recording."""

    def collect(self, plan: Plan, names: Sequence[str]) -> list[Path]:
        """These files, on this machine."""

    def clean_up(self, plan: Plan) -> None:
        """Remove what only the recording needed."""


class ThisMachine:
    """Records here."""

    def prepare(self, request: CaptureRequest) -> Plan:
        return prepare(request)

    def start(self, words: Sequence[str], plan: Plan, mark: str, settings: Mapping[str, str]) -> Running:
        target = plan.request.target
        environment = {**environment_for(target, {process_tree.MARK: mark}), **settings}
        return ChildProcess(words, target.folder or None, environment)

    def importer(self, plan: Plan) -> str:
        return tools.find_importer(plan.tool_path)

    def finish(self, plan: Plan, mark: str, root: int) -> None:
        if commands.needs_runner(plan.request):
            Path(plan.control).touch()
        elif plan.request.tool is Tool.NSYS or not Path("/proc/self").is_dir():
            process_tree.interrupt([root])
        else:
            process_tree.interrupt(process_tree.members(mark, root) - {root})

    def kill(self, mark: str, root: int) -> list[int]:
        return process_tree.kill(mark, root)

    def is_anything_left(self, mark: str) -> bool:
        return bool(process_tree.members(mark))

    def files(self, plan: Plan) -> list[str]:
        return sorted(os.listdir(plan.out))

    def collect(self, plan: Plan, names: Sequence[str]) -> list[Path]:
        return [Path(plan.out) / name for name in names]

    def clean_up(self, plan: Plan) -> None:
        Path(plan.control).unlink(missing_ok=True)
        for left in Path(plan.out).glob(f".{plan.name}.*"):
            left.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            Path(plan.out).rmdir()
