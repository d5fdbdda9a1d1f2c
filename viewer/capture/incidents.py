"""Slow steps of a run as its ranks tell of them: each has one text, and the files of all ranks that recorded it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from pathlib import Path, PurePosixPath, PureWindowsPath

from parsers.model.late.dataclass import dataclass
from viewer.capture.output_stream import Event

SAME_WITHIN = 2
"""Steps between which ranks notice the same slow step: one waits for the other only in the next collective."""


@dataclass(slots=True)
class Incident:
    """A slow step. ``waits_for`` are the ranks that have told of it and not written their recording yet."""

    step: int
    text: str
    ranks: set[int] = field(default_factory=set)
    waits_for: set[int] = field(default_factory=set)
    names: list[str] = field(default_factory=list)

    def files(self, among: Sequence[Path]) -> list[Path]:
        """Those of its files that are here, in their order."""
        return [path for path in among if path.name in self.names]


class Incidents:
    """All of a run, in the order in which they began."""

    def __init__(self) -> None:
        self.all: list[Incident] = []
        self._current: dict[int, Incident] = {}

    def take(self, event: Event) -> Incident | None:
        """The incident whose last recording this event tells of."""
        if event.phase == "incident":
            self._begin(event)
        elif event.phase == "written" and event.rank in self._current:
            incident = self._current[event.rank]
            incident.names.append(_name(str(event.values.get("path", ""))))
            was_waited_for = event.rank in incident.waits_for
            incident.waits_for.discard(event.rank)
            return incident if was_waited_for and not incident.waits_for else None
        return None

    def _begin(self, event: Event) -> None:
        step = event.values.get("step_number")
        step = step if isinstance(step, int) else -1
        last = self.all[-1] if self.all else None
        if last is None or event.rank in last.ranks or abs(step - last.step) > SAME_WITHIN:
            last = Incident(step, str(event.values.get("text", "")))
            self.all.append(last)
        last.ranks.add(event.rank)
        last.waits_for.add(event.rank)
        self._current[event.rank] = last


def _name(path: str) -> str:
    return (PureWindowsPath(path) if "\\" in path else PurePosixPath(path)).name
