"""Finds and ends every process of a recording: children, children of children, and those that left the family.

The file is plain Python that also runs by itself beside a recorder, as ``python process_tree.py watch MARK``.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping

MARK = "STALLSCOPE_CAPTURE"
"""Environment variable that every process of one recording inherits, whatever session or parent it ends up with."""
END_SECONDS = 10.0
FROZEN_WORD = "--recording-watcher"  # the frozen program has no interpreter: it starts itself with this word


def members(mark: str, root: int = 0) -> set[int]:
    """Living processes whose environment carries the mark, and all descendants of ``root``."""
    parents: dict[int, int] = {}
    found: set[int] = set()
    needle = f"{MARK}={mark}".encode()
    for pid in _processes():
        state, parent = state_and_parent(pid)
        if state in ("Z", "X", ""):
            continue
        parents[pid] = parent
        if needle in _environment(pid):
            found.add(pid)
    if root and root in parents:
        found.add(root)
    return _with_descendants(found, parents) - {os.getpid()}


def kill(mark: str, root: int = 0) -> list[int]:
    """End them all at once and see to it that none is left; those that could not be ended within ten seconds."""
    if not os.path.isdir("/proc/self"):
        return _kill_without_proc(root)
    deadline = time.monotonic() + END_SECONDS
    known: set[int] = set()
    while True:
        alive = members(mark, root)
        alive |= {pid for pid in known if state_and_parent(pid)[0] not in ("", "Z", "X")}
        known = alive
        if not alive or time.monotonic() > deadline:
            return sorted(alive)
        _signal(alive, signal.SIGKILL)
        time.sleep(0.05)


class Watcher:
    """A process that ends a recording as soon as the one that made this object ends, even by SIGKILL."""

    def __init__(self, mark: str) -> None:
        frozen = getattr(sys, "frozen", False)
        program = [sys.executable, FROZEN_WORD] if frozen else [sys.executable, "-I", "-S", __file__, "watch"]
        self._process = subprocess.Popen(
            [*program, mark],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # the terminal's Ctrl+C and its end are for the recorder
        )

    def follow(self, root: int) -> None:
        """Watch over this process and its descendants, where they cannot be found by the mark; 0 for none."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(b"%d\n" % root)
            self._process.stdin.flush()

    def dismiss(self) -> None:
        self._process.kill()
        self._process.communicate()


def watch(mark: str) -> None:
    """Wait for the end of standard input, then end the recording. See ``Watcher``."""
    said = sys.stdin.buffer.read().split()
    kill(mark, 0 if os.path.isdir("/proc/self") or not said else int(said[-1]))


def interrupt(pids: Iterable[int]) -> None:
    """Ask processes to finish, as Ctrl+C does."""
    _signal(pids, signal.SIGINT)


def _signal(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def _with_descendants(family: set[int], parents: Mapping[int, int]) -> set[int]:
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family = family | more
    return family


def _processes() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def state_and_parent(pid: int) -> tuple[str, int]:
    """The letter of the kernel for a process's state, empty where it is gone, and its parent."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            after_name = file.read().rpartition(")")[2].split()
        return after_name[0], int(after_name[1])
    except (OSError, IndexError, ValueError):
        return "", 0


def _environment(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read()
    except OSError:
        return b""


def _kill_without_proc(root: int) -> list[int]:
    if not root:
        return []
    if os.name == "nt":
        subprocess.run(["taskkill", "/PID", str(root), "/T", "/F"], capture_output=True, check=False)
        return []
    parents: dict[int, int] = {}
    with contextlib.suppress(OSError):
        listed = subprocess.run(
            ["ps", "-axo", "pid=,ppid="], capture_output=True, text=True, check=False
        ).stdout
        parents = {int(line.split()[0]): int(line.split()[1]) for line in listed.splitlines() if line.strip()}
    with contextlib.suppress(OSError):
        os.killpg(root, signal.SIGKILL)
    _signal(_with_descendants({root}, parents), signal.SIGKILL)
    return []


if __name__ == "__main__" and sys.argv[1:2] == ["watch"]:
    watch(sys.argv[2])
