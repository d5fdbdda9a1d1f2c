"""What a process does when it is told to end: it removes what it unpacked and ends its helpers first."""

from __future__ import annotations

import signal
import sys
import threading

SIGNALLED = 128  # plus the number of the signal: what shells make of a process that a signal ended


def end_tidily_when_told() -> None:
    """SIGTERM, and SIGHUP unless it is ignored (``nohup``), end the process like an exception; a second one at once."""
    if threading.current_thread() is not threading.main_thread():
        return
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)


def _end(number: int, _: object) -> None:
    signal.signal(number, signal.SIG_DFL)
    sys.exit(SIGNALLED + number)
