"""Ctrl+C while a program runs for us: the first time it is finished, the second time it is killed."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def run_stoppably(
    run: Callable[[], Result], stop: Callable[[], object], kill: Callable[[], object], stopping: str
) -> Result:
    """Run it; ``stopping`` says what the first Ctrl+C (or SIGTERM) does. Losing the terminal kills."""
    interruptions = 0

    def interrupted(*_: object) -> None:
        nonlocal interruptions
        interruptions += 1
        if interruptions == 1:
            print(f"\nstallscope: {stopping}; Ctrl+C again kills the program", file=sys.stderr)
            stop()
        else:
            kill()

    if threading.current_thread() is not threading.main_thread():
        return run()
    earlier = {number: signal.signal(number, interrupted) for number in (signal.SIGINT, signal.SIGTERM)}
    if hasattr(signal, "SIGHUP"):
        earlier[signal.SIGHUP] = signal.signal(signal.SIGHUP, lambda *_: kill())
    try:
        return run()
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
