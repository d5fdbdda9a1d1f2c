"""Progress of slow work, and the place where it can be cancelled."""

from __future__ import annotations

import threading
from collections.abc import Callable

from parsers.model.errors import Cancelled

Listener = Callable[[float, str], None]


class Progress:
    """Handed to every slow function. ``step`` is also the cancellation point."""

    def __init__(self, listener: Listener | None = None, stop: threading.Event | None = None) -> None:
        self._listener = listener
        self._stop = stop if stop is not None else threading.Event()

    def step(self, fraction: float, doing: str) -> None:
        """Report ``fraction`` (0 to 1) of the work; raises ``Cancelled`` once the user stopped it."""
        self.stop_if_wanted()
        if self._listener is not None:
            self._listener(min(max(fraction, 0.0), 1.0), doing)

    def stop_if_wanted(self) -> None:
        """Only the cancellation point of ``step``, without a report."""
        if self._stop.is_set():
            raise Cancelled

    def cancel(self) -> None:
        """Make the next ``step`` raise ``Cancelled``; safe from any thread."""
        self._stop.set()

    def part(self, begin: float, end: float) -> Progress:
        """A progress whose 0 to 1 covers ``begin`` to ``end`` of this one."""
        listener = self._listener
        if listener is None:
            return Progress(None, self._stop)
        return Progress(lambda fraction, doing: listener(begin + (end - begin) * fraction, doing), self._stop)
