"""The places one has been at, to go back and forward like in a browser."""

from __future__ import annotations

from dataclasses import field
from typing import Generic, TypeVar

from parsers.model.late import dataclass

MAX_STATES = 200

Place = TypeVar("Place")


@dataclass(slots=True)
class History(Generic[Place]):
    """Visited places; ``record`` forgets what one had gone back from."""

    _past: list[Place] = field(default_factory=list)
    _future: list[Place] = field(default_factory=list)

    def record(self, place: Place) -> None:
        """Remember where one was before leaving it; the same place twice counts once."""
        if not self._past or self._past[-1] != place:
            self._past.append(place)
            del self._past[:-MAX_STATES]
        self._future.clear()

    def back(self, now: Place) -> Place | None:
        """The place before this one; None at the beginning."""
        while self._past:
            before = self._past.pop()
            if before != now:
                self._future.append(now)
                return before
        return None

    def forward(self, now: Place) -> Place | None:
        """The place one had gone back from; None at the end."""
        if not self._future:
            return None
        self._past.append(now)
        return self._future.pop()

    def clear(self) -> None:
        """Forget everything, as for another recording."""
        self._past.clear()
        self._future.clear()
