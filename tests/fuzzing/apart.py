"""Inputs in processes that may take so much processor time, time and memory for each, and no more.

The processes are forked from a server that has loaded everything (``tests.fuzzing.loaded``). One tries some inputs, one
after the other, each with limits of its own; a fault ends it.
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
from typing import Any

from tests.fuzzing.trial import MAX_BYTES, MAX_SECONDS, OPENED, REFUSED, Ask, use_file

MAX_WAIT_S = float(os.environ.get("FUZZING_WAIT_S", MAX_SECONDS))  # by the clock
# what one left behind is not long the next one's
INPUTS_OF_PROCESS = int(os.environ.get("FUZZING_INPUTS", "40"))
_WRITING_S, _LOOK_EVERY_S = 5.0, 0.02
_PEAK_AGAIN = "5"  # proc(5): the peak of a process counts from now on
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
        self._process: _Process | None = None

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
            self.end()
            raise AssertionError(f"left beside the recording, or among the temporary files: {left}")
        return outcome

    def end(self) -> None:
        """End the process that tries inputs, where there is one."""
        if self._process is not None:
            self._process.end()
            self._process = None

    def _cleared(self) -> list[str]:
        """The names of what lay in the folders, which are empty then."""
        left = [*self._folder.iterdir(), *self._temporary.iterdir()]
        for each in left:
            shutil.rmtree(each) if each.is_dir() else each.unlink()
        return sorted(each.name for each in left)

    def _tried(self) -> str:
        if self._process is None:
            self._stack.write_bytes(b"")
            places = self._file, self._stack, self._temporary
            self._process = _Process(self._use, self.format, places)
        try:
            kind, told, more = self._answered(self._process)
        except BaseException:
            self.end()
            raise
        self._process.inputs += 1
        if kind == "fault" or self._process.inputs >= INPUTS_OF_PROCESS:
            self.end()
        if kind == "fault":
            raise Fault(told, more)
        self.forms.add(more)
        return kind

    def _answered(self, process: _Process) -> tuple[str, Any, Any]:
        """What the process says of the input in the end."""
        end = time.monotonic() + MAX_WAIT_S
        with contextlib.suppress(EOFError, ConnectionError):
            process.pipe.send(self._chance.random())
            while process.pipe.poll(max(end - time.monotonic(), 0)):
                kind, told, more = process.pipe.recv()
                if kind != "form":
                    return kind, told, more
                process.pipe.send(told not in self.forms)
                self.forms.add(told)
            process.write_down()
            self._wait_until_written()
            raise Endless(self._place(), f"no end after {MAX_WAIT_S:g} s\n{self._doing()}")
        raise Fault(self._place(), f"ended by {_ending(process.exit_code())}\n{self._doing()}")

    def _wait_until_written(self) -> None:
        """Until where it is has been written, and nothing has been added for a moment."""
        written, end = 0, time.monotonic() + _WRITING_S
        while time.monotonic() < end:
            time.sleep(_LOOK_EVERY_S)
            if written == (written := self._stack.stat().st_size) and written:
                return

    def _doing(self) -> str:
        return self._stack.read_text("utf-8", "replace")

    def _place(self) -> str:
        """Where it was in this program, as far as it tells one fault from another."""
        ours = [line for line in self._doing().splitlines() if f"{_ROOT}/" in line and "/.venv/" not in line]
        return " ".join(ours[:2])


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        return (
            f"{name}: more than {MAX_SECONDS:g} s of processor time"
            if name in ("SIGKILL", "SIGXCPU")
            else name
        )
    return f"exit code {code}"


class _Process:
    """A process that tries inputs, and a pipe to it."""

    def __init__(self, use: Use, format: str, places: tuple[Path, Path, Path]) -> None:
        self.inputs = 0
        self.pipe, there = _APART.Pipe()
        self._process = _APART.Process(target=_serve, args=(use, format, *places, there))
        self._process.start()
        there.close()

    def write_down(self) -> None:
        """Have it write down where it is."""
        os.kill(self._process.pid or 0, signal.SIGXCPU)

    def exit_code(self) -> int | None:
        self._process.join(MAX_SECONDS)
        return self._process.exitcode

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self._process.close()
        self.pipe.close()


def _serve(use: Use, format: str, file: Path, stack: Path, temporary: Path, asker: Connection) -> None:
    """Try one input after the other in this process: each is in ``file`` when its seed comes."""
    tempfile.tempdir = os.environ["TMPDIR"] = str(temporary)
    with stack.open("w") as where:
        faulthandler.enable(where)
        faulthandler.register(signal.SIGXCPU, where, chain=True)  # and then it ends

        def is_wanted(form: Hashable) -> bool:
            asker.send(("form", form, None))
            return bool(asker.recv())

        with contextlib.suppress(EOFError):
            while True:
                seed = asker.recv()
                _limit()
                asker.send(_said(use, format, file, random.Random(seed), is_wanted))


def _said(use: Use, format: str, file: Path, chance: random.Random, ask: Ask) -> tuple[str, Any, Any]:
    try:
        return _outcome(use, format, file, chance, ask)
    except BaseException as fault:
        places = [f"{each.filename}:{each.lineno}" for each in traceback.extract_tb(fault.__traceback__)]
        told = "".join(traceback.format_exception(fault))
        return "fault", " ".join([type(fault).__name__, *places]), told


def _outcome(
    use: Use, format: str, file: Path, chance: random.Random, ask: Ask
) -> tuple[str, None, Hashable]:
    before = _peak()
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # numpy met a number that nobody thought of
        place = use(format, file, chance, ask)
    if _peak() - before > MAX_BYTES:
        raise MemoryError(f"{(_peak() - before) >> 20} MB")
    gc.collect()  # with a trace goes what was unpacked for it
    return (OPENED if place is None else REFUSED), None, place


def _limit() -> None:
    """Processor time, and memory above what is there already."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    spent = used.ru_utime + used.ru_stime
    resource.setrlimit(
        resource.RLIMIT_CPU, (round(spent + MAX_SECONDS), resource.getrlimit(resource.RLIMIT_CPU)[1])
    )
    if sys.platform == "linux":
        most = (_of_status("VmData") << 10) + MAX_BYTES
        resource.setrlimit(resource.RLIMIT_DATA, (most, resource.getrlimit(resource.RLIMIT_DATA)[1]))
        Path("/proc/self/clear_refs").write_text(_PEAK_AGAIN)


def _peak() -> int:
    """Bytes of memory, the most since ``_limit`` was called."""
    if sys.platform == "linux":
        return _of_status("VmHWM") << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _of_status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))
