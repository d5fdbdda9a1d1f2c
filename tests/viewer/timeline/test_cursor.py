"""The cursor is where the mouse is, whatever moves the view."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from tests.viewer.timeline.mouse import MS, at, span
from viewer.timeline.names_column import NAMES_WIDTH
from viewer.timeline.view import TimelineView


@pytest.mark.parametrize(("key", "grows"), [("w", False), ("s", True), ("+", False), ("-", True)])
def test_w_and_s_zoom_at_the_cursor(view: TimelineView, key: str, grows: bool) -> None:
    view.show_interval(10 * MS, 20 * MS)
    QTest.mouseMove(view.canvas, at(view, 13))
    before = view.state.scale.x(13 * MS)
    QTest.keyClicks(view, key)
    assert (span(view) > 10 * MS) is grows
    assert view.state.scale.x(13 * MS) == pytest.approx(before, abs=0.5)


@pytest.mark.parametrize("ruler", [False, True])
def test_the_cursor_stays_under_the_mouse_while_keys_move_the_view(view: TimelineView, ruler: bool) -> None:
    view.show_interval(10 * MS, 20 * MS)
    place = at(view, 13)
    widget = view.ruler if ruler else view.canvas
    QTest.mouseMove(widget, QPoint(place.x(), 6) if ruler else place)
    for key in (*"dwa", Qt.Key.Key_End):
        QTest.keyClick(view, key)
        view.state.finish_flight()
        assert view.state.cursor is not None
        assert view.state.scale.x(view.state.cursor) == pytest.approx(place.x() - NAMES_WIDTH, abs=0.5)
    QApplication.sendEvent(widget, QEvent(QEvent.Type.Leave))
    QTest.keyClick(view, Qt.Key.Key_Home)
    assert view.state.cursor is None
