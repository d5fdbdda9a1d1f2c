"""Shows what tabs have for the timeline as lanes above all others: rows of answers, requests of an engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from viewer.documents.document import Document
from viewer.timeline.view import TimelineView

if TYPE_CHECKING:
    from viewer.timeline.geometry.derived import Derived

_QUERY, _REQUESTS = "query/", "requests/"


class PanelLanes(QObject):
    """Listens to the document; lanes come again when the timeline has its own anew."""

    def __init__(self, document: Document, timeline: TimelineView) -> None:
        super().__init__(timeline)
        self._document, self._timeline = document, timeline
        document.overlays_changed.connect(self._show_answers)
        document.request_lanes_changed.connect(self._show_requests)
        timeline.ready.connect(self._show_answers)
        timeline.ready.connect(self._show_requests)
        timeline.state.entry_chosen.connect(self._choose)

    def _show_answers(self) -> None:
        lanes: list[Derived] = []
        if self._document.overlays:
            from viewer.query.overlay import overlay_lane

            lanes = [overlay_lane(each) for each in self._document.overlays]
        self._show(_QUERY, lanes)

    def _show_requests(self) -> None:
        lanes = self._document.request_lanes
        self._show(_REQUESTS, lanes)
        for lane in lanes:
            if lane.outline is not None:
                self._timeline.canvas.reveal_row(lane.track.key, lane.outline[0])

    def _choose(self, key: str, number: int) -> None:
        """A request, or the step of an engine."""
        if key == _REQUESTS:
            self._document.request_chosen.emit(number)
        elif key.startswith(_REQUESTS):
            self._document.select_event(number)

    def _show(self, kind: str, lanes: Sequence[Derived]) -> None:
        scene = self._timeline.state.scene
        if lanes or (scene is not None and any(key.startswith(kind) for key in scene.derived)):
            self._timeline.state.show_derived(kind, lanes)
