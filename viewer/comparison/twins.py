"""Two timelines above each other: aligned at a moment of both, zoomed and moved together, with ribbons between them."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QFont, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QWidget

from parsers.model import I64, Trace
from parsers.model.late import dataclass
from rules.analysis.cpu.cpu_time import cpu_time_of_rank
from rules.comparison.matched_steps import MatchedSteps
from rules.comparison.side import Side
from rules.findings.base import Evidence
from viewer.appearance import theme
from viewer.appearance.widgets import NO_MARGINS, ElidedLabel, fill, horizontal, vertical
from viewer.comparison.phases import StepRun
from viewer.comparison.ribbons import MIN_HEIGHT, Ribbons
from viewer.timeline.geometry.arrangement import GroupState
from viewer.timeline.geometry.scale import Scale
from viewer.timeline.view import TimelineView
from viewer.user_data.preferences import Preferences


@dataclass(frozen=True, slots=True)
class Alignment:
    """``before`` lies above ``after`` (ns of either recording); ``stretch``: ns after for one ns before."""

    before: float = 0.0
    after: float = 0.0
    stretch: float = 1.0

    def to_after(self, when: float) -> float:
        """The time after that lies below a time before."""
        return self.after + (when - self.before) * self.stretch

    def to_before(self, when: float) -> float:
        """The time before that lies above a time after."""
        return self.before + (when - self.after) / self.stretch

    def below(self, scale: Scale) -> Scale:
        """What the lower timeline shows while the upper one shows ``scale``."""
        return Scale(self.to_after(scale.t0), self.to_after(scale.t1), scale.width)

    def above(self, scale: Scale) -> Scale:
        """What the upper timeline shows while the lower one shows ``scale``."""
        return Scale(self.to_before(scale.t0), self.to_before(scale.t1), scale.width)

    def limits(self, before: float, after: float) -> tuple[float, float]:
        """From where to where (ns before) one of two recordings of these lengths goes on."""
        return min(0.0, self.to_before(0.0)), max(before, self.to_before(after))


MIN_LANE, MAX_LANE = 40, 66  # pixels
RIBBONS = 0.22  # of the height, at least
AIR = 0.015
START, FIRST_KERNEL = "start of step", "first common kernel"


class SideHeader(QWidget):
    """Which recording a timeline shows: its name, what it is of, and its step time."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._after = name == "After"
        self.setFixedHeight(26)
        self.about = ElidedLabel("", "secondary", pixels=12)
        self.figure = ElidedLabel("", pixels=12, weight=QFont.Weight.DemiBold)
        title = ElidedLabel(name, pixels=12, weight=QFont.Weight.DemiBold)
        title.setFixedWidth(54)
        fill(horizontal(self, (14, 0, 12, 0), 10), title, (self.about, 1), self.figure)

    def paintEvent(self, _: QPaintEvent) -> None:
        painter, colors = QPainter(self), theme.current()
        painter.fillRect(self.rect(), colors.strip)
        painter.fillRect(0, 0, 4, self.height(), colors.accent if self._after else colors.grey)


