"""Each input in a process of its own, which may take so much processor time, time and memory, and no more.

The processes are forked from a server that has loaded everything (``tests.fuzzing.loaded``), so one costs milliseconds.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Hashable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

from tests.fuzzing.trial import MOST_BYTES, MOST_S, OPENED, REFUSED, Ask, use_file

LONGEST_WAIT_S = float(os.environ.get("FUZZING_WAIT_S", MOST_S))  # by the clock
_WRITING_S = 0.5
_STACK, _ROOT = "stack", Path(__file__).parents[2]
_APART = get_context("forkserver")
_APART.set_forkserver_preload(["tests.fuzzing.loaded"])

Use = Callable[[str, Path, random.Random, Ask], Hashable]


class Fault(Exception):
    """What went wrong in the process of an input, as it told it; ``sort`` is the same for the same fault."""

    def __init__(self, sort: str, told: str) -> None:
        super().__init__(told)
        self.sort = sort


class Endless(Fault):
    """The process had to be ended, without having taken too much processor time."""


class Apart:
    """Inputs of one format, tried in a folder of their own; ``forms`` tells in how many ways they were read so far."""

    def __init__(self, format: str, folder: Path, chance: random.Random, use: Use = use_file) -> None:
        self.format = format
        self.forms: set[Hashable] = set()
        self._use, self._chance = use, chance
        self._folder, self._temporary = folder / "tried", folder / "temporary"
        self._folder.mkdir()
        self._temporary.mkdir()
        self._file, self._stack = self._folder / "input", folder / _STACK

    def of(self, data: bytes) -> str:
        """``OPENED`` or ``REFUSED``. Anything else is raised: a fault of the program."""
        self._cleared()
        self._file.write_bytes(data)
        try:
            outcome = self._tried()
        except Endless:
            self._cleared()
            self._file.write_bytes(data)
            outcome = self._tried()  # once more, for the machine may have been busy
        self._file.unlink()
        if left := self._cleared():
            raise AssertionError(f"left beside the recording, or among the temporary files: {left}")
        return outcome

    def _cleared(self) -> list[str]:
        """The names of what lay in the folders, which are empty then."""
        left = [*self._folder.iterdir(), *self._temporary.iterdir()]
        for each in left:
            shutil.rmtree(each) if each.is_dir() else each.unlink()
        return sorted(each.name for each in left)

    def _tried(self) -> str:
        self._stack.write_bytes(b"")
        here, there = _APART.Pipe()
        places = self._file, self._stack, self._temporary
        arguments = self._use, self.format, self._chance.random(), *places, there
        process = _APART.Process(target=_serve, args=arguments)
        process.start()
        there.close()
        try:
            with contextlib.suppress(EOFError, ConnectionResetError):
                end = time.monotonic() + LONGEST_WAIT_S
                while here.poll(max(end - time.monotonic(), 0)):
                    kind, told, more = here.recv()
                    if kind == "form":
                        here.send(told not in self.forms)
                        self.forms.add(told)
                    elif kind == "fault":
                        raise Fault(told, more)
                    else:
                        self.forms.add(more)
                        return str(kind)
                os.kill(process.pid or 0, signal.SIGXCPU)  # it writes down where it is
                time.sleep(_WRITING_S)
                raise Endless(self._place(), f"no end after {LONGEST_WAIT_S:g} s\n{self._doing()}")
            process.join(MOST_S)
            raise Fault(self._place(), f"ended by {_ending(process.exitcode)}\n{self._doing()}")
        finally:
            process.kill()
            process.join()
            process.close()
            here.close()

    def _doing(self) -> str:
        return self._stack.read_text("utf-8", "replace")

    def _place(self) -> str:
        """Where it was in this program, as far as it tells one fault from another."""
        ours = [line for line in self._doing().splitlines() if f"{_ROOT}/" in line and "/.venv/" not in line]
        return " ".join(ours[:2])


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        return f"{name}: more than {MOST_S:g} s of processor time" if name in ("SIGKILL", "SIGXCPU") else name
    return f"exit code {code}"


def _serve(
    use: Use, format: str, seed: float, file: Path, stack: Path, temporary: Path, asker: Connection
) -> None:
    """Try one input in this process."""
    tempfile.tempdir = os.environ["TMPDIR"] = str(temporary)
    with stack.open("w") as where:
        faulthandler.enable(where)
        faulthandler.register(signal.SIGXCPU, where)
        _limit()

        def is_wanted(form: Hashable) -> bool:
            asker.send(("form", form, None))
            return bool(asker.recv())

        try:
            asker.send(_outcome(use, format, file, random.Random(seed), is_wanted))
        except BaseException as fault:
            places = [f"{each.filename}:{each.lineno}" for each in traceback.extract_tb(fault.__traceback__)]
            told = "".join(traceback.format_exception(fault))
            asker.send(("fault", " ".join([type(fault).__name__, *places]), told))


def _outcome(
    use: Use, format: str, file: Path, chance: random.Random, ask: Ask
) -> tuple[str, None, Hashable]:
    before = _peak()
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # numpy met a number that nobody thought of
        place = use(format, file, chance, ask)
    if _peak() - before > MOST_BYTES:
        raise MemoryError(f"{(_peak() - before) >> 20} MB")
    gc.collect()  # with a trace goes what was unpacked for it
    return (OPENED if place is None else REFUSED), None, place


def _limit() -> None:
    """Processor time, and memory above what is there already."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    spent = used.ru_utime + used.ru_stime
    resource.setrlimit(resource.RLIMIT_CPU, (round(spent + MOST_S), round(spent + MOST_S) + 1))
    if sys.platform == "linux":
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmData:"):
                most = (int(line.split()[1]) << 10) + MOST_BYTES
                resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
