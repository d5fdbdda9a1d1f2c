"""Lanes above all others: rows of answers, requests, the step after the ticked fixes, and the critical path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer

from parsers.model import Progress
from viewer.documents.document import Document
from viewer.documents.what_if import WhatIf
from viewer.timeline.geometry.derived import GHOST, PATH, Derived
from viewer.timeline.view import TimelineView
from viewer.window.timeline_link import TimelineLink

if TYPE_CHECKING:
    from rules.replay.critical_path import CriticalPath
    from viewer.statistics.what_if import Prediction

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
        if key == _REQUESTS:
            self._document.request_chosen.emit(number)
        elif key.startswith(_REQUESTS):
            self._document.select_event(number)

    def _show(self, kind: str, lanes: Sequence[Derived]) -> None:
        scene = self._timeline.state.scene
        if lanes or (scene is not None and any(key.startswith(kind) for key in scene.derived)):
            self._timeline.state.show_derived(kind, lanes)


_SLOT = "critical path"


class PredictedLanes(QObject):
    """Listens to what is ticked; both kinds of lanes can be switched off."""

    def __init__(self, model: WhatIf, timeline: TimelineView, link: TimelineLink) -> None:
        super().__init__(timeline)
        self._model, self._timeline, self._link = model, timeline, link
        self.ghosts_visible, self.path_visible = True, False
        model.predicted.connect(self._show_ghosts)
        model.plan_changed.connect(self._show_path)
        timeline.ready.connect(self._show_path)

    @property
    def _document(self) -> Document:
        return self._model.document

    def set_ghosts_visible(self, visible: bool) -> None:
        """Whether predicted steps are drawn below the lanes of the GPUs."""
        self.ghosts_visible = visible
        self._show_ghosts(self._model.prediction)

    def set_path_visible(self, visible: bool) -> None:
        self.path_visible = visible
        self._show_path()

    def _show_ghosts(self, prediction: Prediction | None) -> None:
        trace, state = self._document.trace, self._timeline.state
        wanted = prediction if self.ghosts_visible and trace is not None else None
        if wanted is None or trace is None:
            if state.scene is not None and any(key.startswith(GHOST) for key in state.scene.derived):
                state.show_derived(GHOST, [])
            return
        from viewer.statistics.what_if import ghosts

        derived = ghosts(trace, wanted)
        state.show_derived(GHOST, derived)
        frame = derived[0].frame if derived else None
        t0, t1 = self._timeline.visible_interval
        if frame is not None and not (t0 <= frame.start and frame.end <= t1):
            self._link.show_with_margin(frame.start, max(frame.recorded_end, frame.end))
        if derived:  # once the strip above has taken its room
            canvas, key = self._timeline.canvas, derived[0].track.key
            QTimer.singleShot(0, canvas, lambda: canvas.reveal_track(key))

    def _show_path(self) -> None:
        trace, analysis, state = self._document.trace, self._document.analysis, self._timeline.state
        known = self._model.plan is not None and not self._model.plan.reason
        if not self.path_visible or trace is None or analysis is None or not known:
            if state.scene is not None and PATH in state.scene.derived:
                state.show_derived(PATH, [])
            return

        def work(progress: Progress) -> CriticalPath:
            from rules.replay.critical_path import critical_path_of

            progress.step(0.0, "following the critical path")
            return critical_path_of(analysis)

        def answer(path: CriticalPath) -> None:
            from viewer.statistics.what_if import path_track

            if self.path_visible and trace is self._document.trace and len(path.start):
                state.show_derived(PATH, [path_track(analysis, path)])

        self._document.jobs.ask(_SLOT, work, answer)
