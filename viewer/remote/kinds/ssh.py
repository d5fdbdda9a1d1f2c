"""Another machine, by the system's own OpenSSH and whatever the user's ``~/.ssh/config`` says of it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import ClassVar

from parsers import program_search
from parsers.files.private_folder import PrivateFolder
from viewer.remote.far_script import far_line
from viewer.remote.names import BOUNDS, PlaceProblem, Reach, Unreachable, place_kind

PERSIST_SECONDS = 30  # that the connection outlives a process of ours that was killed
LOST = 255


@place_kind
class Ssh:
    """One connection for everything, which is opened once and ends with us; no password, no agent forwarding."""

    kind: ClassVar[str] = "ssh"
    title: ClassVar[str] = "another machine through ssh"
    example: ClassVar[str] = "ssh:me@gpu-box"

    def __init__(self, name: str, below: Reach | None) -> None:
        if below is not None:
            raise PlaceProblem(
                f"ssh:{name}",
                "A machine behind another one cannot be named in a place.",
                "Write ProxyJump into ~/.ssh/config, and name the machine.",
            )
        if not name or name.startswith("-"):
            raise PlaceProblem(f"ssh:{name}", f"{name!r} is not a host name.", "Write it as user@machine.")
        self.host = name
        self._folder: PrivateFolder | None = None

    def open(self) -> None:
        if program_search.program("ssh") is None:
            raise PlaceProblem(
                f"ssh:{self.host}",
                "ssh is not on this machine.",
                "Install OpenSSH, or copy the command instead.",
            )
        if sys.platform == "win32" or self.is_connected():  # OpenSSH for Windows shares no connections
            return
        self._folder = self._folder or PrivateFolder()
        with contextlib.suppress(OSError):
            os.unlink(self._socket)  # of a connection that broke
        said = self._folder.path / "said"
        shared = ("-o", "ControlMaster=yes", "-o", f"ControlPersist={PERSIST_SECONDS}")
        words = [*self._ssh(), *shared, "-N", "-f", self.host]
        with said.open("w+b") as errors:  # the connection outlives the command, and a pipe to it would, too
            try:
                code = subprocess.run(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=errors,
                    stderr=errors,
                    timeout=BOUNDS.connect + 10.0,
                    check=False,
                ).returncode
            except subprocess.TimeoutExpired:
                code = LOST
            errors.seek(0)
            text = errors.read().decode("utf-8", "replace").strip()
        if code != 0:
            raise unreachable(self.host, text)

    def is_connected(self) -> bool:
        """Whether the connection stands, as far as this side knows."""
        if self._folder is None:
            return False
        return self._control("check") == 0

    def words(self, words: Sequence[str]) -> list[str]:
        return [*self._ssh(), "-T", self.host, far_line(words)]

    def is_lost(self, exit_code: int) -> bool:
        return exit_code == LOST

    def close(self) -> None:
        if self._folder is not None:
            self._control("exit")
            self._folder = None

    @property
    def _socket(self) -> str:
        assert self._folder is not None
        return str(self._folder.path / "c")

    def _ssh(self) -> list[str]:
        words = [
            (program_search.program("ssh") or "ssh"),
            *("-o", "BatchMode=yes", "-o", f"ConnectTimeout={BOUNDS.connect:.0f}", "-o", "ForwardAgent=no"),
            *("-o", f"ServerAliveInterval={BOUNDS.keep_alive}", "-o", f"ServerAliveCountMax={BOUNDS.missed}"),
        ]
        if self._folder is not None:
            words += ["-S", self._socket]
        return words

    def _control(self, command: str) -> int:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            return program_search.answer_of([*self._ssh(), "-O", command, self.host], 10.0).returncode
        return LOST


def unreachable(host: str, said: str) -> Unreachable:
    """What is said of a machine that ssh cannot reach: ssh's own last words, and what mends it."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if "REMOTE HOST IDENTIFICATION HAS CHANGED" in said:
        return Unreachable(
            f"ssh:{host}",
            "Its host key has changed, and ssh refuses to connect.",
            f"If the machine was set up anew, remove the old key with `ssh-keygen -R {host.rpartition('@')[2]}`; "
            "otherwise ask who runs it.",
        )
    hint = f"`ssh -o BatchMode=yes {host} true` must work."
    if "Host key verification failed" in said:
        hint = f"Connect once by hand, `ssh {host}`, and accept its host key."
    elif "Permission denied" in said:
        hint = f"Set up a key for it: `ssh -o BatchMode=yes {host} true` must work without a password."
    words = lines[-1].rstrip(".") if lines else "it does not answer"
    return Unreachable(f"ssh:{host}", f"ssh cannot reach it ({words}).", hint)
