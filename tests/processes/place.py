"""Surroundings in which one command runs, and what it leaves behind in them: processes, files, memory.

Every process started here carries a mark in its environment, which all it starts inherit; so none is overlooked,
whoever its parent is by then.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from types import TracebackType

from parsers.model.late import dataclass
from tests.processes.installed import LOAD, Installed

MARK = "STARTED_BY_THE_TESTS"
HANGS_AFTER_S = 180.0  # generous, also where many others use the machine: what takes so long has no end
GONE_AFTER_S = 20.0  # in which helpers notice that nobody needs them
_WATCH_S = 0.05
FREE, BUSY = "0", "99"  # loads of a machine
# where the program may keep something, relative to HOME
KEPT = (".cache/stallscope", ".local/share/stallscope", ".local/state/stallscope", ".config/stallscope")

Word = str | bytes | Path


def processes_with(mark: str, others: Collection[str] = ()) -> list[int]:
    """The processes that carry a mark and have not ended; ``others`` are known not to carry it."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for process in os.listdir("/proc"):
        if process.isdecimal() and process not in others:
            with contextlib.suppress(OSError):
                if wanted in Path("/proc", process, "environ").read_bytes().split(b"\0"):
                    found.append(int(process))
    return found


def told_of(process: int) -> str:
    """One line on a process: its number, its state, and how it was started."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        words = Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return f"{process} (gone)"
    return f"{process} ({state}) {words[:200]}"


def own_bytes(process: int) -> int:
    """Memory that belongs to a process, without mapped files."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
        return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("RssAnon", "RssShmem")))
    return 0


def is_tracker(process: int) -> bool:
    """Whether it is what the standard library keeps the locks of a pool with."""
    try:
        return b"multiprocessing.resource_tracker" in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False


def kill(processes: Sequence[int]) -> None:
    """End what a failed test would leave."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended; ``peak`` in bytes, of it and all its helpers together."""

    code: int
    out: bytes
    err: str
    peak: int
    seconds: float


class Hangs(AssertionError):
    """A command did not end in time."""


class Running:
    """A command that was started, with its memory watched."""

    def __init__(self, process: subprocess.Popen[bytes], mark: str, what: str) -> None:
        self.process = process
        self.peak = 0
        self._what = what
        self._mark = mark
        self._begun = time.monotonic()
        self._others = {*os.listdir("/proc")}.difference(map(str, processes_with(mark)))
        self._ended = threading.Event()
        self._watch = threading.Thread(target=self._look, daemon=True)
        self._watch.start()

    def __enter__(self) -> Running:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            kill(processes_with(self._mark))
        self._stop_watching()

    def _look(self) -> None:
        while not self._ended.wait(_WATCH_S):
            own = processes_with(self._mark, self._others)
            self.peak = max(self.peak, sum(map(own_bytes, own)))

    def _stop_watching(self) -> None:
        self._ended.set()
        self._watch.join()

    def send(self, number: int, helper: bool = False) -> bool:
        """Send a signal to it, or to its helpers; whether there was anybody to send it to."""
        own = self.process.pid
        victims = [each for each in processes_with(self._mark) if (each != own) == helper]
        if number == signal.SIGKILL:  # a system without memory ends the largest
            victims = [each for each in victims if not is_tracker(each)]
        for victim in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, number)
        return bool(victims)

    def done(self, given: bytes | None = None, within: float = HANGS_AFTER_S) -> Done:
        """Wait for its end; raises ``Hangs`` when there is none."""
        try:
            out, err = self.process.communicate(given, within)
        except subprocess.TimeoutExpired:
            left = processes_with(self._mark)
            told = "\n".join(map(told_of, left))
            kill(left)
            out, err = self.process.communicate()
            said = (err or b"").decode("utf-8", "replace")[-500:]
            raise Hangs(f"{self._what}: no end within {within:.0f} s\n{told}\n{said}") from None
        finally:
            self._stop_watching()
        taken = time.monotonic() - self._begun
        return Done(
            self.process.returncode, out or b"", (err or b"").decode("utf-8", "replace"), self.peak, taken
        )


