"""Keeps the timeline and the document in step: selection, evidence, steps, and what is shown first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QObject

from rules.findings.base import Category, Evidence
from viewer.documents.document import Document
from viewer.timeline.selection import Moment
from viewer.user_data.preferences import Preferences
from viewer.window.status import StatusBar

if TYPE_CHECKING:
    from parsers.model import Lane, Trace
    from viewer.timeline.view import TimelineView

LEFT_MARGIN, RIGHT_MARGIN = 0.03, 0.12
_ABOUT_MEMORY = (Category.MEMORY_PEAK, Category.MEMORY_GROWTH, Category.OUT_OF_MEMORY)


class TimelineLink(QObject):
    """Moves the timeline to what is selected elsewhere; both share one selection."""

    def __init__(
        self, document: Document, timeline: TimelineView, status: StatusBar, preferences: Preferences
    ) -> None:
        super().__init__(timeline)
        self._document, self._timeline, self._status = document, timeline, status
        self._preferences = preferences
        self.wanted_moment: int | None = None
        self._preview: tuple[Trace, tuple[int, int]] | None = None  # the first events, and the view of all
        self._stay = False  # the user went somewhere before the diagnosis came
        document.trace_changed.connect(self._on_trace)
        document.analysis_changed.connect(timeline.set_analysis)
        document.diagnosis_changed.connect(lambda _: self._on_diagnosis())
        document.event_revealed.connect(timeline.reveal_event)
        document.event_shown.connect(lambda event: self._reveal(event))
        document.step_shown.connect(self._show_step)
        document.evidence_wanted.connect(self.fly_to)
        for changed in (document.event_changed, document.gap_changed, document.area_changed):
            changed.connect(lambda _: self._say_selection())
        timeline.state.evidence_returned.connect(self._return_to_finding)
        timeline.peak_wanted.connect(document.visit_peak)
        document.moment_changed.connect(self._look_into_memory)
        timeline.view_changed.connect(lambda interval: status.set_view(interval[1] - interval[0]))
        timeline.cursor_moved.connect(status.set_cursor)
        timeline.step_selected.connect(lambda index: document.select_step(index, show=False))
        timeline.ready.connect(lambda: timeline.set_colour_mode(preferences.color_mode))
        timeline.set_animated(preferences.animate)
        timeline.gestures.use_wheel(preferences.wheel)

    def _on_trace(self, trace: Trace | None) -> None:
        visited = self._visited(trace)
        self._preview, self._stay = None, visited is not None
        self._timeline.set_trace(trace)
        if trace is None:
            return
        self._timeline.fit_all()
        if self._document.preview:
            self._preview = trace, self._timeline.visible_interval
        if visited is not None:
            self._timeline.show_interval(*visited, animate=False)
        self._status.set_selection(None)
        if self.wanted_moment is not None:
            self.show_moment(self.wanted_moment)

    def _visited(self, trace: Trace | None) -> tuple[int, int] | None:
        """Where in ``trace`` the user has gone while only its first events were there; None: nowhere."""
        if trace is None or self._preview is None or self._document.preview:
            return None
        first, whole = self._preview
        view = self._timeline.visible_interval
        if view == whole or first.inputs[0].path not in {each.path for each in trace.inputs}:
            return None
        known = first.epoch_ns is not None and trace.epoch_ns is not None
        shift = first.epoch_ns - trace.epoch_ns if known else 0  # type: ignore[operator]  # both are known
        return view[0] + shift, view[1] + shift

    def _on_diagnosis(self) -> None:
        """Go to the first view, unless the user went somewhere already."""
        if not self._stay:
            self.show_first_view()

    def show_first_view(self, what: str | None = None) -> None:
        """Show what the preferences ask for: the worst place, one step, or all."""
        if self.wanted_moment is not None:
            self.show_moment(self.wanted_moment)
            self.wanted_moment = None
            return
        what = what or self._preferences.first_view
        analysis, diagnosis = self._document.analysis, self._document.diagnosis
        if what == "all" or analysis is None:
            self._timeline.fit_all()
            return
        problem = None
        if diagnosis is not None:
            from rules.verdict.verdict import first_problem

            problem = first_problem(diagnosis)
        worst = (
            max(problem.evidence, key=lambda each: each.end - each.start)
            if problem and problem.evidence
            else None
        )
        steps = [step for step in analysis.steps if step.steady] or list(analysis.steps)
        where = self._lane_of(worst)
        rank = where.rank if where is not None else None
        around = [step for step in steps if worst is not None and step.start <= worst.start < step.end]
        around.sort(key=lambda step: step.rank != rank)
        middle = steps[len(steps) // 2 : len(steps) // 2 + 1]
        if worst is not None:
            self._timeline.highlight([worst])
            if where is None:  # a moment of the whole run, which nothing around it explains
                self._timeline.fit_all()
                return
        device = problem.device if problem is not None else None
        for number in (device,) if device is not None else analysis.active_devices[:1]:
            self._timeline.reveal_device(number)
        if around or middle:
            step = (around or middle)[0]
            self.show_with_margin(step.start, step.end)
        elif worst is not None:
            self.show_with_margin(*self._context(worst))
        else:
            self.show_with_margin(*analysis.window)

    def show_with_margin(self, start: int, end: int) -> None:
        """Show a span and a little of what comes before and after."""
        span = max(end - start, 1)
        self._timeline.show_interval(
            start - round(span * LEFT_MARGIN),
            end + round(span * RIGHT_MARGIN),
            animate=self._preferences.animate,
        )

    def show_moment(self, when: int) -> None:
        """Put a moment into the middle of a view of at most 2 ms, or of what is visible now."""
        trace = self._document.trace
        if trace is not None:
            half = max(min(trace.duration // 20, 1_000_000), 1_000)
            self._timeline.show_interval(when - half, when + half, animate=False)

    def start_of_view(self) -> int:
        return int(self._timeline.visible_interval[0])

    def middle_of_view(self) -> int:
        t0, t1 = self._timeline.visible_interval
        return int(t0 + t1) // 2

    def show_lane(self, lane: int) -> None:
        trace = self._document.trace
        if trace is not None:
            t0, t1 = self._timeline.visible_interval
            self._timeline.highlight([Evidence(lane, t0, t1, trace.lanes[lane].name)])

    def fly_to(self, evidence: Sequence[Evidence], which: int) -> None:
        self._timeline.highlight(list(evidence))
        place = evidence[which]
        t0, t1 = self._timeline.visible_interval
        visible = t1 - t0
        length = place.end - place.start
        fits = t0 <= place.start and place.end <= t1 and length > visible / 12
        if not fits:
            start, end = self._context(place)
            self._timeline.show_interval(start, end, animate=self._preferences.animate)
        self._timeline.state.follow_lane(place.lane)
        self._reveal_memory()
        if place.event >= 0:
            self._timeline.state.selection.select_gap(-1)
            self._timeline.state.selection.select_event(place.event)
        else:
            self._timeline.state.selection.select_event(-1)
            self._timeline.state.selection.select_gap(self._gap_of(place))
        self._status.set_selection(length)

    def _look_into_memory(self, moment: Moment) -> None:
        """Mark a moment on the lane of a GPU's memory, and move it into view."""
        timeline, state = self._timeline, self._timeline.state
        if state.scene is None:
            return
        if 0 <= moment.when <= state.end:
            state.reveal(float(moment.when), float(moment.when) + 2 * state.target.ns_per_pixel)
        for track in (track for group in state.scene.index.groups for track in group.tracks):
            if track.stacked and track.device == moment.device:
                placed = state.layout.find(track.key)
                if placed is None or placed.collapsed:
                    timeline.lane_commands.uncover(track, 0)
                timeline.canvas.reveal_track(track.key)

    def _reveal_memory(self) -> None:
        """Scroll to the lane of a GPU's memory while the current finding speaks of that."""
        finding, state = self._document.finding, self._timeline.state
        if finding is None or finding.category not in _ABOUT_MEMORY or state.scene is None:
            return
        for track in (track for group in state.scene.index.groups for track in group.tracks):
            if track.stacked and track.device == finding.device:
                self._timeline.canvas.reveal_track(track.key)

    def _lane_of(self, place: Evidence | None) -> Lane | None:
        """The lane of a place; None for one that is on no lane, such as a moment of memory."""
        trace = self._document.trace
        known = trace is not None and place is not None and 0 <= place.lane < len(trace.lanes)
        return trace.lanes[place.lane] if known and trace is not None and place is not None else None

    def _gap_of(self, place: Evidence) -> int:
        """The row of the idle table that takes most of a place on a device's lane; -1 where there is none."""
        analysis = self._document.analysis
        where = self._lane_of(place)
        device = where.device if where is not None else None
        if analysis is None or device is None:
            return -1
        idle = analysis.idle
        first, last = (int(each) for each in np.searchsorted(idle.device, (device, device + 1)))
        low = first + int(np.searchsorted(idle.end[first:last], place.start, side="right"))
        high = first + int(np.searchsorted(idle.start[first:last], place.end, side="left"))
        if low >= high:
            return -1
        inside = np.minimum(idle.end[low:high], place.end) - np.maximum(idle.start[low:high], place.start)
        return low + int(np.argmax(inside))

    def _context(self, place: Evidence) -> tuple[int, int]:
        length = max(place.end - place.start, 1_000)
        return place.start - length, place.end + length

    def _reveal(self, event: int) -> None:
        trace = self._document.trace
        if trace is not None and event >= 0:
            start, end = int(trace.events.start[event]), int(trace.events.end[event])
            lane = int(trace.events.lane[event])
            self.fly_to([Evidence(lane, start, end, trace.name(event))], 0)

    def _show_step(self, index: int) -> None:
        if index >= 0:
            step = self._document.steps[index]
            self._timeline.state.follow(step.rank)
            self.show_with_margin(step.start, step.end)
        elif self._document.analysis is not None:
            self.show_with_margin(*self._document.analysis.window)

    def _return_to_finding(self, evidence: Sequence[Evidence]) -> None:
        """The places of a finding are marked again: it is the current one again."""
        diagnosis = self._document.diagnosis
        for finding in diagnosis.findings if diagnosis is not None and evidence else ():
            if evidence[0] in finding.evidence:
                self._document.return_to_finding(finding)
                return

    def _say_selection(self) -> None:
        trace, document = self._document.trace, self._document
        length: int | None = None
        if document.area is not None:
            length = document.area.duration
        elif trace is not None and document.selected_event >= 0:
            length = int(trace.events.duration[document.selected_event])
        elif document.analysis is not None and document.selected_gap >= 0:
            length = int(
                document.analysis.idle.end[document.selected_gap]
                - document.analysis.idle.start[document.selected_gap]
            )
        self._status.set_selection(length)
