"""A copy of this process that serves as a helper: it starts at once, with all that this one has loaded."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable
from typing import IO

_MISSED_BY_NOBODY: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


def start_thread_no_copy_needs(target: Callable[[], object]) -> None:
    """Start a thread that waits, holds nothing that others need, and would be of no use in a copy."""
    thread = threading.Thread(target=target, daemon=True)
    _MISSED_BY_NOBODY.add(thread)
    thread.start()


def can_copy() -> bool:
    """Whether this process may be copied: the threads of one that has several would be missing in the copy."""
    needed = set(threading.enumerate()) - set(_MISSED_BY_NOBODY)
    return sys.platform == "linux" and len(needed) == 1


class CopiedProcess:
    """Runs ``work`` in the copy, between whose standard input and output and this process lie pipes.

    Has what is needed here of ``subprocess.Popen``. Raises ``OSError`` when there can be no copy.
    """

    def __init__(self, work: Callable[[], None], own_group: bool) -> None:
        asked, asking = os.pipe()
        answering, answer = os.pipe()
        self.returncode: int | None = None
        self.pid = os.fork()
        if not self.pid:
            _be_a_helper(work, asked, answer, own_group)
        if own_group:
            with contextlib.suppress(OSError):  # it ended already
                os.setpgid(self.pid, self.pid)  # both say it: neither waits for the other
        os.close(asked)
        os.close(answer)
        self.stdin: IO[bytes] = os.fdopen(asking, "wb")
        self.stdout: IO[bytes] = os.fdopen(answering, "rb")

    def poll(self) -> int | None:
        """The exit code, minus the signal that ended it; None while it runs."""
        return self._ended(os.WNOHANG)

    def wait(self) -> int:
        code = self._ended(0)
        assert code is not None
        return code

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def _ended(self, how: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, how)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode


def _be_a_helper(work: Callable[[], None], asked: int, answer: int, own_group: bool) -> None:
    """What the copy does; it never returns to what this process was doing."""
    with contextlib.suppress(BaseException):
        if own_group:
            os.setpgid(0, 0)
        for found, wanted in ((asked, 0), (answer, 1), (os.open(os.devnull, os.O_WRONLY), 2)):
            os.dup2(found, wanted)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        sys.stdin = os.fdopen(0, closefd=False)
        sys.stdout = sys.stderr = os.fdopen(2, "w", closefd=False)
        work()
    os._exit(1)