@dataclass(slots=True)
class Place:
    """A home, a folder for temporary files and a working folder of one test's own."""

    root: Path
    installed: Installed
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    load: str = FREE  # how busy the machine seems to the commands
    peak: int = 0
    names: set[str] = field(default_factory=set)  # of what was given

    def __post_init__(self) -> None:
        for folder in (self.home, self.temporary, self.runtime, self.working, self.given, self.written):
            folder.mkdir(parents=True, exist_ok=True)

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def temporary(self) -> Path:
        return self.root / "tmp"

    @property
    def runtime(self) -> Path:
        """Where windows of one session find one another."""
        return self.root / "run"

    @property
    def working(self) -> Path:
        """Where commands are started, and nothing is to be written."""
        return self.root / "work"

    @property
    def given(self) -> Path:
        """Where recordings lie, and nothing is to be written either."""
        return self.root / "given"

    @property
    def written(self) -> Path:
        """Where commands are told to write."""
        return self.root / "written"

    @property
    def cache(self) -> Path:
        return self.home / ".cache" / "stallscope"

    def give(self, recording: Path, name: str | bytes = "") -> Path:
        """A recording, or a folder of them, as one of this place, under its own name or another."""
        path = self.given / os.fsdecode(name or recording.name)
        self.names.add(path.name)
        if recording.is_dir():
            shutil.copytree(recording, path, copy_function=os.link)
            self.names.update(each.name for each in path.iterdir())
        else:
            os.link(recording, path)
        return path

    def environment(self) -> dict[str, str]:
        """What a bare session has, the mark, and how busy the machine seems."""
        return {
            "HOME": str(self.home),
            "PATH": f"{self.installed.programs}:/usr/local/bin:/usr/bin:/bin",
            "TMPDIR": str(self.temporary),
            "XDG_RUNTIME_DIR": str(self.runtime),
            "LANG": "C.UTF-8",
            "QT_QPA_PLATFORM": "offscreen",
            MARK: self.mark,
            LOAD: self.load,
        }

    @contextlib.contextmanager
    def started(
        self,
        *words: Word,
        under: Sequence[str] = (),
        changed: Mapping[str, str | None] | None = None,
        **streams: int,
    ) -> Iterator[Running]:
        """Start ``stallscope WORDS``; ``under`` is a command that starts it, ``changed`` of its environment."""
        around = {**self.environment(), **(changed or {})}
        command = [*under, self.installed.programs / "stallscope", *words]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(
            command,
            cwd=self.working,
            env={name: value for name, value in around.items() if value is not None},
            start_new_session=True,
            **{**pipes, **streams},  # type: ignore[call-overload]
        )
        what = " ".join(os.fsdecode(word) for word in words)
        with Running(process, self.mark, what) as running:
            yield running
        self.peak = max(self.peak, running.peak)

    def run(
        self,
        *words: Word,
        given: bytes | None = None,
        within: float = HANGS_AFTER_S,
        under: Sequence[str] = (),
        changed: Mapping[str, str | None] | None = None,
    ) -> Done:
        """Run a command to its end."""
        streams = {} if given is None else {"stdin": subprocess.PIPE}
        with self.started(*words, under=under, changed=changed, **streams) as running:
            return running.done(given, within)

    def left(self, is_killed: bool = False) -> list[str]:
        """What is left of commands that ended: one line each.

        Of one that could not clear away (``is_killed``) unpacked files may be there until the next one starts.
        """
        deadline = time.monotonic() + GONE_AFTER_S
        while (alive := processes_with(self.mark)) and time.monotonic() < deadline:
            time.sleep(0.02)
        told = [f"process {told_of(each)}" for each in alive]
        told += [f"in the working folder: {each.name}" for each in self.working.iterdir()]
        told += [
            f"beside a recording: {each.name}"
            for each in self.given.rglob("*")
            if each.name not in self.names
        ]
        if not is_killed:
            told += [f"in TMPDIR: {each.name}" for each in self.temporary.iterdir()]
            told += [f"unfinished in the cache: {each.name}" for each in self.cache.rglob(".*")]
        told += [
            f"in HOME: {each.relative_to(self.home)}"
            for each in self.home.rglob("*")
            if each.is_file() and not str(each.relative_to(self.home)).startswith(KEPT)
        ]
        return told
