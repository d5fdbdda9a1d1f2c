"""Back and forward through views and what was selected in them, and undo of what was done to the lanes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from viewer.panels.tabs.selection import SelectionPanel
from viewer.window.main_window import MainWindow

from .conftest import MS
from .test_keys import choose_from_menu, press
from .timeline.mouse import LEFT, NONE, SHIFT, at, drag, kernel, wheel


def test_zooming_and_moving_without_a_pause_is_one_view_to_go_back_from(window: MainWindow) -> None:
    timeline = window.timeline
    timeline.fit_all()
    before = timeline.visible_interval
    for notches in (1, 1, 1):
        wheel(timeline.canvas, at(timeline, 30), notches)
    QTest.keyClicks(timeline, "wwd")
    there = timeline.visible_interval
    press(window, "Alt+Left")
    assert timeline.visible_interval == before
    press(window, "Alt+Right")
    assert timeline.visible_interval == there


def test_after_a_pause_zooming_is_another_view(window: MainWindow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viewer.timeline.state.PAUSE_MS", -1)
    timeline = window.timeline
    timeline.fit_all()
    views = []
    for _ in range(3):
        views.append(timeline.visible_interval)
        wheel(timeline.canvas, at(timeline, 30), 1)
    for view in reversed(views):
        press(window, "Alt+Left")
        assert timeline.visible_interval == view


def test_a_drag_is_one_view_to_go_back_from(window: MainWindow) -> None:
    timeline = window.timeline
    timeline.show_interval(10 * MS, 14 * MS, animate=False)
    start = at(timeline, 12)
    drag(timeline.canvas, start, start + QPoint(-90, 0), LEFT, SHIFT)
    drag(timeline.canvas, start, start + QPoint(-90, 0), LEFT, SHIFT)
    press(window, "Alt+Left")
    press(window, "Alt+Left")
    assert timeline.visible_interval == (10 * MS, 14 * MS)


def test_a_selection_belongs_to_the_place_one_goes_back_to(window: MainWindow) -> None:
    timeline, trace = window.timeline, window.document.trace
    assert trace is not None
    timeline.fit_all()
    QApplication.processEvents()
    first, second = kernel(trace, 0), kernel(trace, 5)
    timeline.select_event(first)
    QApplication.processEvents()
    seen = timeline.visible_interval
    timeline.select_event(second)  # selects and flies: one step back
    QApplication.processEvents()
    press(window, "Alt+Left")
    assert (timeline.state.selected, timeline.visible_interval) == (first, seen)
    assert window.document.selected_event == first
    press(window, "Alt+Left")
    assert timeline.state.selected == -1
    press(window, "Alt+Right")
    press(window, "Alt+Right")
    assert timeline.state.selected == second


def test_gaps_areas_and_findings_belong_to_the_place_too(window: MainWindow) -> None:
    timeline, document = window.timeline, window.document
    told = window.panels.findChild(SelectionPanel)

    def do(act: Callable[..., object], *about: object) -> tuple[object, ...]:
        act(*about)
        QApplication.processEvents()
        finding = document.finding.title if document.finding is not None else ""
        return document.selected_gap, document.area, finding, timeline.state.evidence

    do(timeline.show_interval, 0, 20 * MS, False)
    places = [
        do(press, window, "N"),
        do(press, window, "N"),
        do(press, window, "Esc"),
        do(QTest.mouseClick, timeline.canvas, LEFT, NONE, at(timeline, 15)),
        do(drag, timeline.canvas, at(timeline, 3), at(timeline, 6)),
        do(press, window, "Esc"),
    ]
    assert len(set(places)) == len(places) - 1  # nothing is selected twice
    assert not told.facts.isVisible()
    for keys, there in (("Alt+Left", places[-2::-1]), ("Alt+Right", places[1:])):
        for place in there:
            assert do(press, window, keys) == place


def test_what_was_done_to_the_lanes_is_undone(window: MainWindow) -> None:
    """Every gesture on its own: folded by a click, pinned, hidden and reset from the menu, resized, moved, filtered."""
    timeline = window.timeline
    canvas, arrangement = timeline.canvas, timeline.arrangement
    press(window, "U")

    def name(title: str) -> QPoint:
        return QPoint(60, at(timeline, 1, title).y())

    def lower_edge(title: str) -> QPoint:
        placed = next(each for each in timeline.state.layout.scrolled if each.track.title == title)
        return QPoint(60, canvas.top_of(placed) + placed.height - 1)

    def type_a_filter() -> None:
        press(window, "Ctrl+L")
        QTest.keyClicks(timeline.filter_bar.field, "stream:7")
        timeline.setFocus()

    gestures: tuple[Callable[[], None], ...] = (
        lambda: QTest.mouseClick(canvas, LEFT, NONE, name("Main thread")),
        lambda: choose_from_menu(window, name("CUDA API"), "Pin"),
        lambda: choose_from_menu(window, name("Main thread"), "Hide"),
        lambda: drag(canvas, lower_edge("Regions"), lower_edge("Regions") + QPoint(0, 40)),
        lambda: drag(canvas, name("GPU 0 · stream 7"), name("Regions")),
        lambda: choose_from_menu(window, name("Regions"), "Reset"),
        type_a_filter,
    )
    states = [(arrangement(), timeline.state.filter)]
    for gesture in gestures:
        gesture()
        states.append((arrangement(), timeline.state.filter))
        assert states[-1] != states[-2]
    for keys, there in (("Ctrl+Z", states[-2::-1]), ("Ctrl+Shift+Z", states[1:])):
        for state in there:
            press(window, keys)
            assert (arrangement(), timeline.state.filter) == state
            assert timeline.filter_bar.field.text() == timeline.state.filter
