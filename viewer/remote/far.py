"""A place that was reached: requests, and programs that go on there whatever becomes of the connection."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from parsers.model.late import dataclass
from viewer.remote.far_script import FOLDER_PREFIX, MARKED, far_words
from viewer.remote.names import BOUNDS, PlaceName, PlaceProblem, Queue, Reach, Unreachable

_READ_BYTES = 1 << 16
_MAX_BANNER_LENGTH = 1 << 20


@dataclass(frozen=True, slots=True)
class FarState:
    """Of a program that was started there: its exit code once it has ended, and the bytes it has printed."""

    running: bool
    exit_code: int
    printed: int


class Far:
    """Requests to one place. ``close`` ends the connection; it may be opened again."""

    def __init__(self, place: PlaceName) -> None:
        reach = place.reach()
        assert reach is not None, "this machine is no other place"
        self.place = place
        self._reach: Reach = reach
        self._queue: Queue | None = reach if isinstance(reach, Queue) else None
        self._base = self._queue.base(place.options) if self._queue is not None else ""
        self._opening = threading.Lock()

    @property
    def name(self) -> str:
        """As messages call it."""
        return self.place.title

    def open(self) -> None:
        with self._opening:
            self._reach.open()

    def close(self) -> None:
        self._reach.close()

    def ask(self, verb: str, *arguments: str, seconds: float = 0.0, content: bytes | None = None) -> str:
        """What the far script answers; raises ``Unreachable``, and ``PlaceProblem`` where it refuses."""
        words = self._reach.words(far_words(verb, *arguments))
        try:
            done = subprocess.run(
                words,
                capture_output=True,
                input=content,
                stdin=subprocess.DEVNULL if content is None else None,
                timeout=seconds or BOUNDS.request,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Unreachable(self.name, "It no longer answers.", "Check the connection.") from None
        except OSError as error:
            raise PlaceProblem(self.name, f"{words[0]} could not be started: {error.strerror}.") from error
        _, marked, answer = done.stdout.partition(MARKED)
        said = done.stderr.decode("utf-8", "replace")
        if not marked:
            raise self._no_answer(done.returncode, said)
        if done.returncode != 0:
            if self._reach.is_lost(done.returncode):
                raise Unreachable(self.name, "The connection was lost.", "Check the connection.")
            raise PlaceProblem(self.name, f"{_last_line(said) or 'It refused a request'}.")
        return answer.decode("utf-8", "surrogateescape")

    def _no_answer(self, exit_code: int, said: str) -> PlaceProblem:
        if self._reach.is_lost(exit_code):
            return Unreachable(
                self.name,
                f"It cannot be reached ({_last_line(said) or 'no answer'}).",
                "Check the connection.",
            )
        words = _last_line(said) or f"exit code {exit_code}"
        return PlaceProblem(self.name, f"Nothing can be run there ({words}).", "It needs a POSIX shell, sh.")

    def has(self, program: str) -> bool:
        """Whether there is such a program; raises ``Unreachable``."""
        try:
            self.ask("has", program)
        except Unreachable:
            raise
        except PlaceProblem:
            return False
        return True

    def make_folder(self, owner: str) -> str:
        """A new folder for us alone (0700), with a folder ``out`` in it; ``owner`` is an id and a process of it."""
        made = self.ask("make", self._base, owner).strip()
        if not made.startswith("/") or FOLDER_PREFIX not in made:
            raise PlaceProblem(self.name, f"No folder could be created there ({made or 'no answer'}).")
        return made

    def folders_of(self, owner: str) -> list[tuple[int, str]]:
        """The folders there that were made for an owner's id, each with the process that asked for it."""
        lines = [line.partition(" ") for line in self.ask("ours", self._base, owner).splitlines()]
        return [(int(pid), folder) for pid, _, folder in lines if pid.isdigit()]

    def put(self, content: bytes, path: str) -> None:
        self.ask("put", path, content=content)

    def start(
        self,
        folder: str,
        job: str,
        words: Sequence[str],
        cwd: str,
        settings: Mapping[str, str],
        spread: str = "",
    ) -> None:
        """Start a program that belongs to no connection; what it prints is kept in the folder.

        With a ``spread`` it is a job where the place has a scheduler; see ``Queue.submission``.
        """
        setup = self.place.setup
        if self._queue is not None and spread:
            words = self._queue.submission(folder, setup, self.place.options, spread, words)
            setup = ""
        pairs = [f"{key}={value}" for key, value in settings.items()]
        self.ask("start", folder, job, cwd, setup, *pairs, *words)

    def state(self, folder: str, job: str) -> FarState:
        """How far a program is; one that was ended from outside has exit code -9."""
        size, _, said = self.ask("state", folder, job).strip().partition("\n")
        if not size.strip().isdigit():
            raise PlaceProblem(self.name, "What was started there left no trace.", "Its folder is gone.")
        code = int(said) if said.lstrip("-").isdigit() else -9
        return FarState(said == "running", code, int(size))

    def names(self, folder: str) -> list[str]:
        return sorted(filter(is_plain_name, self.ask("names", folder).splitlines()))

    def remove(self, folder: str) -> None:
        self.ask("remove", folder)

    @contextlib.contextmanager
    def speaking(self, verb: str, *arguments: str) -> Iterator[Speaking]:
        """A request whose answer is read while it comes; it ends with the block."""
        process = subprocess.Popen(
            self._reach.words(far_words(verb, *arguments)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        speaking = Speaking(process, self._reach)
        try:
            yield speaking
        finally:
            speaking.end()


class Speaking:
    """The process of one request, read in pieces. ``end`` may be called from any thread."""

    def __init__(self, process: subprocess.Popen[bytes], reach: Reach) -> None:
        self._process = process
        self._reach = reach
        self._errors: list[bytes] = []
        self._listener = threading.Thread(target=self._listen, name="far errors", daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def pieces(self, look: Callable[[], None] = lambda: None) -> Iterator[bytes]:
        """The answer; ``look`` is called at least every 50 ms, and may raise to end it."""
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        before: bytes | None = b""
        while True:
            look()
            if os.name != "nt" and not select.select([descriptor], [], [], 0.05)[0]:
                continue
            data = os.read(descriptor, _READ_BYTES)
            if not data:
                return
            if before is None:
                yield data
                continue
            before += data
            _, marked, rest = before.partition(MARKED)
            if marked:
                before = None
                if rest:
                    yield rest
            elif len(before) > _MAX_BANNER_LENGTH:
                before = before[-len(MARKED) :]

    def exit_code(self) -> int:
        """How it ended; what it said is in ``said`` then."""
        code = self._process.wait()
        self._listener.join(2.0)
        return code

    @property
    def said(self) -> str:
        return b"".join(self._errors).decode("utf-8", "replace")

    @property
    def is_lost(self) -> bool:
        return self._reach.is_lost(self.exit_code())

    def end(self) -> None:
        process = self._process
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        if process.poll() is None:
            with contextlib.suppress(OSError):
                process.terminate()
            try:
                process.wait(2.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._listener.join(2.0)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()

    def _listen(self) -> None:
        assert self._process.stderr is not None
        with contextlib.suppress(OSError, ValueError):
            while data := os.read(self._process.stderr.fileno(), 4096):
                self._errors.append(data)
                del self._errors[:-64]


def is_plain_name(name: str) -> bool:
    """Whether what another machine lists is the name of a file in that folder, and not a way out of ours."""
    return (
        name.isprintable()
        and not any(letter in name for letter in '/\\:*?"<>|')
        and not name.startswith("-")
        and name not in ("", ".", "..")
    )


def free_path(path: Path) -> Path:
    """The path, or one beside it with a number, that is not taken."""
    number = 1
    free = path
    while free.exists():
        number += 1
        stem, dot, suffix = path.name.partition(".")
        free = path.with_name(f"{stem}-{number}{dot}{suffix}")
    return free


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].rstrip(".") if lines else ""
