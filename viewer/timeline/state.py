"""What the parts of the timeline share: the view in time, its flight and history, the layout, what is selected."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from PySide6.QtCore import (
    QAbstractAnimation,
    QEasingCurve,
    QElapsedTimer,
    QObject,
    QTimer,
    QVariantAnimation,
    Signal,
)
from PySide6.QtWidgets import QApplication, QStyle

from parsers.model.arrays import I64
from viewer.timeline.geometry.arrangement import Arrangement
from viewer.timeline.geometry.derived import Derived
from viewer.timeline.geometry.history import History
from viewer.timeline.geometry.layout import Layout, drawn, lay_out
from viewer.timeline.geometry.scale import Scale, fitted
from viewer.timeline.geometry.step_rows import StepRow
from viewer.timeline.geometry.tracks import Track
from viewer.timeline.scene import Scene
from viewer.timeline.selection import Area, Selection

if TYPE_CHECKING:
    from rules.analysis.steps.steps import Step
    from rules.findings.base import Evidence

FLIGHT_MS = 120
PAUSE_MS = 700  # zooming or moving again after so long is another place to go back to
NO_STEPS = StepRow()


class Mark(Protocol):
    """A place somebody keeps; times are ns."""

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def title(self) -> str: ...


class _Place(NamedTuple):
    """What one can go back to: a view (ns), what was selected in it, -1 for nothing, and what was marked."""

    t0: float
    t1: float
    event: int
    gap: int
    area: Area | None
    evidence: tuple[Evidence, ...]


class TimelineState(QObject):
    """One timeline's state; the widgets draw it and change it through these methods."""

    view_changed = Signal()  # other times are shown
    content_changed = Signal()  # lanes, colours, layout or gaps changed
    room_changed = Signal()  # all lanes take more or less room than before
    overlay_changed = Signal()  # selection, highlight or cursor changed
    evidence_returned = Signal(object)  # the places that are marked again, as one went back to them
    entry_chosen = Signal(str, int)  # key of a derived track, what its entry stands for
    cursor_moved = Signal(object)
    step_selected = Signal(int)  # index into the scene's steps
    rank_followed = Signal(object)  # the rank whose steps the ruler shows, or None

    def __init__(self, parent: QObject | None = None, selection: Selection | None = None) -> None:
        super().__init__(parent)
        self.selection = selection or Selection(self)
        self.selection.about_to_change.connect(self._remember_selection)
        self.selection.event_changed.connect(self._on_event)
        self.selection.gap_changed.connect(self._on_gap)
        self.selection.area_changed.connect(lambda _: self.overlay_changed.emit())
        self.selection.evidence_changed.connect(self._on_evidence)
        self.selection.moment_changed.connect(lambda _: self.overlay_changed.emit())
        self.scene: Scene | None = None
        self.end = 1.0  # of the recording, ns
        self.limits: tuple[float, float] | None = None  # ns: how far one may look, where not to both ends
        self.focus: tuple[float, float] | None = None  # ns: outside of it lanes are pale
        self.scale = Scale(0.0, 1.0, 1.0)
        self.origin = 0.0  # ns: what the ruler counts from
        self.arrangement = Arrangement()
        self.filter = ""
        self.layout = Layout((), ())
        self._height = self._ample = 0  # px
        self.gaps_visible = True
        self._dragged: Area | None = None  # while an area is being dragged
        self.bookmarks: tuple[Mark, ...] = ()
        self.cursor: float | None = None
        self._pointer: float | None = None  # px: where the mouse is, while it is on the lanes or the ruler
        self.view_changed.connect(self._keep_under_the_mouse)
        self.animated = True
        self._spans = _spans(())
        self._followed: int | None = None
        self._history: History[_Place] = History()
        self._left_view = self._left_selection = False  # in this turn of the event loop
        self._moving = QElapsedTimer()  # valid while one zooms and moves without a pause
        self._flight = QVariantAnimation(self)
        self._flight.setDuration(FLIGHT_MS)
        self._flight.setStartValue(0.0)
        self._flight.setEndValue(1.0)
        self._flight.setEasingCurve(QEasingCurve.Type.OutCubic)
        self._flight.valueChanged.connect(self._on_flight)
        self._from = self._target = self.scale

    def set_end(self, end: float) -> None:
        """The length of the recording, ns, known before its scene is; shows all of it."""
        self.end = float(max(end, 1))
        self.scale = fitted(0.0, self.end, self.scale.width, 0.01).within(self.end)
        self._target = self.scale
        self.view_changed.emit()

    def set_scene(self, scene: Scene | None, view: Scale | None = None) -> None:
        """Another recording, or none: everything starts anew, with ``view`` or else all of it visible."""
        self._flight.stop()
        self._history.clear()
        self.scene = scene
        if scene is None:
            self.selection.clear()
        self.cursor = self._pointer = self._dragged = None
        self._spans = _spans(())
        self.origin, self.filter, self._followed = 0.0, "", None
        self.limits = self.focus = None
        self.arrangement = Arrangement().switched_like(self.arrangement)
        self.end = float(max(scene.trace.duration, 1)) if scene is not None else 1.0
        whole = fitted(0.0, self.end, self.scale.width, 0.01)
        self.scale = (view.resized(self.scale.width) if view is not None else whole).within(self.end)
        self._target = self.scale
        self.relayout()
        self.view_changed.emit()

    def show_derived(self, kind: str, derived: Iterable[Derived]) -> None:
        """Show these in place of all derived rows whose keys begin with ``kind``."""
        if self.scene is not None:
            others = {key: each for key, each in self.scene.derived.items() if not key.startswith(kind)}
            self.scene.derived = others | {each.track.key: each for each in derived}
            self.relayout()

    def relayout(self) -> None:
        """Place the tracks anew, after a change of the arrangement or the filter."""
        self.layout = self._laid_out(self._height)
        self.content_changed.emit()

    def _laid_out(self, height: int) -> Layout:
        groups = self.scene.index.groups if self.scene is not None else ()
        derived = self.scene.derived.values() if self.scene is not None else ()
        return lay_out(groups, self.arrangement, self.filter, derived, height, self._ample)

    def grow_for(self, ample: int) -> int:
        """Let rows be as high as in ``ample`` pixels, also in fewer; returns how many of these they leave empty."""
        self._ample = ample
        layout = self._laid_out(ample)
        return max(ample - layout.pinned_height - layout.scrolled_height, 0) if self.scene is not None else 0

    @property
    def drawn_tracks(self) -> list[Track]:
        groups = self.scene.index.groups if self.scene is not None else ()
        return [track for group in groups for track in drawn(group, self.arrangement, self.filter)]

    def set_compact(self, compact: bool) -> None:
        self.arrangement.compact = compact
        self.relayout()
        self.room_changed.emit()

    # The view

    @property
    def target(self) -> Scale:
        """Where the view is, or is flying to."""
        return self._target if self.flying else self.scale

    @property
    def flying(self) -> bool:
        return self._flight.state() is QAbstractAnimation.State.Running

    def set_height(self, height: int) -> None:
        """The lanes got another height, in pixels."""
        if height != self._height:
            self._height = height
            self.relayout()

    def set_width(self, width: float) -> None:
        """The lanes got another width, in pixels."""
        if width != self.scale.width:
            self.scale, self._target = self.scale.resized(width), self._target.resized(width)
            self._from = self._from.resized(width)
            self.view_changed.emit()

    def look_at(self, scale: Scale, *, animate: bool = True, remember: bool = True) -> None:
        """Show these times; ``remember`` puts the present view into the history."""
        wanted = self._within(scale.resized(self.scale.width))
        if remember and wanted != self.target and not self._left_selection:
            self.remember()
        self._flight.stop()
        self._from, self._target = self.scale, wanted
        if animate and self._may_animate():
            self._flight.start()
        else:
            self.scale = wanted
            self.view_changed.emit()

    def _within(self, scale: Scale) -> Scale:
        low, high = self.limits or (0.0, self.end)
        moved = Scale(scale.t0 - low, scale.t1 - low, scale.width).within(high - low)
        return Scale(moved.t0 + low, moved.t1 + low, scale.width)

    def set_limits(self, low: float, high: float) -> None:
        """Let one look from ``low`` to ``high`` (ns), also outside of the recording, until another is shown."""
        self.limits = low, high

    def set_focus(self, span: tuple[float, float] | None) -> None:
        """Paint everything outside of these times (ns) pale; None for nothing."""
        self.focus = span
        self.overlay_changed.emit()

    def show_interval(self, t0: float, t1: float, *, animate: bool = True, air: float = 0.08) -> None:
        self.look_at(fitted(t0, t1, self.scale.width, air), animate=animate)

    def reveal(self, t0: float, t1: float) -> None:
        """Move just so far that [t0, t1] can be seen, and zoom only where it is too long or too short to see."""
        view = self.target
        if t1 - t0 > view.span * 0.9 or t1 - t0 < 2 * view.ns_per_pixel:
            span = max(t1 - t0, view.ns_per_pixel)
            self.show_interval(t0 - span, t1 + span)
        elif t0 < view.t0 or t1 > view.t1:
            middle = (t0 + t1) / 2
            self.look_at(Scale(middle - view.span / 2, middle + view.span / 2, view.width))

    def zoom(self, x: float, factor: float, *, animate: bool = True) -> None:
        """Show ``factor`` times as much time around pixel ``x``."""
        self._keep_moving()
        self.look_at(self.target.zoomed(x, factor), animate=animate, remember=False)

    def pan(self, pixels: float, *, animate: bool = False) -> None:
        self._keep_moving()
        self.look_at(self.target.panned(pixels), animate=animate, remember=False)

    def remember(self) -> None:
        """Put the present view into the history, before a gesture that moves it in many small steps."""
        self._history.record(self._place)
        self._moving.invalidate()
        self._left_view = True
        QTimer.singleShot(0, self, self._begin_turn)

    def _remember_selection(self) -> None:
        """Put the present selection into the history; to select and to fly there is one step back."""
        if not (self._left_view or self._left_selection):
            self._history.record(self._place)
            self._left_selection = True
            QTimer.singleShot(0, self, self._begin_turn)

    def _begin_turn(self) -> None:
        self._left_view = self._left_selection = False

    def _keep_moving(self) -> None:
        """Zooming and moving in many small steps is one change of the view, up to the next pause."""
        if not self._moving.isValid() or self._moving.elapsed() > PAUSE_MS:
            self.remember()
        self._moving.start()

    def back(self) -> None:
        self._travel(self._history.back(self._place))

    def forward(self) -> None:
        """To the view one had gone back from."""
        self._travel(self._history.forward(self._place))

    @property
    def _place(self) -> _Place:
        gap = self.gap if self.selected < 0 else -1  # it stays marked while one walks from it to events
        return _Place(self.target.t0, self.target.t1, self.selected, gap, self.area, self.evidence)

    def _travel(self, place: _Place | None) -> None:
        self._moving.invalidate()
        if place is None:
            return
        self.look_at(Scale(place.t0, place.t1, self.scale.width), remember=False)
        self.selection.set_event(place.event)
        self.selection.set_gap(place.gap)
        self.selection.set_area(place.area)
        if place.evidence != self.evidence:
            self.selection.set_evidence(place.evidence)
            self.evidence_returned.emit(place.evidence)

    def _may_animate(self) -> bool:
        if not self.animated:
            return False
        return QApplication.style().styleHint(QStyle.StyleHint.SH_Widget_Animation_Duration) > 0

    def _on_flight(self, share: float) -> None:
        self.scale = self._target if share >= 1.0 else self._from.between(self._target, float(share))
        self.view_changed.emit()

    def finish_flight(self) -> None:
        if self.flying:
            self._flight.stop()
            self.scale = self._target
            self.view_changed.emit()

    # What is selected

    @property
    def selected(self) -> int:
        """The selected event; -1 for none."""
        return self.selection.selected

    @property
    def gap(self) -> int:
        """The selected row of the idle table; -1 for none."""
        return self.selection.gap

    @property
    def area(self) -> Area | None:
        """The selected area, or the one that is being dragged."""
        return self._dragged or self.selection.area

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        return self.selection.evidence

    def _on_event(self, event: int) -> None:
        if event >= 0 and self.scene is not None:
            self.follow_lane(int(self.scene.trace.events.lane[event]))
        self.overlay_changed.emit()

    def _on_gap(self, row: int) -> None:
        if row >= 0 and self.scene is not None and self.scene.idle is not None:
            self.follow(self.scene.trace.devices[int(self.scene.idle.device[row])].rank)
        self.overlay_changed.emit()

    def select_area(self, area: Area | None, *, done: bool = True) -> None:
        """Select a span of time on some lanes; while dragging ``done`` is False and nobody is told."""
        if area != self.area and self._dragged is None:
            self._remember_selection()
        self._dragged = None if done else area
        if done:
            self.selection.set_area(area)
        self.overlay_changed.emit()

    def highlight(self, evidence: Sequence[Evidence]) -> None:
        self.selection.mark(tuple(evidence))

    def _on_evidence(self) -> None:
        self._spans = _spans(self.evidence)
        self.overlay_changed.emit()

    def evidence_in_view(self, most: int) -> list[Evidence]:
        """The marked places that touch the view, at most so many: the longest ones."""
        spans = self._spans
        inside = np.flatnonzero((spans[:, 1] >= self.scale.t0) & (spans[:, 0] <= self.scale.t1))
        if len(inside) > most:
            length = spans[inside, 1] - spans[inside, 0]
            inside = np.sort(inside[np.argsort(-length, kind="stable")[:most]])
        return [self.evidence[index] for index in inside.tolist()]

    def set_bookmarks(self, marks: Sequence[Mark]) -> None:
        """The places to mark on the ruler; they stay until others are set, also when another recording is shown."""
        self.bookmarks = tuple(marks)
        self.overlay_changed.emit()

    def point_at(self, x: float | None) -> None:
        """The mouse is ``x`` pixels from the left of the lanes, or not on them; the cursor stays under it."""
        self._pointer = x
        self._keep_under_the_mouse()
        if x is None:
            self.set_cursor(None)

    def _keep_under_the_mouse(self) -> None:
        if self._pointer is not None:
            self.set_cursor(self.scale.time(self._pointer))

    def set_cursor(self, when: float | None) -> None:
        if when != self.cursor:
            self.cursor = when
            self.overlay_changed.emit()
            self.cursor_moved.emit(None if when is None else round(when))

    def set_origin(self, when: float) -> None:
        if when != self.origin:
            self.origin = when
            self.content_changed.emit()

    # Steps

    @property
    def step_row(self) -> StepRow:
        """The steps of the ruler: those of the rank in focus, else of the first rank that has any."""
        rows = self.scene.step_rows if self.scene is not None else {}
        return rows.get(self._followed) or next(iter(rows.values()), NO_STEPS)

    @property
    def shown_steps(self) -> tuple[tuple[int, Step], ...]:
        """The steps of the ruler with their index."""
        return self.step_row.numbered

    def follow(self, rank: int | None) -> None:
        """Show the steps of this rank, where it has any, also where they are not known yet."""
        known = self.scene.step_rows if self.scene is not None else {}
        if rank != self._followed and (not known or rank in known):
            self._followed = rank
            self.overlay_changed.emit()
            self.rank_followed.emit(self.step_row.rank)

    def follow_lane(self, lane: int) -> None:
        """Show the steps of the rank that a lane belongs to."""
        if self.scene is not None and 0 <= lane < len(self.scene.trace.lanes):
            self.follow(self.scene.trace.lanes[lane].rank)


def _spans(evidence: Sequence[Evidence]) -> I64:
    return np.array([(place.start, place.end) for place in evidence], np.int64).reshape(-1, 2)
