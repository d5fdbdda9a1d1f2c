"""The timeline as the window uses it: overview, rulers and lanes, with their keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QImage, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QScrollBar, QWidget

from parsers.model import Progress, Trace
from viewer.appearance import theme
from viewer.appearance.tab_order import CHART
from viewer.appearance.widgets import NO_MARGINS, fill, horizontal, vertical
from viewer.desktop.jobs import Jobs
from viewer.timeline.canvas import LaneCanvas
from viewer.timeline.filter_bar import FilterBar
from viewer.timeline.geometry.arrangement import Arrangement
from viewer.timeline.geometry.drawing_index import DrawingIndex, build_index, drawing_index
from viewer.timeline.geometry.scale import Scale
from viewer.timeline.gestures import Gestures
from viewer.timeline.lane_commands import LaneCommands, LaneHistory
from viewer.timeline.overview import Overview
from viewer.timeline.ruler import Ruler
from viewer.timeline.scene import Joined, Scene, joined, joining_size
from viewer.timeline.selection import Area, Selection
from viewer.timeline.state import TimelineState
from viewer.timeline.walking import across, along, lanes_of_device, linked, step_beside

if TYPE_CHECKING:
    from rules.analysis.analysis import Analysis
    from rules.findings.base import Evidence

AT_ONCE = 100_000  # events or gaps: so few are prepared without a job
GAPS_AT_ONCE = 10_000  # gaps and steps
LANES_AT_ONCE = 2_000
KEY_ZOOM = 0.7
KEY_PAN = 0.15  # of the width
INDEXING = "timeline"
JOINING = "timeline gaps"


class TimelineView(QWidget):
    """Shows one recording; times are ns from the trace start, events and lanes are indices into the trace."""

    accessible_role = CHART
    view_changed = Signal(object)  # (t0, t1)
    copy_wanted = Signal()  # what is selected, as text
    peak_wanted = Signal(bool)  # to go to the peak of memory, or to the next one
    cursor_moved = Signal(object)  # ns or None
    step_selected = Signal(int)  # index into the analysis's steps
    rank_followed = Signal(object)  # the rank whose steps the ruler shows, or None
    ready = Signal()  # the lanes of a new recording are there

    def __init__(
        self, parent: QWidget | None = None, jobs: Jobs | None = None, selection: Selection | None = None
    ) -> None:
        super().__init__(parent)
        self._jobs = jobs or Jobs(self)
        self._trace: Trace | None = None
        self._pending: Analysis | None = None
        self.blames = True  # whether ranges for which a GPU waits have the colour of the wait
        self.state = TimelineState(self, selection)
        self.lane_history = LaneHistory(self.state)
        self.lane_commands = LaneCommands(self.state, self.lane_history)
        self.overview = Overview(self.state)
        self.ruler = Ruler(self.state)
        self.filter_bar = FilterBar(self.state, self.lane_history)
        self.canvas = LaneCanvas(self.state)
        self.bar = QScrollBar(Qt.Orientation.Vertical)
        self.gestures = Gestures(self.canvas, self.state, self.lane_commands)
        self._put_together()
        self._connect()
        self._keys = self._key_table()

    def _put_together(self) -> None:
        layout = fill(vertical(self, NO_MARGINS, 0), self.overview, self.ruler, self.filter_bar)
        below = fill(horizontal(spacing=0), (self.canvas, 1), self.bar)
        layout.addLayout(below, 1)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        for child in (self.canvas, self.ruler, self.overview):
            child.setFocusProxy(self)
        self.setAccessibleName("Timeline")
        self.bar.setVisible(False)

    def _connect(self) -> None:
        state = self.state
        state.view_changed.connect(lambda: self.view_changed.emit(self.visible_interval))
        state.cursor_moved.connect(self.cursor_moved)
        state.step_selected.connect(self.step_selected)
        state.rank_followed.connect(self.rank_followed)
        self.canvas.scrolled.connect(self._sync_bar)
        self.bar.valueChanged.connect(self.canvas.scroll_to)
        theme.changed.connect(self._on_theme)

    # The recording

    def set_trace(self, trace: Trace | None) -> None:
        """Show a recording; a large one appears as soon as it is indexed in the background."""
        self._jobs.forget(INDEXING)
        self._trace, self._pending = trace, None
        self.state.set_scene(None)
        self.lane_history.clear()
        if trace is None:
            self.canvas.message = ""
            return
        self.state.set_end(trace.duration)
        index = drawing_index.kept(trace)
        if index is None and len(trace.events) <= AT_ONCE and len(trace.lanes) <= LANES_AT_ONCE:
            index = build_index(trace)
        if index is not None:
            self._take_index(trace, index)
            return
        self.canvas.message = "Preparing the lanes …"

        def work(progress: Progress) -> DrawingIndex:
            return build_index(trace, progress)

        self._jobs.ask(INDEXING, work, answer=lambda index: self._take_index(trace, index))

    def _take_index(self, trace: Trace, index: DrawingIndex) -> None:
        if trace is not self._trace:
            return
        view = self.state.scale
        self.state.set_scene(Scene(trace, index, blames=self.blames), view)
        if self._pending is not None:
            self.set_analysis(self._pending)
        self.ready.emit()

    def set_analysis(self, analysis: Analysis | None) -> None:
        self._pending = analysis
        self._jobs.forget(JOINING)
        scene = self.state.scene
        if scene is None:
            return
        if analysis is None or joined.kept(analysis) or joining_size(analysis) <= GAPS_AT_ONCE:
            self._take_analysis(scene, analysis)
            return

        def work(_: Progress) -> Joined:
            return joined(analysis)

        self._jobs.ask(JOINING, work, answer=lambda _: self._take_analysis(scene, analysis), in_turn=True)

    def _take_analysis(self, scene: Scene, analysis: Analysis | None) -> None:
        if scene is self.state.scene:
            scene.set_analysis(analysis)
            self.state.content_changed.emit()
            self.rank_followed.emit(self.state.step_row.rank)

    # The view

    @property
    def visible_interval(self) -> tuple[int, int]:
        return round(self.state.scale.t0), round(self.state.scale.t1)

    def show_interval(self, t0: float, t1: float, animate: bool = True) -> None:
        self.state.show_interval(t0, t1, animate=animate, air=0.0)

    def fit_all(self) -> None:
        self.state.show_interval(0, self.state.end, air=0.01)

    def fit_selection(self) -> None:
        """Show the selected area, event or gap, else the highlighted places, else everything."""
        span = self._selected_span()
        if span is None:
            self.fit_all()
        else:
            self.state.show_interval(*span, air=0.08)

    def _selected_span(self) -> tuple[int, int] | None:
        state, scene = self.state, self.state.scene
        if state.area is not None:
            return state.area.start, state.area.end
        if scene is None:
            return None
        if state.selected >= 0:
            return int(scene.trace.events.start[state.selected]), int(scene.trace.events.end[state.selected])
        if state.gap >= 0 and scene.idle is not None:
            return int(scene.idle.start[state.gap]), int(scene.idle.end[state.gap])
        if state.evidence:
            return min(place.start for place in state.evidence), max(place.end for place in state.evidence)
        return None

    def set_animated(self, animated: bool) -> None:
        """Whether zooming and flying take a moment."""
        self.state.animated = animated

    # Selection and marks

    def select_event(self, event: int, reveal: bool = True) -> None:
        """Select one event and, with ``reveal``, move it into view; -1 for none."""
        if reveal:
            self.reveal_event(event)
        self.state.selection.select_event(event)

    def reveal_event(self, event: int) -> None:
        """Move an event into view, and unfold its lane; nothing for -1."""
        scene = self.state.scene
        if scene is not None and event >= 0:
            events = scene.trace.events
            self._unfold(int(events.lane[event]), event)
            self.state.reveal(float(events.start[event]), float(events.end[event]))

    def _unfold(self, lane: int, event: int = -1) -> None:
        scene, state = self.state.scene, self.state
        assert scene is not None
        placed = state.layout.of_lane(lane)
        groups = [placed.track] if placed is not None else state.drawn_tracks
        track = next((track for track in groups if track.holds(lane)), None)
        if track is not None:
            self.lane_commands.uncover(track, scene.level_of(track, event) if event >= 0 else 0)
            self.canvas.reveal_lane(lane)

    def next_event(self) -> None:
        self._walk(along(self.state, 1))

    def previous_event(self) -> None:
        self._walk(along(self.state, -1))

    def linked_event(self) -> None:
        self._walk(linked(self.state))

    def _walk(self, event: int) -> None:
        if event >= 0:
            self.select_event(event)

    def highlight(self, evidence: Sequence[Evidence]) -> None:
        """Mark these places, unfold the lanes they lie on, and follow the steps of the first one's rank."""
        if evidence:
            self.state.follow_lane(evidence[0].lane)
        for lane in dict.fromkeys(place.lane for place in evidence[:40]):
            if self.state.scene is not None and 0 <= lane < len(self.state.scene.trace.lanes):
                events = [place.event for place in evidence if place.lane == lane and place.event >= 0]
                self._unfold(lane, *events[:1])
        self.state.highlight(evidence)

    def reveal_device(self, device: int) -> None:
        """Scroll to the lanes of a device and follow its rank's steps, without moving in time."""
        lanes = lanes_of_device(self.state.layout, device)
        for lane in lanes if not self.canvas.shows(lanes[-1] if lanes else -1) else ():
            self.canvas.reveal_lane(lane)
        if self.state.scene is not None and 0 <= device < len(self.state.scene.trace.devices):
            self.state.follow(self.state.scene.trace.devices[device].rank)

    def clear_selection(self) -> None:
        self.state.select_area(None)
        self.state.selection.select_gap(-1)
        self.state.selection.select_event(-1)
        self.state.highlight(())

    def measure_selection(self) -> None:
        """Turn the selected event or gap into a measured area; a second time takes it away."""
        span, scene = self._selected_span(), self.state.scene
        if self.state.area is not None or span is None or scene is None:
            self.state.select_area(None)
            return
        lanes = (int(scene.trace.events.lane[self.state.selected]),) if self.state.selected >= 0 else ()
        self.state.select_area(Area(*span, lanes))

    # Steps

    def next_step(self) -> None:
        """Fit the step of the rank in focus that comes after the middle of the view."""
        self._go_step(1)

    def previous_step(self) -> None:
        """Fit the step of the rank in focus that comes before the middle of the view."""
        self._go_step(-1)

    def _go_step(self, direction: int) -> None:
        index = step_beside(self.state, direction)
        if index >= 0 and self.state.scene is not None:
            step = self.state.scene.steps[index]
            self.state.show_interval(step.start, step.end, air=0.02)
            self.step_selected.emit(index)

    # Lanes and colours

    def set_colour_mode(self, mode: str) -> None:
        """What colours tell: "family", "category", "name", "stream" or "duration"."""
        if self.state.scene is not None:
            self.state.scene.set_color_mode(mode)
            self.state.content_changed.emit()

    def set_gaps_visible(self, visible: bool) -> None:
        """Whether idle time is painted over the GPU lanes."""
        self.state.gaps_visible = visible
        self.state.content_changed.emit()

    def set_legend_visible(self, visible: bool) -> None:
        """Whether a panel over the lanes says what the colours mean."""
        self.canvas.legend_visible = visible
        self.canvas.update()

    def set_calls_inside(self, inside: bool) -> None:
        """Whether GPU API calls are drawn inside of the operators that make them, or on lanes of their own."""
        self.state.arrangement.calls_apart = not inside
        self.state.relayout()

    def arrangement(self) -> dict[str, Any]:
        """How lanes are pinned, hidden, folded, ordered and sized, as plain data."""
        return self.state.arrangement.to_data()

    def set_arrangement(self, data: Mapping[str, Any]) -> None:
        self.state.arrangement = Arrangement.from_data(data).switched_like(self.state.arrangement)
        self.state.relayout()

    def picture(self) -> QImage:
        self.state.finish_flight()
        return self.grab().toImage()

    # Keys

    def _key_table(self) -> dict[str, Callable[[], None]]:
        state = self.state
        return {
            **dict.fromkeys("w+=", lambda: self._zoom_at_cursor(KEY_ZOOM)),
            **dict.fromkeys("s-", lambda: self._zoom_at_cursor(1 / KEY_ZOOM)),
            "a": lambda: state.pan(-round(KEY_PAN * state.scale.width), animate=True),
            "d": lambda: state.pan(round(KEY_PAN * state.scale.width), animate=True),
            "f": self.fit_selection,
            ".": self.next_event,
            ",": self.previous_event,
            "[": self.previous_step,
            "]": self.next_step,
            **dict.fromkeys("mr", self.measure_selection),
            "l": lambda: self.set_legend_visible(not self.canvas.legend_visible),
        }

    def _zoom_at_cursor(self, factor: float) -> None:
        state = self.state
        x = state.scale.x(state.cursor) if state.cursor is not None else state.scale.width / 2
        state.zoom(min(max(x, 0.0), state.scale.width), factor)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if self._on_special_key(event):
            return
        action = self._keys.get(event.text().lower())
        if action is None or event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            super().keyPressEvent(event)
        else:
            action()

    def _on_special_key(self, event: QKeyEvent) -> bool:
        key, state = event.key(), self.state
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy_wanted.emit()
            return True
        alt = bool(event.modifiers() & Qt.KeyboardModifier.AltModifier)
        shift = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        if key in (Qt.Key.Key_Left, Qt.Key.Key_Right):
            towards = -1 if key == Qt.Key.Key_Left else 1
            if alt:
                self.state.back() if towards < 0 else self.state.forward()
            else:
                state.pan(towards * round(KEY_PAN * state.scale.width), animate=True)
        elif shift and key in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            self._walk(across(state, -1 if key == Qt.Key.Key_Up else 1))
        elif key in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            self.canvas.scroll_to(self.canvas.offset + (-40 if key == Qt.Key.Key_Up else 40))
        elif key in (Qt.Key.Key_PageUp, Qt.Key.Key_PageDown):
            page = max(self.canvas.room - 40, 40)
            self.canvas.scroll_to(self.canvas.offset + (-page if key == Qt.Key.Key_PageUp else page))
        elif key == Qt.Key.Key_P:
            self.peak_wanted.emit(shift)
        elif key == Qt.Key.Key_Home:
            self._to_edge(0.0)
        elif key == Qt.Key.Key_End:
            self._to_edge(state.end)
        elif key == Qt.Key.Key_Backspace:
            self.state.back()
        elif key == Qt.Key.Key_Escape:
            self.clear_selection()
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.fit_selection()
        else:
            return False
        return True

    def _to_edge(self, when: float) -> None:
        """Show the beginning or the end of the recording at the present zoom."""
        span = self.state.target.span
        self.state.look_at(Scale(when - span / 2, when + span / 2, 1))

    def _sync_bar(self) -> None:
        most = self.canvas.most_offset
        self.bar.blockSignals(True)
        self.bar.setRange(0, most)
        self.bar.setPageStep(max(self.canvas.room, 1))
        self.bar.setSingleStep(30)
        self.bar.setValue(self.canvas.offset)
        self.bar.blockSignals(False)
        self.bar.setVisible(most > 0)

    def _on_theme(self) -> None:
        if self.state.scene is not None:
            self.state.scene.forget_colors()
        self.state.content_changed.emit()

    def changeEvent(self, event: QEvent) -> None:
        if event.type() in (QEvent.Type.StyleChange, QEvent.Type.DevicePixelRatioChange):
            self.canvas.invalidate()
        super().changeEvent(event)
