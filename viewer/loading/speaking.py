"""How a process says messages to the one that started it, and what it says of an error."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from typing import IO, TypeVar

from viewer.loading.messages import Failed, Message, Refused, Step, line_of

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
        """A listener of ``Progress``."""
        now = time.monotonic()
        if now - self._last >= _SAY_EVERY_S:
            self._last = now
            self.say(Step(fraction, doing))


def outcome(work: Callable[[], T], path: str) -> T | Refused | Failed:
    """What something gives; what to say of it where it ended in an error."""
    from parsers.model import SYSTEM_ERRORS, TraceError, refused_by_system

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
