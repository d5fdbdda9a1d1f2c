"""What is selected: one event, gap or area, a moment of memory, and the places that are marked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from parsers.model.late import dataclass

if TYPE_CHECKING:
    from rules.findings.base import Evidence


@dataclass(frozen=True, slots=True)
class Area:
    """A span of time (ns) and the lanes (indices) it covers; no lanes means all."""

    start: int
    end: int
    lanes: tuple[int, ...] = ()

    @property
    def duration(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Moment:
    """A time (ns) at which one looks into the memory of a GPU (index into ``Trace.devices``), and at which kind."""

    device: int
    when: int
    kind: str = ""


class Selection(QObject):
    """A timeline draws it and changes it; whatever else speaks of the same recording shares it.

    The ``set_`` methods go back to an earlier selection, or finish one: ``about_to_change`` is not emitted.
    """

    about_to_change = Signal()
    event_changed = Signal(int)  # -1: none
    gap_changed = Signal(int)  # row of the idle table, -1: none; also when the same one is selected again
    area_changed = Signal(object)  # Area or None
    evidence_changed = Signal()
    moment_changed = Signal(object)  # Moment

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.clear()

    def clear(self) -> None:
        """Forget everything, without a word: another recording is shown."""
        self.selected = self.gap = -1  # an event, a row of the idle table
        self.area: Area | None = None
        self.evidence: tuple[Evidence, ...] = ()
        self.moment: Moment | None = None

    def select_event(self, event: int) -> None:
        """Select one event, -1 for none; a gap stays marked while one walks from it to events."""
        if event != self.selected:
            self.about_to_change.emit()
            self.set_event(event)

    def set_event(self, event: int) -> None:
        if event != self.selected:
            self.selected = event
            self.event_changed.emit(event)

    def select_gap(self, row: int) -> None:
        """Select one row of the idle table instead of an event; -1 for none."""
        if row != self.gap or (row >= 0 and self.selected >= 0):
            self.about_to_change.emit()
        self.set_gap(row)

    def set_gap(self, row: int) -> None:
        if row >= 0:
            self.set_event(-1)
        changed, self.gap = row != self.gap, row
        if changed or row >= 0:
            self.gap_changed.emit(row)

    def select_area(self, area: Area | None) -> None:
        """Select a span of time on some lanes; None for nothing."""
        if area != self.area:
            self.about_to_change.emit()
        self.set_area(area)

    def set_area(self, area: Area | None) -> None:
        if area != self.area:
            self.area = area
            self.area_changed.emit(area)

    def mark(self, evidence: tuple[Evidence, ...]) -> None:
        """Mark these places instead of others."""
        if evidence != self.evidence:
            self.about_to_change.emit()
        self.set_evidence(evidence)

    def set_evidence(self, evidence: tuple[Evidence, ...]) -> None:
        self.evidence = evidence
        self.evidence_changed.emit()

    def choose_moment(self, moment: Moment) -> None:
        """Look into a GPU's memory at a time."""
        self.moment = moment
        self.moment_changed.emit(moment)
