"""A program that was started for a recording: here as a child process, elsewhere as one that is followed from here."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from viewer.capture.output_stream import Event
from viewer.capture.request import CaptureProblem
from viewer.remote.far import Far, FarState, Speaking
from viewer.remote.names import PlaceProblem, Unreachable

RECONNECT_SECONDS = 1800.0
_FIRST_PAUSE, _MAX_PAUSE = 0.5, 15.0


class Running(Protocol):
    """``pieces`` is read to its end by one thread; ``wait`` and ``leave`` may be called from any."""

    @property
    def pid(self) -> int:
        """The process of this machine that stands for it, 0 where there is none."""

    def pieces(self) -> Iterator[bytes]: ...

    def wait(self) -> int:
        """Wait for its end; the exit code. Raises ``Unreachable`` where the connection stays broken."""

    def leave(self) -> None:
        """Do not wait for a connection any longer; what runs elsewhere goes on."""


class ChildProcess:
    """A program of this machine."""

    def __init__(self, words: Sequence[str], folder: str | None, environment: Mapping[str, str]) -> None:
        new_group = subprocess.CREATE_NEW_PROCESS_GROUP if os.name == "nt" else 0  # type: ignore[attr-defined,unused-ignore]
        try:
            self._process = subprocess.Popen(
                list(words),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=dict(environment),
                start_new_session=True,
                creationflags=new_group,
            )
        except OSError as error:
            raise CaptureProblem(
                f"{words[0]} could not be started: {error.strerror or error}.", "Check its path."
            ) from error

    @property
    def pid(self) -> int:
        return self._process.pid

    def pieces(self) -> Iterator[bytes]:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        with self._process.stdout:
            while data := os.read(descriptor, 1 << 16):
                yield data

    def wait(self) -> int:
        return self._process.wait()

    def leave(self) -> None:
        pass


class FollowedProgram:
    """A program elsewhere: its output is read from where it was left whenever a connection breaks."""

    def __init__(self, far: Far, folder: str, job: str, tell: Callable[[Event], None]) -> None:
        self._far = far
        self._folder = folder
        self._job = job
        self._tell = tell
        self._left = threading.Event()
        self._ended = threading.Event()
        self._exit_code = 0
        self._lost: Unreachable | None = None
        self._problem: PlaceProblem | None = None
        self._speaking: Speaking | None = None

    @property
    def pid(self) -> int:
        speaking = self._speaking
        return speaking.pid if speaking is not None else 0

    @property
    def is_connected(self) -> bool:
        """Whether the connection stood when it was last used."""
        return self._lost is None

    def pieces(self) -> Iterator[bytes]:
        read = 0
        try:
            while True:
                try:
                    for piece in self._follow(read):
                        read += len(piece)
                        yield piece
                    state = self._state()
                    if not state.running and read >= state.printed:
                        self._exit_code = state.exit_code
                        return
                except Unreachable as lost:
                    if not self._reconnect(lost):
                        return
        except PlaceProblem as problem:
            self._problem = problem
        finally:
            self._ended.set()

    def wait(self) -> int:
        self._ended.wait()
        if self._lost is not None:
            raise self._lost
        if self._problem is not None:
            raise CaptureProblem(str(self._problem))
        return self._exit_code

    def leave(self) -> None:
        self._left.set()

    def _state(self) -> FarState:
        return self._far.state(self._folder, self._job)

    def _follow(self, read: int) -> Iterator[bytes]:
        with self._far.speaking("follow", self._folder, self._job, str(read + 1)) as speaking:
            self._speaking = speaking
            yield from speaking.pieces()
            if speaking.is_lost:
                raise Unreachable(self._far.name, "The connection was lost.", "Check the connection.")

    def _reconnect(self, lost: Unreachable) -> bool:
        self._lost = lost
        self._tell(Event("lost", values={"text": f"the run continues on {self._far.name}"}))
        until = time.monotonic() + RECONNECT_SECONDS
        pause = _FIRST_PAUSE
        while time.monotonic() < until and not self._left.wait(pause):
            try:
                self._far.open()
                self._state()
            except Unreachable as again:
                self._lost = again
                pause = min(2 * pause, _MAX_PAUSE)
                continue
            self._lost = None
            self._tell(Event("found"))
            return True
        return False
