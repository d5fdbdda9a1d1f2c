"""The timeline under mouse and keyboard: every gesture and every key."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QNativeGestureEvent, QPointingDevice
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from parsers.model import LaneKind, Trace
from rules.analysis.analysis import Analysis
from rules.analysis.idle.causes import Cause
from rules.findings.base import Evidence
from tests.viewer.timeline.mouse import LEFT, MS, NONE, SHIFT, at, drag, kernel, span, wheel
from viewer.timeline.names_column import NAMES_WIDTH
from viewer.timeline.selection import Area
from viewer.timeline.view import TimelineView

# The view


def test_opening_shows_the_whole_run(view: TimelineView, small_run: Trace) -> None:
    t0, t1 = view.visible_interval
    assert t0 <= 0
    assert t1 >= small_run.duration


@pytest.mark.parametrize(("key", "forwards"), [("a", False), ("d", True)])
def test_a_and_d_move_the_view(view: TimelineView, key: str, forwards: bool) -> None:
    view.show_interval(10 * MS, 14 * MS)
    QTest.keyClicks(view, key)
    assert (view.visible_interval[0] > 10 * MS) is forwards
    assert span(view) == pytest.approx(4 * MS, abs=2)


@pytest.mark.parametrize(("key", "forwards"), [(Qt.Key.Key_Left, False), (Qt.Key.Key_Right, True)])
def test_arrows_move_the_view(view: TimelineView, key: Qt.Key, forwards: bool) -> None:
    view.show_interval(10 * MS, 14 * MS)
    QTest.keyClick(view, key)
    assert (view.visible_interval[0] > 10 * MS) is forwards


def test_home_and_end_go_to_the_edges_at_the_same_zoom(view: TimelineView, small_run: Trace) -> None:
    view.show_interval(10 * MS, 14 * MS)
    QTest.keyClick(view, Qt.Key.Key_End)
    assert view.visible_interval[1] >= small_run.duration
    assert span(view) == pytest.approx(4 * MS, abs=2)
    QTest.keyClick(view, Qt.Key.Key_Home)
    assert view.visible_interval[0] <= 0


def test_the_wheel_zooms_at_the_cursor(view: TimelineView) -> None:
    view.show_interval(5 * MS, 25 * MS)
    place = at(view, 12)
    before = view.state.scale.time(place.x() - NAMES_WIDTH)
    wheel(view.canvas, place, 2)
    assert span(view) < 20 * MS
    assert view.state.scale.time(place.x() - NAMES_WIDTH) == pytest.approx(before, abs=span(view) / 500)
    wheel(view.canvas, place, -4, Qt.KeyboardModifier.ControlModifier)
    assert span(view) > 20 * MS


def test_the_wheel_with_shift_moves_the_view(view: TimelineView) -> None:
    view.show_interval(10 * MS, 14 * MS)
    wheel(view.canvas, at(view, 12), -1, SHIFT)
    assert view.visible_interval[0] > 10 * MS
    assert span(view) == pytest.approx(4 * MS, abs=2)


def test_the_wheel_over_the_names_scrolls_the_lanes(view: TimelineView) -> None:
    view.resize(1000, 260)
    QApplication.processEvents()
    assert view.canvas.most_offset > 0
    before = view.visible_interval
    wheel(view.canvas, QPoint(40, 40), -1)
    assert view.canvas.offset > 0
    assert view.visible_interval == before
    QTest.keyClick(view, Qt.Key.Key_PageUp)
    assert view.canvas.offset == 0
    QTest.keyClick(view, Qt.Key.Key_Down)
    assert view.canvas.offset > 0


@pytest.mark.parametrize(
    ("habit", "alone", "with_control", "with_alt"),
    [
        ("maps", "zooms", "zooms", "scrolls"),
        ("perfetto", "scrolls", "zooms", "scrolls"),
        ("chrome", "scrolls", "scrolls", "zooms"),
    ],
)
def test_the_wheel_follows_the_habit_one_chose(
    view: TimelineView, habit: str, alone: str, with_control: str, with_alt: str
) -> None:
    view.resize(1000, 260)
    QApplication.processEvents()
    view.gestures.use_wheel(habit)
    keys = (NONE, Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.AltModifier)
    for key, does in zip(keys, (alone, with_control, with_alt), strict=True):
        view.show_interval(10 * MS, 14 * MS)
        view.canvas.scroll_to(0)
        to_the_side = key is Qt.KeyboardModifier.AltModifier  # as Qt then calls every turn
        wheel(view.canvas, at(view, 12), -1 * (not to_the_side), key, across=-1 * to_the_side)
        assert (span(view) > 4.1 * MS) == (does == "zooms"), key
        assert (view.canvas.offset > 0) == (does == "scrolls"), key
        view.canvas.scroll_to(0)
        wheel(view.canvas, at(view, 12), -1, SHIFT)
        assert view.canvas.offset == 0


def test_two_fingers_on_a_touchpad_scroll_and_pan(view: TimelineView) -> None:
    view.resize(1000, 260)
    QApplication.processEvents()
    view.show_interval(10 * MS, 14 * MS)
    wheel(view.canvas, at(view, 12), 0.1, NONE, QPoint(-50, -30))
    assert view.visible_interval[0] > 10 * MS
    assert view.canvas.offset == 30
    assert span(view) == pytest.approx(4 * MS, abs=2)
    wheel(view.canvas, at(view, 12), 0.5, Qt.KeyboardModifier.ControlModifier, QPoint(0, 40))
    assert span(view) < 3.9 * MS  # as some systems tell a pinch


def test_a_wheel_that_is_tilted_moves_the_view(view: TimelineView) -> None:
    view.show_interval(10 * MS, 14 * MS)
    wheel(view.canvas, at(view, 12), 0, across=-1)
    assert view.visible_interval[0] > 10 * MS
    assert span(view) == pytest.approx(4 * MS, abs=2)


def test_pinching_zooms(view: TimelineView) -> None:
    view.show_interval(10 * MS, 14 * MS)
    place = QPointF(at(view, 12))
    pinch = QNativeGestureEvent(
        Qt.NativeGestureType.ZoomNativeGesture,
        QPointingDevice.primaryPointingDevice(),
        2,
        place,
        place,
        place,
        0.25,
        QPointF(),
    )
    QApplication.sendEvent(view.canvas, pinch)
    assert span(view) == pytest.approx(4 * MS / 1.25, rel=0.01)


@pytest.mark.parametrize(("button", "modifiers"), [(LEFT, SHIFT), (Qt.MouseButton.MiddleButton, NONE)])
def test_shift_drag_and_middle_drag_move_what_is_under_the_cursor(
    view: TimelineView, button: Qt.MouseButton, modifiers: Qt.KeyboardModifier
) -> None:
    view.show_interval(10 * MS, 14 * MS)
    start = at(view, 12)
    drag(view.canvas, start, start + QPoint(-100, 0), button, modifiers)
    assert view.state.scale.time(start.x() - 100 - NAMES_WIDTH) == pytest.approx(
        12 * MS, abs=span(view) / 300
    )
    assert view.state.area is None


def test_history_goes_back_and_forward(view: TimelineView) -> None:
    whole = view.visible_interval
    view.show_interval(10 * MS, 14 * MS)
    QTest.keyClick(view, Qt.Key.Key_Left, Qt.KeyboardModifier.AltModifier)
    assert view.visible_interval == whole
    QTest.keyClick(view, Qt.Key.Key_Right, Qt.KeyboardModifier.AltModifier)
    assert view.visible_interval == (10 * MS, 14 * MS)
    QTest.keyClick(view, Qt.Key.Key_Backspace)
    assert view.visible_interval == whole


def test_one_cannot_leave_the_recording(view: TimelineView, small_run: Trace) -> None:
    view.show_interval(-1000 * MS, -900 * MS)
    assert view.visible_interval[1] > 0
    view.show_interval(0, 1e15)
    assert span(view) < small_run.duration * 1.1


def test_a_flight_ends_where_it_should(view: TimelineView, qtbot: QtBot) -> None:
    view.set_animated(True)
    view.show_interval(10 * MS, 14 * MS)
    qtbot.waitUntil(lambda: view.visible_interval == (10 * MS, 14 * MS))


def test_the_view_says_what_it_shows(view: TimelineView, qtbot: QtBot) -> None:
    with qtbot.waitSignal(view.view_changed) as told:
        view.show_interval(10 * MS, 14 * MS)
    assert told.args == [(10 * MS, 14 * MS)]


# Events


def test_a_click_selects_the_event_under_it(view: TimelineView, small_run: Trace, qtbot: QtBot) -> None:
    with qtbot.waitSignal(view.state.selection.event_changed) as told:
        QTest.mouseClick(view.canvas, LEFT, NONE, at(view, 6.7))
    assert told.args == [kernel(small_run, 0)]
    QTest.mouseClick(view.canvas, LEFT, NONE, at(view, 3, "Main thread"))
    assert view.state.selected == -1


def test_a_click_on_idle_time_selects_the_gap(view: TimelineView, small_run: Trace, qtbot: QtBot) -> None:
    with qtbot.waitSignal(view.state.selection.gap_changed) as told:
        QTest.mouseClick(view.canvas, LEFT, NONE, at(view, 13))
    idle = Analysis(small_run).idle
    row = told.args[0]
    assert idle.start[row] <= 13 * MS < idle.end[row]
    assert idle.cause[row] in list(Cause)


def test_hidden_gaps_cannot_be_clicked(view: TimelineView) -> None:
    view.set_gaps_visible(False)
    QTest.mouseClick(view.canvas, LEFT, NONE, at(view, 13))
    assert view.state.gap == -1


def test_a_double_click_zooms_to_the_event(view: TimelineView) -> None:
    QTest.mouseDClick(view.canvas, LEFT, NONE, at(view, 6.7))
    t0, t1 = view.visible_interval
    assert 6 * MS < t0 < 6.4 * MS
    assert 7.1 * MS < t1 < 7.5 * MS


def test_a_double_click_zooms_to_the_gap(view: TimelineView) -> None:
    QTest.mouseDClick(view.canvas, LEFT, NONE, at(view, 13))
    t0, t1 = view.visible_interval
    assert 8 * MS < t0 < 13 * MS < t1 < 18 * MS


def test_dot_and_comma_walk_along_the_row(view: TimelineView, small_run: Trace) -> None:
    view.select_event(kernel(small_run, 0))
    QTest.keyClicks(view, ".")
    assert view.state.selected == kernel(small_run, 1)
    QTest.keyClicks(view, ",,")
    assert view.state.selected == kernel(small_run, 0)


def test_walking_begins_on_the_first_stream_when_nothing_is_selected(
    view: TimelineView, small_run: Trace
) -> None:
    view.show_interval(16 * MS, 20 * MS)
    QTest.keyClicks(view, ".")
    assert view.state.selected == kernel(small_run, 4)


def test_selecting_from_elsewhere_moves_the_event_into_view(view: TimelineView, small_run: Trace) -> None:
    view.show_interval(0, 2 * MS)
    view.select_event(kernel(small_run, 11))
    t0, t1 = view.visible_interval
    assert t0 <= small_run.events.start[kernel(small_run, 11)]
    assert small_run.events.end[kernel(small_run, 11)] <= t1
    view.show_interval(0, 2 * MS)
    view.select_event(kernel(small_run, 10), reveal=False)
    assert view.visible_interval == (0, 2 * MS)


def test_selecting_a_nested_event_of_a_folded_lane_unfolds_it(view: TimelineView, small_run: Trace) -> None:
    lane = next(index for index, each in enumerate(small_run.lanes) if each.kind is LaneKind.CPU_THREAD)
    folded = view.state.layout.of_lane(lane)
    assert folded is not None
    view.lane_commands.toggle(folded)
    view.select_event(small_run.events.rows(lane)[1].start)
    placed = view.state.layout.of_lane(lane)
    assert placed is not None
    assert not placed.collapsed


def test_f_fits_the_selection(view: TimelineView, small_run: Trace) -> None:
    view.select_event(kernel(small_run, 5))
    QTest.keyClicks(view, "f")
    assert span(view) < 1 * MS
    view.clear_selection()
    QTest.keyClicks(view, "f")
    assert span(view) > small_run.duration


def test_return_fits_the_selected_gap(view: TimelineView) -> None:
    QTest.mouseClick(view.canvas, LEFT, NONE, at(view, 13))
    QTest.keyClick(view, Qt.Key.Key_Return)
    assert 5 * MS < span(view) < 9 * MS


# Areas


def test_dragging_selects_an_area_with_its_lanes(view: TimelineView, small_run: Trace, qtbot: QtBot) -> None:
    with qtbot.waitSignal(view.state.selection.area_changed) as told:
        drag(view.canvas, at(view, 6), at(view, 9))
    area = told.args[0]
    assert area.start == pytest.approx(6 * MS, abs=0.1 * MS)
    assert area.end == pytest.approx(9 * MS, abs=0.1 * MS)
    assert [small_run.lanes[lane].kind for lane in area.lanes] == [LaneKind.GPU_STREAM]


def test_dragging_across_lanes_takes_all_of_them(view: TimelineView, small_run: Trace) -> None:
    drag(view.canvas, at(view, 6, "Main thread"), at(view, 9))
    assert view.state.area is not None
    kinds = [small_run.lanes[lane].kind for lane in view.state.area.lanes]
    assert kinds == [LaneKind.CPU_THREAD, LaneKind.CUDA_API, LaneKind.GPU_STREAM]


def test_a_click_takes_the_area_away(view: TimelineView, qtbot: QtBot) -> None:
    drag(view.canvas, at(view, 6), at(view, 9))
    with qtbot.waitSignal(view.state.selection.area_changed) as told:
        QTest.mouseClick(view.canvas, LEFT, NONE, at(view, 3, "Main thread"))
    assert told.args == [None]


def test_m_measures_the_selected_event_and_again_takes_it_away(view: TimelineView, small_run: Trace) -> None:
    view.select_event(kernel(small_run, 2))
    QTest.keyClicks(view, "m")
    assert view.state.area is not None
    assert view.state.area.duration == small_run.events.duration[kernel(small_run, 2)]
    QTest.keyClicks(view, "m")
    assert view.state.area is None


def test_escape_clears_everything(view: TimelineView, small_run: Trace) -> None:
    view.select_event(kernel(small_run, 2))
    view.state.select_area(Area(0, MS))
    view.highlight([Evidence(0, 0, MS, "x")])
    QTest.keyClick(view, Qt.Key.Key_Escape)
    state = view.state
    assert (state.selected, state.gap, state.area, state.evidence) == (-1, -1, None, ())


# Several things


def test_moving_the_mouse_tells_the_time_and_leaving_ends_it(view: TimelineView, qtbot: QtBot) -> None:
    with qtbot.waitSignal(view.cursor_moved) as told:
        QTest.mouseMove(view.canvas, at(view, 12))
    assert told.args[0] == pytest.approx(12 * MS, abs=0.1 * MS)
    QApplication.sendEvent(view.canvas, QEvent(QEvent.Type.Leave))
    assert view.state.cursor is None


def test_a_card_that_is_to_come_waits_until_the_lanes_are_at_rest(view: TimelineView, qtbot: QtBot) -> None:
    QTest.mouseMove(view.canvas, at(view, 6.7))
    view.resize(view.width(), view.height() + 40)  # as a late layout does
    qtbot.waitUntil(view.gestures.card.isVisible)
    view.resize(view.width(), view.height() - 40)
    assert not view.gestures.card.isVisible()


def test_a_resting_cursor_shows_a_card_of_plain_text(view: TimelineView, qtbot: QtBot) -> None:
    QTest.mouseMove(view.canvas, at(view, 6.7))
    card = view.gestures.card
    qtbot.waitUntil(card.isVisible)
    assert "gemm" in card.text.replace("\u200b", "")
    assert "<float>" in card.text.replace("\u200b", "")
    QTest.keyClick(view, Qt.Key.Key_D)  # what it tells of is no longer under the cursor
    assert not card.isVisible()
    assert "700 us" in card.text
    QTest.mouseMove(view.canvas, at(view, 6.8))
    assert not card.isVisible()


def test_events_before_the_analysis_are_drawn_and_the_analysis_may_come_first(
    qtbot: QtBot, small_run: Trace
) -> None:
    timeline = TimelineView()
    qtbot.addWidget(timeline)
    timeline.resize(800, 400)
    timeline.set_trace(small_run)
    assert not timeline.picture().isNull()
    timeline.set_analysis(None)
    assert not timeline.picture().isNull()
    timeline.set_trace(None)
    assert not timeline.picture().isNull()


def test_a_large_recording_is_indexed_in_the_background(
    qtbot: QtBot, small_run: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("viewer.timeline.view.AT_ONCE", 1)
    timeline = TimelineView()
    qtbot.addWidget(timeline)
    with qtbot.waitSignal(timeline.ready):
        timeline.set_trace(small_run)
        timeline.set_analysis(Analysis(small_run))
        timeline.show_interval(10 * MS, 14 * MS, animate=False)
        assert timeline.state.scene is None
    assert timeline.state.scene is not None
    qtbot.waitUntil(lambda: timeline.state.scene is not None and timeline.state.scene.idle is not None)
    assert timeline.visible_interval == (10 * MS, 14 * MS)


def test_a_screen_reader_is_told_what_is_selected(view: TimelineView, small_run: Trace) -> None:
    view.select_event(kernel(small_run, 0))
    assert "gemm_kernel" in view.canvas.accessibleDescription()
    assert "700 us" in view.canvas.accessibleDescription()
    view.select_event(-1)
    assert view.canvas.accessibleDescription() == ""


@pytest.mark.parametrize(("width", "height"), [(60, 40), (190, 120), (400, 90), (3000, 1500)])
def test_any_size_is_drawn(view: TimelineView, width: int, height: int) -> None:
    view.resize(width, height)
    QApplication.processEvents()
    assert view.picture().width() >= 1
    QTest.keyClicks(view, "ws")


def test_the_finest_zoom_still_shows_the_event(view: TimelineView, small_run: Trace) -> None:
    start = int(small_run.events.start[kernel(small_run, 0)])
    view.show_interval(start + 1000, start + 1001)
    assert 40 <= span(view) < 100
    assert not view.picture().isNull()
    QTest.mouseClick(view.canvas, LEFT, NONE, QPoint(600, at(view, 6).y()))
    assert view.state.selected == kernel(small_run, 0)


def test_of_very_many_places_those_in_view_are_marked(view: TimelineView) -> None:
    places = [Evidence(0, number * 1000, number * 1000 + 500, "x") for number in range(30_000)]
    view.highlight(places)
    view.show_interval(29 * MS, 29.01 * MS)
    assert [place.start for place in view.state.evidence_in_view(400)] == list(
        range(29_000_000, 29_011_000, 1000)
    )
    view.fit_all()
    assert len(view.state.evidence_in_view(400)) == 400


def test_shift_with_up_and_down_goes_from_row_to_row(view: TimelineView, small_run: Trace) -> None:
    view.select_event(kernel(small_run, 0))
    QTest.keyClick(view, Qt.Key.Key_Up, SHIFT)
    assert small_run.name(view.state.selected) == "cudaLaunchKernel"
    QTest.keyClick(view, Qt.Key.Key_Up, SHIFT)
    assert small_run.name(view.state.selected) == "aten::addmm"
    QTest.keyClick(view, Qt.Key.Key_Up, SHIFT)
    assert small_run.name(view.state.selected) == "aten::linear"
    for _ in range(3):
        QTest.keyClick(view, Qt.Key.Key_Down, SHIFT)
    assert small_run.lanes[small_run.events.lane[view.state.selected]].kind is LaneKind.GPU_STREAM
