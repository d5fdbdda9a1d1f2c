"""What a process does when it is told to end: it removes what it unpacked and ends its helpers first."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from types import FrameType

_AGAIN_S = 0.02
SIGNALLED = 128  # plus the number of the signal: what shells make of a process that a signal ended


Handler = Callable[[int, FrameType | None], object]


def end_tidily_when_told(end: Handler | None = None) -> None:
    """SIGTERM, and SIGHUP unless it is ignored (``nohup``), end the process like an exception; a second one at once.

    With ``end``, that is called with the number of the signal instead, each time.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for number in _known("SIGTERM", "SIGHUP"):
        if signal.getsignal(number) in (signal.SIG_DFL, _end):
            signal.signal(number, end or _end)


def end_at_once_when_told() -> None:
    """SIGTERM and SIGHUP end the process without Python, whatever they did in the one that this is a copy of."""
    for number in _known("SIGTERM", "SIGHUP"):
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)


def _known(*names: str) -> list[signal.Signals]:
    return [getattr(signal, name) for name in names if hasattr(signal, name)]


def _end(number: int, frame: FrameType | None) -> None:
    if _is_finalizing(frame):
        _say_again(number)
        return
    signal.signal(number, signal.SIG_DFL)
    sys.exit(SIGNALLED + number)


def _is_finalizing(frame: FrameType | None) -> bool:
    """Whether something is being removed that nobody holds any more: an exception would only leave the rest of it."""
    while frame is not None:
        if frame.f_code is weakref.finalize.__call__.__code__:
            return True
        frame = frame.f_back
    return False


def _say_again(number: int) -> None:
    again = threading.Timer(_AGAIN_S, os.kill, (os.getpid(), number))
    again.daemon = True
    with contextlib.suppress(
        RuntimeError
    ):  # no thread starts while Python ends, and then the process does as well
        again.start()


@contextlib.contextmanager
def ending_at_once() -> Iterator[None]:
    """Signals end the process without Python while Qt is loaded and begins, which swallows exceptions.

    Nothing is there to be tidied up yet. Signals that are ignored stay so, and outside the main thread nothing changes.
    """
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in _known("SIGINT", "SIGTERM", "SIGHUP"):
            if callable(handler := signal.getsignal(number)):
                before[number] = handler
                signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_is_near() -> None:
    """From now on the process ends by itself, and a signal must not tear its cleaning up apart; a second one may."""
    for number in _known("SIGINT", "SIGTERM", "SIGHUP"):
        if signal.getsignal(number) in (_end, signal.default_int_handler):
            signal.signal(number, _leave_it_alone)


def _leave_it_alone(number: int, _: object) -> None:
    signal.signal(number, signal.SIG_DFL)
