"""Shows the rows of answers as lanes above all others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from viewer.document import Document
from viewer.timeline.view import TimelineView

if TYPE_CHECKING:
    from viewer.query.overlay import Overlay

_KEY = "query/"


class QueryLanes(QObject):
    """Listens to the document; lanes come again when the timeline has its own anew."""

    def __init__(self, document: Document, timeline: TimelineView) -> None:
        super().__init__(timeline)
        self._document, self._timeline = document, timeline
        document.overlays_changed.connect(self._show)
        timeline.ready.connect(lambda: self._show(document.overlays))

    def _show(self, overlays: Sequence[Overlay]) -> None:
        state = self._timeline.state
        if not overlays:
            if state.scene is not None and any(key.startswith(_KEY) for key in state.scene.derived):
                state.show_derived(_KEY, [])
            return
        from viewer.query.overlay import overlay_lane

        state.show_derived(_KEY, [overlay_lane(each) for each in overlays])
