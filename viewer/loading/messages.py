"""What the loading process and the window say to each other: one line of JSON each."""

from __future__ import annotations

from pathlib import Path

import msgspec

from parsers.model import Malformed, TraceError, UnknownFormat
from parsers.stored.handover import Handover


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
    """The diagnosis is there: a ``rules.handover.FoundOut``, and a file of ``parsers.stored.columns``."""

    plain: msgspec.Raw
    columns: str


class Refused(msgspec.Struct, tag=True, frozen=True):
    """The files cannot be used, or the system refused, and their owner can do something about it."""

    kind: str
    path: str
    problem: str
    hint: str

    @staticmethod
    def of(error: TraceError) -> Refused:
        """What to say of an error."""
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


Message = Step | Preview | Read | Analysed | Refused | NoRoom | Failed

_DECODER = msgspec.json.Decoder(Message)
_ENCODER = msgspec.json.Encoder()


def line_of(message: Message | Wanted) -> bytes:
    """One line, without its end."""
    return _ENCODER.encode(message)


def message_of(line: bytes) -> Message:
    """The message of a line; raises ``msgspec.ValidationError`` or ``DecodeError``."""
    message: Message = _DECODER.decode(line)
    return message


def wanted_of(line: bytes) -> Wanted:
    """The first line that the window sends."""
    return msgspec.json.decode(line, type=Wanted)
