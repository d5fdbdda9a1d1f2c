"""Tab goes through the window as one reads it, shows where it is, and changes nothing on its way."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from viewer.panels.charts.budget_bar import PartButton
from viewer.panels.findings.finding_card import FindingCard
from viewer.panels.tables.table_view import TableView
from viewer.window.main_window import MainWindow

from .conftest import show_tab


def tab(qtbot: QtBot, *, back: bool = False) -> QWidget:
    focus = QApplication.focusWidget()
    assert focus is not None
    qtbot.keyClick(focus, Qt.Key.Key_Backtab if back else Qt.Key.Key_Tab)
    reached = QApplication.focusWidget()
    assert reached is not None
    return reached


def round_trip(window: MainWindow, qtbot: QtBot) -> list[QWidget]:
    window.grab()  # everything has its place
    window.timeline.setFocus()
    visited: list[QWidget] = [window.timeline]
    while (reached := tab(qtbot)) not in visited:
        visited.append(reached)
    assert reached is window.timeline
    return visited


def test_tab_goes_from_the_timeline_to_the_findings_the_tables_the_tools_and_the_budget(
    window: MainWindow, qtbot: QtBot
) -> None:
    show_tab(window, qtbot, "Kernels")
    visited = round_trip(window, qtbot)
    cards = [each for each in visited if isinstance(each, FindingCard)]
    assert cards == window.diagnosis.cards
    opened = visited.index(cards[0])
    buttons = [cards[0].show_button, cards[0].fix_button, cards[0].why_button]
    assert visited[opened + 1 : opened + 4] == buttons
    table = next(each for each in visited if isinstance(each, TableView))
    part = next(each for each in visited if isinstance(each, PartButton))
    search = window.toolbar.search
    places = [visited.index(each) for each in (window.timeline, cards[-1], table, search, part)]
    assert places == sorted(places)
    assert visited[-1] is window.verdict.bars[-1].buttons[-1]


def test_shift_tab_goes_the_same_way_back(window: MainWindow, qtbot: QtBot) -> None:
    visited = round_trip(window, qtbot)
    window.timeline.setFocus()
    back = [tab(qtbot, back=True) for _ in visited]
    assert [type(each) for each in back] == [type(each) for each in [*visited[:0:-1], window.timeline]]
    assert back == [*visited[:0:-1], window.timeline]


def test_nothing_moves_or_is_selected_on_the_way(window: MainWindow, qtbot: QtBot) -> None:
    show_tab(window, qtbot, "Kernels")
    before = window.timeline.visible_interval
    round_trip(window, qtbot)
    assert window.document.selected_event == -1
    assert window.timeline.visible_interval == before


def test_return_shows_the_row_that_tab_arrived_at(window: MainWindow, qtbot: QtBot) -> None:
    show_tab(window, qtbot, "Kernels")
    window.panels.filter.setFocus()
    table = tab(qtbot)
    assert isinstance(table, TableView)
    assert len(table.selected_rows()) == 1
    qtbot.keyClick(table, Qt.Key.Key_Return)
    assert window.document.selected_event >= 0


def test_a_ring_shows_that_the_timeline_has_the_focus_until_it_goes_on(
    window: MainWindow, qtbot: QtBot
) -> None:
    ring = window.tab_order.ring
    window.verdict.bars[-1].buttons[-1].setFocus()
    assert tab(qtbot) is window.timeline
    assert ring.isVisible()
    assert ring.size() == window.timeline.size()
    assert tab(qtbot) is not window.timeline
    assert not ring.isVisible()


def test_the_ring_does_not_stay_where_the_timeline_was(window: MainWindow, qtbot: QtBot) -> None:
    window.verdict.bars[-1].buttons[-1].setFocus()
    tab(qtbot)
    window.resize(1000, 700)
    qtbot.waitUntil(lambda: not window.tab_order.ring.isVisible())
