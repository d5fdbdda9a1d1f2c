"""What the processes that read recordings and those who start them say to each other: one line of JSON each."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

from parsers.files.decoders import from_json
from parsers.model import SYSTEM_ERRORS, Malformed, TraceError, UnknownFormat, refused_by_system
from parsers.storage.handover import Handover
from viewer.query.errors import MemoryReached, QueryError


class Wanted(msgspec.Struct, tag=True, frozen=True):
    """What to read; columns that the cache does not take go below ``folder``.

    With ``handed`` nothing is read: these columns of an earlier process are analysed. What is ``only_read`` is not.
    """

    paths: tuple[str, ...]
    folder: str
    preview_events: int
    thresholds: dict[str, float]  # those that are not at their default
    handed: Handover | None = None
    only_read: bool = False


class Step(msgspec.Struct, tag=True, frozen=True):
    """How far it is."""

    fraction: float
    doing: str


class Preview(msgspec.Struct, tag=True, frozen=True):
    """The first events can be looked at."""

    trace: Handover


class Read(msgspec.Struct, tag=True, frozen=True):
    """All of it is read, and its drawing index lies in a file; in none where nothing is to be drawn."""

    trace: Handover
    index: str = ""


class Analysed(msgspec.Struct, tag=True, frozen=True):
    """The diagnosis is there: a ``rules.handover.FoundOut`` as JSON, and a file of ``parsers.storage.columns``."""

    plain: bytes
    columns: str


class Refused(msgspec.Struct, tag=True, frozen=True):
    """The files cannot be used, or the system refused, and their owner can do something about it."""

    kind: str
    path: str
    problem: str
    hint: str

    @staticmethod
    def of(error: TraceError) -> Refused:
        return Refused(type(error).__name__, str(error.path), error.problem, error.hint)

    def error(self) -> TraceError:
        kinds = {each.__name__: each for each in (TraceError, Malformed, UnknownFormat)}
        return kinds.get(self.kind, TraceError)(Path(self.path), self.problem, self.hint)


class NoRoom(msgspec.Struct, tag=True, frozen=True):
    """All is well, but what was read cannot be handed over."""

    reason: str


class Failed(msgspec.Struct, tag=True, frozen=True):
    """A mistake of the program."""

    kind: str
    report: str


class Hold(msgspec.Struct, tag=True, frozen=True):
    """Which runs to hold, each by its files, and the memory (bytes) that a question may use.

    With ``handed`` nothing is read: it is the trace of the only run. What is unpacked goes below ``folder``.
    """

    runs: tuple[tuple[str, ...], ...]
    folder: str
    memory: int
    thresholds: dict[str, float] = {}  # those that are not at their default
    handed: Handover | None = None


class Call(msgspec.Struct, tag=True, frozen=True):
    """Answer by a function of this program, which gets the analyses, a progress and these arguments."""

    module: str
    function: str
    arguments: dict[str, Any]


class Stop(msgspec.Struct, tag=True, frozen=True):
    """Nobody waits for the answer any more."""


class More(msgspec.Struct, tag=True, frozen=True):
    """A part of the answer was taken."""


class Held(msgspec.Struct, tag=True, frozen=True):
    """The runs are there: calls are answered."""


class Asking(msgspec.Struct, tag=True, frozen=True):
    """The database works from now on: limits of questions hold."""


class Part(msgspec.Struct, tag=True, frozen=True):
    """A part of the answer."""

    content: bytes


class Answered(msgspec.Struct, tag=True, frozen=True):
    """The answer is complete."""


class Stopped(msgspec.Struct, tag=True, frozen=True):
    """As was wanted."""


class Mistaken(msgspec.Struct, tag=True, frozen=True):
    """The question cannot be answered."""

    problem: str
    hint: str
    word: str
    place: int
    is_short_of_memory: bool = False

    @staticmethod
    def of(error: QueryError) -> Mistaken:
        is_short = isinstance(error, MemoryReached)
        return Mistaken(error.problem, error.hint, error.word, error.place, is_short)

    def error(self) -> QueryError:
        return QueryError(self.problem, self.hint, self.word, self.place)


Message = (
    Step | Preview | Read | Analysed | Refused | NoRoom | Failed | Held
    | Asking | Part | Answered | Stopped | Mistaken
)  # fmt: skip


def line_of(message: Message | Wanted | Hold | Call | Stop | More) -> bytes:
    """One line, without its end."""
    try:
        return msgspec.json.encode(message)
    except UnicodeEncodeError:  # the name of a file may hold bytes that are no text
        return json.dumps(msgspec.to_builtins(message)).encode("ascii")


def message_of(line: bytes) -> Message:
    """The message of a line; raises ``msgspec.ValidationError`` and other kinds of ``ValueError``."""
    message: Message = _decoded(line, Message)
    return message


def wanted_of(line: bytes) -> Wanted | Hold:
    """The first line that a process gets."""
    wanted: Wanted | Hold = _decoded(line, Wanted | Hold)
    return wanted


def order_of(line: bytes) -> Call | Stop | More:
    """A later line for a process that holds a recording."""
    order: Call | Stop | More = _decoded(line, Call | Stop | More)
    return order


def _decoded(line: bytes, kind: Any) -> Any:
    try:
        return from_json(line, kind)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:  # halves of characters, which are bytes of a file's name
        return msgspec.convert(json.loads(line), kind)


_SAY_EVERY_S = 0.05
T = TypeVar("T")


class Speaker:
    """Writes messages, and steps of progress not too often."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._last = 0.0

    def say(self, message: Message) -> None:
        """One line, at once."""
        self._pipe.write(line_of(message) + b"\n")
        self._pipe.flush()

    def step(self, fraction: float, doing: str) -> None:
        now = time.monotonic()
        if now - self._last >= _SAY_EVERY_S:
            self._last = now
            self.say(Step(fraction, doing))


def outcome(work: Callable[[], T], path: str) -> T | Refused | Failed:
    """What something gives; what to say of it where it ended in an error."""

    try:
        return work()
    except TraceError as error:
        return Refused.of(error)
    except BrokenPipeError:
        raise
    except SYSTEM_ERRORS as error:
        return Refused.of(refused_by_system(error, path))
    except Exception as error:
        return Failed(type(error).__name__, traceback.format_exc())