class TwinTimelines(QWidget):
    """The view of both recordings; ``steps`` says which step of each is matched."""

    event_selected = Signal(int, int)  # side (0 before, 1 after), event

    def __init__(self) -> None:
        super().__init__()
        self.views = TimelineView(), TimelineView()
        for view in self.views:
            view.blames = False  # a name has one colour on both sides
        self.headers = SideHeader("Before"), SideHeader("After")
        self.ribbons = Ribbons(self.views[0].state, self.views[1].state)
        self.alignment = Alignment()
        self.linked, self.same_length, self.all_lanes = True, False, False
        self.aligned_at = START
        self._sides: tuple[Side, Side] | None = None
        self.steps: MatchedSteps | None = None
        self._pairs: tuple[tuple[I64, I64], tuple[I64, I64]] | None = None
        self._following = False
        self._fitting = QTimer(self)
        self._fitting.setSingleShot(True)
        self._fitting.setInterval(0)
        self._fitting.timeout.connect(self._fit_lanes)
        preferences = Preferences()
        for number, (view, name) in enumerate(zip(self.views, ("before", "after"), strict=True)):
            view.setAccessibleName(f"Timeline {name}")
            view.set_animated(preferences.animate)
            view.gestures.use_wheel(preferences.wheel)
            view.overview.hide()
            policy = view.bar.sizePolicy()
            # else lanes that scroll on one side alone are narrower there
            policy.setRetainSizeWhenHidden(True)
            view.bar.setSizePolicy(policy)
            view.state.view_changed.connect(lambda side=number: self._follow_view(side))
            view.state.cursor_moved.connect(lambda _, side=number: self._follow_cursor(side))
            view.state.selection.event_changed.connect(
                lambda event, side=number: self._follow_event(side, event)
            )
            view.ready.connect(lambda side=number: self._on_ready(side))
        self.views[1].ruler.hide()
        fill(
            vertical(self, NO_MARGINS, 0),
            self.headers[0],
            self.views[0],
            (self.ribbons, 1),
            self.views[1],
            self.headers[1],
        )
        self.setAccessibleName("Both timelines")

    def home(self) -> TimelineView:
        """The timeline whose keys are pressed: the one that has the focus, else the one above."""
        return self.views[1] if self.views[1].hasFocus() else self.views[0]

    # What is shown

    def show_trace(self, side: int, trace: Trace | None, message: str = "") -> None:
        """Show the lanes of one side, before anything is known of how it compares."""
        self._sides, self.steps, self._pairs = None, None, None
        self.ribbons.show_steps(None)
        self.views[side].set_trace(trace)
        self.views[side].canvas.message = message
        self.views[side].canvas.update()

    def show_steps(self, sides: tuple[Side, Side], steps: MatchedSteps) -> None:
        """Match these steps: align them, join their phases, and fit both."""
        self._sides, self.steps = sides, steps
        for view, side, step in zip(self.views, sides, steps.steps, strict=True):
            if view.state.scene is None or view.state.scene.trace is not side.trace:
                view.set_trace(side.trace)
            view.set_analysis(side.analysis)
            view.state.follow(step.rank if step is not None else None)
        pairs = np.concatenate((steps.pairs.same, steps.pairs.counterpart))
        before, after = (calls.event[pairs[:, side]] for side, calls in enumerate(steps.calls))
        orders = np.argsort(before, kind="stable"), np.argsort(after, kind="stable")
        self._pairs = ((before[orders[0]], after[orders[0]]), (after[orders[1]], before[orders[1]]))
        alone = [
            None if step is None else cpu_time_of_rank(side.analysis, step.rank)
            for side, step in zip(sides, steps.steps, strict=True)
        ]
        runs = [
            StepRun.of(side.trace, calls, steps.texts) if time is None else StepRun.on_cpu(time, span)
            for side, calls, time, span in zip(sides, steps.calls, alone, self.spans(), strict=True)
        ]
        self.ribbons.show_steps((runs[0], runs[1]))
        for number in (0, 1):
            self._arrange(number)
        self.align()

    def spans(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Start and end of the matched steps, ns of either recording."""
        assert self._sides is not None
        assert self.steps is not None
        found = [
            side.analysis.window if step is None else (step.start, step.end)
            for side, step in zip(self._sides, self.steps.steps, strict=True)
        ]
        return found[0], found[1]

    @property
    def anchors(self) -> list[str]:
        named = dict.fromkeys(before.label for before, _ in self.ribbons.pairs if before.number == 0)
        has_pairs = self._pairs is not None and len(self._pairs[0][0])
        return [START, *(f"start of {label}" for label in named), *([FIRST_KERNEL] if has_pairs else [])]

    def align(self, at: str | None = None) -> None:
        """Lay one moment of both above each other, and show both steps."""
        if self._sides is None or self.steps is None:
            return
        self.aligned_at = (
            at if at in self.anchors else self.aligned_at if self.aligned_at in self.anchors else START
        )
        spans = self.spans()
        before, after = self._anchor(spans)
        lengths = [max(end - start, 1) for start, end in spans]
        self.alignment = Alignment(before, after, lengths[1] / lengths[0] if self.same_length else 1.0)
        ends = [float(side.trace.duration) for side in self._sides]
        low, high = self.alignment.limits(*ends)
        self.views[0].state.set_limits(low, high)
        self.views[1].state.set_limits(self.alignment.to_after(low), self.alignment.to_after(high))
        for view, span, origin in zip(self.views, spans, (before, after), strict=True):
            view.state.set_focus((float(span[0]), float(span[1])))
            view.state.set_origin(origin)
        self.views[1].ruler.setVisible(self.same_length)
        self._fitting.start()
        self.fit()

    def _anchor(self, spans: tuple[tuple[int, int], tuple[int, int]]) -> tuple[float, float]:
        assert self.steps is not None
        if self.aligned_at == FIRST_KERNEL and self._pairs is not None and self._sides is not None:
            first = int(self._sides[0].trace.events.start[self._pairs[0][0]].argmin())
            pair = [int(column[first]) for column in self._pairs[0]]
            starts = [
                int(side.trace.events.start[event]) for side, event in zip(self._sides, pair, strict=True)
            ]
            return float(starts[0]), float(starts[1])
        for one, other in self.ribbons.pairs:
            if one.number == 0 and self.aligned_at == f"start of {one.label}":
                return float(one.start), float(other.start)
        return float(spans[0][0]), float(spans[1][0])

    def fit(self) -> None:
        """Show both steps from the earlier begin to the later end."""
        spans = self.spans()
        low = min(float(spans[0][0]), self.alignment.to_before(spans[1][0]))
        high = max(float(spans[0][1]), self.alignment.to_before(spans[1][1]))
        self.views[0].state.show_interval(low, high, air=AIR)
        if self.linked:
            self._follow_view(0)
        else:
            self.views[1].state.look_at(self.alignment.below(self.views[0].state.target))

    # What is linked

    def set_linked(self, linked: bool) -> None:
        """Whether zoom, position and cursor of one go to the other."""
        self.linked = linked
        if linked:
            self._follow_view(0)

    def set_same_length(self, same: bool) -> None:
        """Whether both steps are drawn equally long, which stretches one of them."""
        self.same_length = same
        self.align()

    def set_all_lanes(self, every: bool) -> None:
        """Whether lanes of the CPU and counters are shown, too."""
        self.all_lanes = every
        for side in (0, 1):
            self._arrange(side)

    def _follow_view(self, side: int) -> None:
        if self._following or not self.linked or self.steps is None:
            return
        self._following = True
        mine, other = self.views[side].state, self.views[1 - side].state
        wanted = self.alignment.above(mine.scale) if side else self.alignment.below(mine.scale)
        other.look_at(wanted, animate=False, remember=False)
        self._following = False

    def _follow_cursor(self, side: int) -> None:
        if self._following or not self.linked or self.steps is None:
            return
        self._following = True
        mine, other = self.views[side].state, self.views[1 - side].state
        when = mine.cursor
        if when is not None:
            when = self.alignment.to_before(when) if side else self.alignment.to_after(when)
        other.set_cursor(when)
        self._following = False

    def _follow_event(self, side: int, event: int) -> None:
        """Select what corresponds to an event on the other side."""
        if self._following or self._pairs is None:
            return
        self._following = True
        mine, other = self._pairs[side]
        place = int(np.searchsorted(mine, event))
        found = int(other[place]) if event >= 0 and place < len(mine) and mine[place] == event else -1
        self.views[1 - side].state.selection.select_event(found)
        self._following = False
        self.event_selected.emit(side, event)

    def highlight(self, places: tuple[list[Evidence], list[Evidence]]) -> None:
        """Mark places on both sides, and fly to the longest of a side where none is in view."""
        for view, mine in zip(self.views, places, strict=True):
            view.highlight(mine)
        for view, mine in zip(self.views, places, strict=True):
            scale = view.state.target
            if mine and not any(each.end > scale.t0 and each.start < scale.t1 for each in mine):
                longest = max(mine, key=lambda each: each.end - each.start)
                view.state.reveal(float(longest.start), float(longest.end))
                return

    @property
    def is_marked(self) -> bool:
        """Whether something is selected or marked on either side."""
        states = [view.state for view in self.views]
        return any(each.selected >= 0 or each.gap >= 0 or each.area or each.evidence for each in states)

    def clear(self) -> None:
        for view in self.views:
            view.clear_selection()

    # Lanes

    def _on_ready(self, side: int) -> None:
        self._arrange(side)
        if self.steps is not None:
            self.align()

    def _arrange(self, side: int) -> None:
        """Lanes of GPUs alone, unless all are wanted; of several ranks the matched one in full."""
        state = self.views[side].state
        if state.scene is None:
            return
        groups = state.scene.index.groups
        tracks = [track for group in groups for track in group.tracks]
        on_gpu = [track for track in tracks if track.is_gpu_lane]
        kept = {track.key for track in (on_gpu if on_gpu and not self.all_lanes else tracks)}
        rows = [track.key for group in groups for track in group.busy]
        state.arrangement.hidden = {*(track.key for track in tracks), *rows} - kept
        others = [track for track in tracks if not track.is_gpu_lane]
        state.arrangement.order = [track.key for track in (*on_gpu, *others)]
        state.arrangement.collapsed.update({track.key: False for track in on_gpu})
        step = self.steps.steps[side] if self.steps is not None else None
        if len(groups) > 1:
            shown = f"rank {step.rank}" if step is not None and step.rank is not None else groups[0].key
            state.arrangement.groups = {
                group.key: GroupState.FULL if group.key == shown else GroupState.STRIP for group in groups
            }
        state.relayout()
        self._fitting.start()

    def _fit_lanes(self) -> None:
        """Equal heights of lanes on both sides, and each side no higher than its lanes."""
        ruler = sum(view.ruler.sizeHint().height() for view in self.views if view.ruler.isVisible())
        ribbons = max(MIN_HEIGHT, round(self.height() * RIBBONS))
        beside = sum(header.height() for header in self.headers) + ribbons
        room = max((self.height() - beside - ruler) // 2, MIN_LANE)
        wanted = []
        for view in self.views:
            placed = view.state.layout.scrolled
            lanes = [each for each in placed if each.track.is_gpu_lane and not each.collapsed]
            others = sum(each.height for each in placed) - sum(each.height for each in lanes)
            if lanes:
                wanted.append((room - others) // len(lanes))
        height = min(max(min(wanted, default=MIN_LANE), MIN_LANE), max(MAX_LANE, room // 2))
        for view in self.views:
            keys = [each.track.key for each in view.state.layout.scrolled if each.track.is_gpu_lane]
            if any(view.state.arrangement.heights.get(key) != height for key in keys):
                view.state.arrangement.heights.update(dict.fromkeys(keys, height))
                view.state.relayout()
            above = view.ruler.sizeHint().height() if view.ruler.isVisible() else 0
            layout = view.state.layout
            needed = layout.pinned_height + layout.scrolled_height
            if needed > room:
                needed -= self._matched_rank(view)
            view.setFixedHeight(above + min(max(needed, MIN_LANE), room))
        QTimer.singleShot(0, self, self._reveal_rank)

    @staticmethod
    def _matched_rank(view: TimelineView) -> int:
        """Where the lanes of the matched rank begin, in pixels."""
        groups = view.state.arrangement.groups
        full = (
            each for each in view.state.layout.headings if groups.get(each.track.group) is GroupState.FULL
        )
        return next((heading.top for heading in full), 0)

    def _reveal_rank(self) -> None:
        """Begin with the lanes of the matched rank where not all ranks fit."""
        for view in self.views:
            view.canvas.scroll_to(self._matched_rank(view))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fitting.start()
