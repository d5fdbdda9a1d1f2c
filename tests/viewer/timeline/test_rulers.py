"""The ruler, the steps and the overview under the mouse."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from parsers.model import Counter, Device, EventKind, Lane, LaneKind
from parsers.model.builder import TraceBuilder
from parsers.model.late import dataclass
from rules.analysis.analysis import Analysis
from tests.viewer.timeline.mouse import LEFT, MS, NONE, drag, span, wheel, x_of
from viewer.appearance import theme
from viewer.timeline.names_column import NAMES_WIDTH
from viewer.timeline.ruler import RULER_HEIGHT
from viewer.timeline.view import TimelineView

CONTROL = Qt.KeyboardModifier.ControlModifier


def test_dragging_on_the_ruler_measures_over_all_lanes(view: TimelineView) -> None:
    y = RULER_HEIGHT // 2
    drag(view.ruler, QPoint(x_of(view, 2), y), QPoint(x_of(view, 12), y))
    assert view.state.area is not None
    assert view.state.area.duration == pytest.approx(10 * MS, abs=0.1 * MS)
    assert view.state.area.lanes == ()


# Steps


def test_a_click_on_a_step_fits_it(view: TimelineView, qtbot: QtBot) -> None:
    place = QPoint(x_of(view, 15), RULER_HEIGHT + 10)
    with qtbot.waitSignal(view.step_selected) as told:
        QTest.mouseClick(view.ruler, LEFT, NONE, place)
    step = view.state.scene.steps[told.args[0]] if view.state.scene else None
    assert step is not None
    t0, t1 = view.visible_interval
    assert t0 < step.start < 15 * MS < step.end < t1
    assert t1 - t0 < 1.2 * (step.end - step.start)


def test_brackets_go_to_the_next_and_the_previous_step(view: TimelineView) -> None:
    steps = [step for _, step in view.state.shown_steps]
    view.show_interval(steps[0].start, steps[0].end)
    QTest.keyClicks(view, "]")
    assert view.visible_interval[0] < steps[1].start < steps[1].end < view.visible_interval[1]
    QTest.keyClicks(view, "[")
    assert view.visible_interval[0] < steps[0].end < view.visible_interval[1]


# Overview


def test_dragging_the_window_of_the_overview_moves_the_view(view: TimelineView) -> None:
    view.show_interval(5 * MS, 10 * MS)
    middle = view.overview.window_rect().center().toPoint()
    drag(view.overview, middle, middle + QPoint(150, 0))
    assert view.visible_interval[0] > 8 * MS
    assert span(view) == pytest.approx(5 * MS, rel=0.01)


def test_dragging_an_edge_of_the_window_changes_its_length(view: TimelineView) -> None:
    view.show_interval(5 * MS, 10 * MS)
    window = view.overview.window_rect()
    edge = QPoint(round(window.right()), round(window.center().y()))
    drag(view.overview, edge, edge + QPoint(100, 0))
    assert view.visible_interval[0] == pytest.approx(5 * MS, abs=0.2 * MS)
    assert span(view) > 7 * MS


def test_dragging_beside_the_window_makes_a_new_one_and_a_click_moves_it(view: TimelineView) -> None:
    view.show_interval(1 * MS, 3 * MS)
    x = NAMES_WIDTH + 500
    drag(view.overview, QPoint(x, 20), QPoint(x + 100, 20))
    assert view.visible_interval[0] > 15 * MS
    view.show_interval(1 * MS, 3 * MS)
    QTest.mouseClick(view.overview, LEFT, NONE, QPoint(x, 20))
    assert view.visible_interval[0] > 10 * MS
    assert span(view) == pytest.approx(2 * MS, rel=0.01)


def test_the_ruler_can_count_from_a_step_or_from_anywhere(view: TimelineView) -> None:
    def choose(text: str, x: int) -> None:
        action = next(action for action in view.ruler.menu(x).actions() if text in action.text())
        action.trigger()

    choose("this step", x_of(view, 15))
    step = next(step for _, step in view.state.shown_steps if step.start <= 15 * MS < step.end)
    assert view.state.origin == step.start
    choose("here", x_of(view, 5))
    assert view.state.origin == pytest.approx(5 * MS, abs=0.1 * MS)
    choose("recording", 300)
    assert view.state.origin == 0


@dataclass(frozen=True)
class Kept:
    start: int
    end: int
    title: str


def test_a_click_on_a_bookmark_shows_it(view: TimelineView) -> None:
    view.state.set_bookmarks([Kept(15 * MS, 15 * MS + 1000, "here"), Kept(22 * MS, 24 * MS, "there")])
    x = x_of(view, 15) + 3
    assert view.ruler.bookmark_at(x, 5).title == "here"
    assert view.ruler.bookmark_at(x + 40, 5) is None
    assert not view.picture().isNull()
    QTest.mouseClick(view.ruler, LEFT, NONE, QPoint(x, 5))
    assert span(view) < 1 * MS
    assert view.visible_interval[0] < 15 * MS < view.visible_interval[1]


# The overview's own zoom


def test_ctrl_and_the_wheel_zoom_the_overview_and_a_double_click_shows_the_run(view: TimelineView) -> None:
    end = view.state.end
    view.show_interval(5 * MS, 6 * MS)
    assert view.overview.shown == (0.0, end)
    before = view.overview.window_rect().width()
    wheel(view.overview, view.overview.window_rect().center().toPoint(), 4, CONTROL)
    t0, t1 = view.overview.shown
    assert 0 < t0 < 5 * MS
    assert 6 * MS < t1 < end
    assert view.visible_interval == (5 * MS, 6 * MS)
    assert view.overview.window_rect().width() > 3 * before
    assert view.overview.window_rect().left() > NAMES_WIDTH
    QTest.mouseDClick(view.overview, LEFT, NONE, view.overview.rect().center())
    assert view.overview.shown == (0.0, end)


def test_the_window_is_never_outside_of_the_zoomed_overview(view: TimelineView) -> None:
    view.show_interval(5 * MS, 6 * MS)
    view.overview.toggle_zoom()
    length = view.overview.shown[1] - view.overview.shown[0]
    assert length == pytest.approx(5 * MS)
    view.show_interval(20 * MS, 21 * MS)
    t0, t1 = view.overview.shown
    assert t0 <= 20 * MS < 21 * MS <= t1
    assert t1 - t0 == pytest.approx(length)
    view.fit_all()
    assert view.overview.shown == (0.0, view.state.end)


def test_steps_that_are_a_sliver_of_a_long_run_fill_the_overview(qtbot: QtBot) -> None:
    builder = TraceBuilder()
    steps = builder.lane(Lane(LaneKind.STEPS, "Steps", process=7))
    thread = builder.lane(Lane(LaneKind.CPU_THREAD, "Main thread", process=7, thread=7))
    stream = builder.lane(
        Lane(LaneKind.GPU_STREAM, "stream 7", device=builder.device(Device(0, "GPU")), stream=7)
    )
    begin = 20_000 * MS + np.arange(4) * 30 * MS
    builder.add(begin, begin + 30 * MS, builder.string("ProfilerStep#1"), steps, EventKind.STEP)
    builder.add(begin, begin + 10 * MS, builder.string("gemm"), stream, EventKind.KERNEL)
    builder.add(np.array([0]), np.array([22_000 * MS]), builder.string("main"), thread, EventKind.CPU_OP)
    trace = builder.build()
    timeline = TimelineView()
    qtbot.addWidget(timeline)
    timeline.set_animated(False)
    timeline.resize(1000, 400)
    timeline.show()
    timeline.set_trace(trace)
    timeline.show_interval(20_010 * MS, 20_040 * MS)
    timeline.set_analysis(Analysis(trace))
    t0, t1 = timeline.overview.shown
    assert 19_900 * MS < t0 < 20_000 * MS
    assert 20_120 * MS < t1 < 20_200 * MS


def test_the_overview_of_a_log_shows_how_busy_something_was(qtbot: QtBot) -> None:
    builder = TraceBuilder()
    device = builder.device(Device(0, "GPU"))
    time = np.arange(10, dtype=np.int64) * 100 * MS
    power, busy = np.full(10, 300.0), np.where(np.arange(10) == 4, 100.0, 0.0)
    builder.counters.append(Counter("GPU 0 power", "W", time, power, device=device))
    builder.counters.append(Counter("GPU 0 GPU utilization", "%", time, busy, device=device))
    timeline = TimelineView()
    qtbot.addWidget(timeline)
    timeline.resize(1000, 400)
    timeline.show()
    timeline.set_trace(builder.build())
    picture = timeline.overview.grab().toImage()
    lanes = 1000 - NAMES_WIDTH
    high, low = (
        picture.pixelColor(NAMES_WIDTH + round(lanes * share), timeline.overview.height() // 2)
        for share in (0.5, 0.8)
    )
    assert high == theme.current().grey
    assert low != theme.current().grey


def test_what_is_said_of_a_step_goes_when_another_comes_under_the_mouse(view: TimelineView) -> None:
    place = QPoint(x_of(view, 13), RULER_HEIGHT + 8)
    QTest.mouseMove(view.ruler, place)
    assert "click to fit" in view.ruler.toolTip()
    QTest.keyClick(view, "d")
    assert view.ruler.toolTip() == ""
    QTest.mouseMove(view.ruler, place + QPoint(1, 0))
    assert "click to fit" in view.ruler.toolTip()
