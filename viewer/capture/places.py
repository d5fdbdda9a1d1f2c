"""Where a recording runs: this machine, or another one through ssh and scp argument lists."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from parsers import program_search
from parsers.private_folder import PrivateFolder
from viewer.capture import process_tree, tools
from viewer.capture.commands import FILE_NAME, save_runner
from viewer.capture.failures import CaptureProblem, explain
from viewer.capture.plan import Plan, command_for, environment_for, new_folder, prepare
from viewer.capture.request import CaptureRequest

SSH_SECONDS = 60.0
_SSH_OPTIONS = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=15")


class Place(Protocol):
    """A machine to record on."""

    def prepare(self, request: CaptureRequest) -> Plan:
        """The command as it runs there; raises ``CaptureProblem``."""
        ...

    def start_words(self, words: Sequence[str], plan: Plan, mark: str) -> list[str]:
        """Words that start a command there."""
        ...

    def start_folder_and_environment(self, plan: Plan, mark: str) -> tuple[str | None, Mapping[str, str]]:
        """Folder and environment of the process started here."""
        ...

    def importer(self, plan: Plan) -> str:
        """The converter of raw Nsight Systems streams there, or empty."""
        ...

    def finish(self, plan: Plan) -> None:
        """Make the control file."""
        ...

    def kill(self, mark: str, root: int) -> list[int]:
        """End every process of the recording; those left."""
        ...

    def kill_words(self, mark: str) -> list[str]:
        """The command that ends processes on another machine, with ``process_tree`` as its input; none for this one."""
        ...

    def files(self, plan: Plan) -> list[str]:
        """Names in the folder of the recording."""
        ...

    def collect(self, plan: Plan, names: Sequence[str]) -> list[Path]:
        """These files, on this machine."""
        ...

    def clean_up(self, plan: Plan) -> None:
        """Remove what only the recording needed."""
        ...


class ThisMachine:
    """Records here."""

    def prepare(self, request: CaptureRequest) -> Plan:
        return prepare(request)

    def start_words(self, words: Sequence[str], plan: Plan, mark: str) -> list[str]:
        return list(words)

    def start_folder_and_environment(self, plan: Plan, mark: str) -> tuple[str | None, Mapping[str, str]]:
        target = plan.request.target
        return target.folder or None, environment_for(target, {process_tree.MARK: mark})

    def importer(self, plan: Plan) -> str:
        return tools.find_importer(plan.tool_path)

    def finish(self, plan: Plan) -> None:
        Path(plan.control).touch()

    def kill(self, mark: str, root: int) -> list[int]:
        return process_tree.kill(mark, root)

    def kill_words(self, mark: str) -> list[str]:
        return []

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


class OtherMachine:
    """Records on ``host`` through ssh: the runner is copied there, the files come back, nothing stays."""

    def __init__(self, host: str) -> None:
        if host.startswith("-") or not host.strip():
            raise CaptureProblem(f"{host!r} is no host name.", "Write it as user@machine.")
        self.host = host
        self._into = Path()
        self._work = ""

    def prepare(self, request: CaptureRequest) -> Plan:
        if program_search.program("ssh") is None or program_search.program("scp") is None:
            raise CaptureProblem(
                "ssh and scp are not on this machine.", "Install OpenSSH, or copy the command instead."
            )
        into = prepare_folder(request)
        self._into = into
        answer = self._ssh(["mktemp", "-d", "-t", "stallscope.XXXXXXXX"])
        self._work = answer.stdout.strip().splitlines()[-1] if answer.stdout.strip() else ""
        if answer.returncode != 0 or not self._work.startswith("/"):
            problem, fix = explain(request.tool, answer.stderr)
            raise CaptureProblem(problem or f"{self.host} did not answer: {answer.stderr.strip()}", fix)
        folder = PrivateFolder()
        runner = save_runner(folder.path / FILE_NAME)
        copied = self._run(
            [_program("scp"), "-q", *_SSH_OPTIONS, str(runner), f"{self.host}:{self._work}/{FILE_NAME}"]
        )
        if copied.returncode != 0:
            raise CaptureProblem(f"The runner could not be copied to {self.host}: {copied.stderr.strip()}")
        target = request.target
        request = replace(
            request, target=replace(target, interpreter=target.interpreter or _remote_python(target.launcher))
        )
        name, out, control = target.name, f"{self._work}/out", f"{self._work}/finish"
        made = self._ssh(["mkdir", out])
        if made.returncode != 0:
            raise CaptureProblem(f"{self.host} has no room for the recording: {made.stderr.strip()}")
        words = command_for(
            request, out, name, runner=f"{self._work}/{FILE_NAME}", status="lines", control=control
        )
        return Plan(request, tuple(words), out, name, control, request.tool.value)

    def start_words(self, words: Sequence[str], plan: Plan, mark: str) -> list[str]:
        target = plan.request.target
        settings = {"PYTHONUNBUFFERED": "1", **target.environment, process_tree.MARK: mark}
        return self._ssh_words(remote_start(words, target.folder, settings))

    def start_folder_and_environment(self, plan: Plan, mark: str) -> tuple[str | None, Mapping[str, str]]:
        return None, {**os.environ, process_tree.MARK: mark}

    def importer(self, plan: Plan) -> str:
        return ""

    def finish(self, plan: Plan) -> None:
        self._ssh(["touch", plan.control])

    def kill(self, mark: str, root: int) -> list[int]:
        with (
            open(process_tree.__file__, "rb") as source,
            contextlib.suppress(OSError, subprocess.TimeoutExpired),
        ):
            subprocess.run(
                self.kill_words(mark),
                stdin=source,
                capture_output=True,
                timeout=SSH_SECONDS,
                check=False,
            )
        return process_tree.kill(mark, root)

    def kill_words(self, mark: str) -> list[str]:
        return self._ssh_words(["python3", "-", "kill", mark])

    def files(self, plan: Plan) -> list[str]:
        return sorted(filter(is_plain_name, self._ssh(["ls", "-1A", plan.out]).stdout.splitlines()))

    def collect(self, plan: Plan, names: Sequence[str]) -> list[Path]:
        fetched = []
        for name in filter(is_plain_name, names):
            here = _free_path(self._into / name)
            copied = self._run(
                [_program("scp"), "-q", *_SSH_OPTIONS, f"{self.host}:{plan.out}/{name}", str(here)], 3600.0
            )
            if copied.returncode != 0:
                raise CaptureProblem(f"{name} could not be fetched from {self.host}: {copied.stderr.strip()}")
            fetched.append(here)
        return fetched

    def clean_up(self, plan: Plan) -> None:
        if self._work.startswith("/") and "stallscope." in self._work:
            self._ssh(["rm", "-rf", "--", self._work])

    def _ssh_words(self, words: Sequence[str]) -> list[str]:
        return [_program("ssh"), "-T", *_SSH_OPTIONS, self.host, shlex.join(words)]

    def _ssh(self, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return self._run(self._ssh_words(words))

    def _run(self, words: Sequence[str], seconds: float = SSH_SECONDS) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                list(words),
                capture_output=True,
                text=True,
                errors="replace",
                stdin=subprocess.DEVNULL,
                timeout=seconds,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return subprocess.CompletedProcess(list(words), 255, "", str(error))


def is_plain_name(name: str) -> bool:
    """Whether what another machine lists is the name of a file in that folder, and not a way out of ours."""
    return (
        name.isprintable()
        and not any(letter in name for letter in '/\\:*?"<>|')
        and not name.startswith("-")
        and name not in ("", ".", "..")
    )


def _program(name: str) -> str:
    """On Windows a bare name would be looked for in the current folder first."""
    return (program_search.program(name) or name) if sys.platform == "win32" else name


def place_for(request: CaptureRequest) -> Place:
    """This machine, or the host the request names."""
    return OtherMachine(request.host) if request.host else ThisMachine()


def remote_start(words: Sequence[str], folder: str, settings: Mapping[str, str]) -> list[str]:
    """Words for the other machine: change folder, set the environment, become the program."""
    pairs = [f"{key}={value}" for key, value in settings.items()]
    if not folder:
        return ["env", *pairs, *words]
    return ["sh", "-c", 'cd -- "$1" && shift && exec env "$@"', "sh", folder, *pairs, *words]


def prepare_folder(request: CaptureRequest) -> Path:
    """The folder on this machine that the recordings end up in, made."""
    into = Path(request.out).absolute() if request.out else new_folder(request)
    into.mkdir(parents=True, exist_ok=True)
    return into


def _free_path(path: Path) -> Path:
    number = 1
    free = path
    while free.exists():
        number += 1
        stem, dot, suffix = path.name.partition(".")
        free = path.with_name(f"{stem}-{number}{dot}{suffix}")
    return free


def _remote_python(launcher: Sequence[str]) -> str:
    return "" if launcher else "python3"
