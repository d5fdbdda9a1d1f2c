"""A session of many small acts in no sensible order: nothing fails, the keys reach something, the selection is one."""

from __future__ import annotations

import random
from collections.abc import Callable

from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from parsers.model import Trace
from viewer.panels.tables.facts import LinkButton
from viewer.panels.tables.table_view import TableView
from viewer.window.main_window import MainWindow

from .conftest import training_run, wait_until_ready

ACTS = 60
KEYS = "wasdfgnmlzupechj0.,[]"
OTHER_KEYS = (
    Qt.Key.Key_Escape,
    Qt.Key.Key_Tab,
    Qt.Key.Key_Return,
    Qt.Key.Key_Left,
    Qt.Key.Key_Down,
    Qt.Key.Key_Home,
)
COMMANDS = (
    "undo",
    "redo",
    "back",
    "forward",
    "compact",
    "gaps",
    "calls-inside",
    "legend",
    "path",
    "next-finding",
)
LEFT = Qt.MouseButton.LeftButton


def test_a_session_of_many_acts_leaves_the_window_sound(
    window: MainWindow, qtbot: QtBot, trace: Trace
) -> None:
    draw = random.Random(21)

    def somewhere(widget: QWidget) -> QPoint:
        return QPoint(draw.randrange(1, widget.width()), draw.randrange(1, widget.height()))

    def press() -> None:
        focus = QApplication.focusWidget()
        assert focus is not None
        if draw.random() < 0.7:
            QTest.keyClicks(focus, draw.choice(KEYS))
        else:
            QTest.keyClick(focus, draw.choice(OTHER_KEYS))

    def click_timeline() -> None:
        canvas = draw.choice([each for each in window.timeline.findChildren(QWidget) if each.isVisible()])
        QTest.mouseClick(canvas, LEFT, pos=somewhere(canvas))

    def drag() -> None:
        canvas = window.timeline
        begin, end = somewhere(canvas), somewhere(canvas)
        QTest.mousePress(canvas, LEFT, pos=begin)
        QTest.mouseMove(canvas, end)
        QTest.mouseRelease(canvas, LEFT, pos=end)

    def go_to_a_tab() -> None:
        bar = window.panels.tabs.tabBar()
        QTest.mouseClick(bar, LEFT, pos=bar.tabRect(draw.randrange(bar.count())).center())

    def click_a_row() -> None:
        tables = [each for each in window.findChildren(TableView) if each.isVisible()]
        if tables:
            view = draw.choice(tables).viewport()
            QTest.mouseClick(view, LEFT, pos=somewhere(view))

    def follow_a_link() -> None:
        links = [each for each in window.findChildren(LinkButton) if each.isVisible()]
        if links:
            QTest.mouseClick(draw.choice(links), LEFT)

    def command() -> None:
        action = window.commands[draw.choice(COMMANDS)]
        if action.isEnabled():
            action.trigger()

    def search() -> None:
        window.toolbar.search.setFocus()
        QTest.keyClicks(window.toolbar.search, draw.choice(("gemm", "rank 2", "[a(", "")))
        QTest.keyClick(window.toolbar.search, draw.choice((Qt.Key.Key_Return, Qt.Key.Key_Escape)))

    def open_another() -> None:
        window.document.show(draw.choice((trace, training_run(warm_up=3_000_000))))

    acts: list[Callable[[], None]] = [press] * 8 + [click_timeline] * 4 + [drag] * 2
    acts += (
        [go_to_a_tab] * 3 + [click_a_row] * 2 + [follow_a_link] * 2 + [command] * 2 + [search, open_another]
    )
    for number in range(ACTS):
        act = draw.choice(acts)
        act()
        QApplication.processEvents()
        if (popup := QApplication.activePopupWidget()) is not None:
            popup.close()
        told = f"after act {number}, {act.__name__}"
        assert QApplication.focusWidget() is not None, told
        shown = window.document.trace
        assert shown is not None, told
        assert -1 <= window.document.selected_event < len(shown.events), told
        assert window.timeline.state.selected == window.document.selected_event, told
    wait_until_ready(qtbot, window)
    QTest.keyClick(window, Qt.Key.Key_Escape)
    window.home.go()
    before = window.timeline.state.target
    QTest.keyClicks(window.timeline, "0w")
    assert window.timeline.state.target != before
