"""Processes of this program that do a part of its work: how one is asked, listened to, and ended with all it started.

A helper gets its request as the first line of its standard input and answers on its standard output. The input stays
open: its end means that nobody listens any more, so no helper outlives the process that started it.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import queue
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO

from parsers.copied_process import CopiedProcess, can_copy, start_thread_no_copy_needs

# the frozen program has no interpreter to run: it starts itself with this word
FROZEN_WORD = "--helper-process"
CODE = """import importlib, sys
sys.path.insert(0, sys.argv[1])
importlib.import_module(sys.argv[3]).serve(sys.argv[2])
"""
_FIRST_TO_END_WITHOUT_MEMORY = "800"  # of 1000: rather a helper than whom it helps


class HelperProcess:
    """A running helper: ``module`` has a function ``serve(request, answer)``, which gets the line and a pipe.

    ``pieces`` cuts what it answers; by default these are lines. With ``own_group`` the helpers that this one starts
    end with it. ``copied`` makes it a copy of this process, which starts sooner, where that can be. The process ends
    with this object. Raises ``OSError`` when it cannot be started.
    """

    def __init__(
        self,
        module: str,
        request: bytes,
        pieces: Callable[[IO[bytes]], Iterable[bytes]] = iter,
        own_group: bool = False,
        copied: bool = False,
    ) -> None:
        self._pieces: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.process = _started(module, own_group, copied)
        weakref.finalize(self, _end, self.process, own_group)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it ended already, which its answer will show
            self.process.stdin.write(request + b"\n")
            self.process.stdin.flush()
        self._own_group = own_group
        self._listener = threading.Thread(
            target=_listen,
            args=(self.process.stdout, pieces, self._pieces),
            name="helper process",
            daemon=True,
        )
        self._listener.start()

    def next(self, timeout_s: float) -> bytes | None:
        """The next piece; None once it has said everything. Raises ``queue.Empty`` when there is none in time."""
        return self._pieces.get(timeout=timeout_s)

    def end(self) -> int:
        """End the process, whatever it is doing, and what it started; its exit code."""
        _end(self.process, self._own_group)
        self._listener.join()
        return self.process.wait()


def _started(module: str, own_group: bool, copied: bool) -> subprocess.Popen[bytes] | CopiedProcess:
    if copied and can_copy():
        return CopiedProcess(lambda: serve(module), own_group)
    return subprocess.Popen(
        _command(module),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=own_group,
    )


def serve(module: str) -> None:
    """What a helper does: serve one request, and end without clearing away what its asker still needs."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_END_WITHOUT_MEMORY)
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing that a library prints may get into the answer
    request = sys.stdin.buffer.readline().rstrip(b"\n")
    start_thread_no_copy_needs(_end_with_the_asker)
    with contextlib.suppress(BrokenPipeError):
        importlib.import_module(module).serve(request, answer)
        answer.close()
    os._exit(0)


def _end_with_the_asker() -> None:
    while sys.stdin.buffer.read(1 << 12):
        pass
    os._exit(1)


def _command(module: str) -> list[str]:
    if getattr(sys, "frozen", False):
        return [sys.executable, FROZEN_WORD, module]
    if not sys.executable:
        raise OSError(errno.ENOENT, "there is no interpreter to start")
    ours = str(Path(__file__).resolve().parents[__name__.count(".")])
    return [sys.executable, "-I", "-c", CODE, ours, module, __name__]


def _listen(
    pipe: IO[bytes],
    pieces: Callable[[IO[bytes]], Iterable[bytes]],
    heard: queue.SimpleQueue[bytes | None],
) -> None:
    with pipe:
        for piece in pieces(pipe):
            heard.put(piece)
    heard.put(None)


def _end(process: subprocess.Popen[bytes] | CopiedProcess, own_group: bool) -> None:
    if process.poll() is None:
        if own_group and sys.platform != "win32":
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.wait()
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
