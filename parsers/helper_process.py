"""Processes of this program that do a part of its work: how one is asked, listened to, and ended with all it started.

A helper gets its request as the first line of its standard input and answers on its standard output. The input stays
open: its end means that nobody listens any more. On Linux the kernel ends a helper with its asker as well, whatever the
helper is doing then, so that none outlives the process that started it.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import queue
import select
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import IO

# the frozen program has no interpreter to run: it starts itself with this word
FROZEN_WORD = "--helper-process"
CODE = """import importlib, sys
sys.path.insert(0, sys.argv[1])
sys.path += [each for each in sys.argv[5:] if each not in sys.path]
importlib.import_module(sys.argv[4]).serve(sys.argv[2], int(sys.argv[3]))
"""
_FIRST_TO_END_WITHOUT_MEMORY = "800"  # of 1000: rather a helper than whom it helps
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_BYTES_AT_ONCE = 1 << 16
_later: queue.SimpleQueue[bytes] = queue.SimpleQueue()


class HelperProcess:
    """A running helper: ``module`` has a function ``serve(request, answer)``, which gets the line and a pipe.

    ``pieces`` cuts what it answers; by default these are lines. With ``own_group`` the helpers that this one starts
    end with it. Without a ``request`` the process only loads the module, and its function ``prepare`` is called if it
    has one; ``ask`` then hands over the request. The process ends with this object. Raises ``OSError`` when it cannot
    be started.
    """

    def __init__(
        self,
        module: str,
        request: bytes | None,
        pieces: Callable[[IO[bytes]], Iterable[bytes]] = iter,
        own_group: bool = False,
    ) -> None:
        self._pieces: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.process = _started(_command(module), own_group)
        weakref.finalize(self, _end, self.process, own_group)
        self._own_group = own_group
        if request is not None:
            self.ask(request)
        assert self.process.stdout is not None
        self._listener = threading.Thread(
            target=_listen,
            args=(self.process.stdout, pieces, self._pieces),
            name="helper process",
            daemon=True,
        )
        self._listener.start()

    def ask(self, request: bytes) -> None:
        """Hand over the request, or one of the lines that ``later_lines`` gives the helper."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it ended already, which its answer will show
            self.process.stdin.write(request + b"\n")
            self.process.stdin.flush()

    def next(self, timeout_s: float) -> bytes | None:
        """The next piece; None once it has said everything. Raises ``queue.Empty`` when there is none in time."""
        return self._pieces.get(timeout=timeout_s)

    def end(self) -> int:
        """End the process, whatever it is doing, and what it started; its exit code."""
        _end(self.process, self._own_group)
        self._listener.join()
        return self.process.wait()


def _started(command: list[str], own_group: bool) -> subprocess.Popen[bytes]:
    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=own_group,
        )

    return _starting_thread().submit(start).result()


@cache
def _starting_thread() -> ThreadPoolExecutor:
    """Linux ends a helper with the thread that started it: this one lasts as long as the process."""
    return ThreadPoolExecutor(1, "starts helpers")


def serve(module: str, asker: int) -> None:
    """What a helper of the process ``asker`` does: serve one request, and leave what its asker still needs."""
    end_with(asker)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_END_WITHOUT_MEMORY)
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing that a library prints may get into the answer
    loaded = importlib.import_module(module)
    getattr(loaded, "prepare", int)()
    request, rest = _first_line()
    threading.Thread(target=_listen_to_the_asker, args=(rest,), daemon=True).start()
    with contextlib.suppress(BrokenPipeError):
        loaded.serve(request, answer)
        answer.close()
    os._exit(0)


def end_with(asker: int) -> None:
    """Have the kernel end this process when the one that started it ends; elsewhere than on Linux, nothing."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != asker:
            os._exit(1)


def _first_line() -> tuple[bytes, bytes]:
    """And what came with it; by the descriptor: a buffered stream has a lock, whose holder may be waiting for ever."""
    said = b""
    while b"\n" not in said:
        if not (read := os.read(0, _BYTES_AT_ONCE)):
            os._exit(1)
        said += read
    line, _, rest = said.partition(b"\n")
    return line, rest


def _listen_to_the_asker(rest: bytes) -> None:
    while True:
        *lines, rest = rest.split(b"\n")
        for line in lines:
            _later.put(line)
        if not (read := os.read(0, _BYTES_AT_ONCE)):
            os._exit(1)
        rest += read


def is_asked() -> bool:
    """In a helper that prepares itself: whether its request is there by now; False where the system does not tell."""
    if sys.platform == "win32":  # which tells it of sockets alone
        return False
    return bool(select.select([0], [], [], 0)[0])


def later_lines() -> Iterator[bytes]:
    """In a helper: what its asker says after the request, a line each, for as long as there is an asker."""
    while True:
        yield _later.get()


def _command(module: str) -> list[str]:
    asker = str(os.getpid())
    if getattr(sys, "frozen", False):
        return [sys.executable, FROZEN_WORD, module, asker]
    if not sys.executable:
        raise OSError(errno.ENOENT, "there is no interpreter to start")
    ours = str(Path(__file__).resolve().parents[__name__.count(".")])
    return [sys.executable, "-I", "-c", CODE, ours, module, asker, __name__, *_library_folders()]


def _library_folders() -> list[str]:
    """Where libraries were found here, such as what PYTHONPATH names, which a helper does not read by itself.

    The folder that the user is in is left out: files that somebody sent may lie there.
    """
    try:
        here = os.getcwd()
    except FileNotFoundError:
        here = ""
    return [each for each in sys.path if os.path.isabs(each) and each != here]


def _listen(
    pipe: IO[bytes], pieces: Callable[[IO[bytes]], Iterable[bytes]], heard: queue.SimpleQueue[bytes | None]
) -> None:
    with pipe:
        for piece in pieces(pipe):
            heard.put(piece)
    heard.put(None)


def _end(process: subprocess.Popen[bytes], own_group: bool) -> None:
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
