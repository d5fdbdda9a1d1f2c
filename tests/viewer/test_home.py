"""Whatever was clicked or pressed last, the keys of the timeline go on working, and Esc leads back to it."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QPushButton, QWidget
from pytestqt.qtbot import QtBot
from shiboken6 import isValid

from viewer.panels.charts.budget_bar import PartButton
from viewer.panels.findings.finding_card import FindingCard
from viewer.panels.tables.facts import LinkButton
from viewer.panels.tables.table_view import TableView
from viewer.window.main_window import MainWindow

from .conftest import show_tab, wait_until_ready

LEFT = Qt.MouseButton.LeftButton


def press(window: MainWindow, keys: str) -> None:
    combination = QKeySequence(keys)[0]
    QTest.keyClick(window.windowHandle(), combination.key(), combination.keyboardModifiers())


def click(widget: QWidget, at: QPoint | None = None) -> None:
    """Press and release on the window, as the platform delivers it."""
    window = widget.window()
    place = widget.mapTo(window, widget.rect().center() if at is None else at)
    QTest.mouseClick(window.windowHandle(), LEFT, Qt.KeyboardModifier.NoModifier, place)
    QApplication.processEvents()


def click_card(window: MainWindow) -> None:
    click(window.diagnosis.findChild(FindingCard), QPoint(30, 14))


def click_show(window: MainWindow) -> None:
    click_card(window)
    buttons = window.diagnosis.findChild(FindingCard).findChildren(QPushButton)
    click(next(button for button in buttons if button.text() == "Show"))


def click_tab(window: MainWindow) -> None:
    bar = window.panels.tabs.tabBar()
    click(bar, bar.tabRect(1).center())


def click_row(window: MainWindow) -> None:
    table = next(each for each in window.panels.findChildren(TableView) if each.isVisible())
    click(table.viewport(), QPoint(40, 8))


def click_budget(window: MainWindow) -> None:
    click(max(window.verdict.findChildren(PartButton), key=lambda part: part.width()))


def click_empty_place(window: MainWindow) -> None:
    press(window, "Ctrl+F")
    click(window.status)


def click_link(window: MainWindow) -> None:
    window.panels.show_panel("Selection")
    window.document.select_event(int(window.document.trace.gpu_operations[3]))
    QApplication.processEvents()
    link = next(each for each in window.panels.findChildren(LinkButton) if each.isVisible())
    click(link)
    assert not isValid(link), "it leads to an event with other links"


def keys(*wanted: str) -> Callable[[MainWindow], None]:
    def press_them(window: MainWindow) -> None:
        for each in wanted:
            press(window, each)

    return press_them


BEFORE = {
    "a click on a card": click_card,
    "Show": click_show,
    "a click on a tab": click_tab,
    "a click on a row": click_row,
    "a click on the budget": click_budget,
    "a click on an empty place": click_empty_place,
    "a click on a link": click_link,
    "the next gap": keys("N"),
    "the next finding": keys("."),
    "the next step": keys("]"),
    "a look at the palette": keys("Ctrl+P", "Esc"),
    "a search": keys("Ctrl+P", "s", "o", "f", "t", "Esc"),
    "the tabulator": keys("Tab", "Tab", "Tab", "Tab", "Tab", "Tab", "Tab", "Tab"),
}


def test_the_keys_of_the_timeline_never_go_dead(window: MainWindow, qtbot: QtBot) -> None:
    whole = window.timeline.visible_interval
    for happened, before in BEFORE.items():
        window.timeline.show_interval(*whole, animate=False)
        show_tab(window, qtbot, "Kernels")
        before(window)
        wait_until_ready(qtbot, window)
        walked = happened in ("a click on a row", "the tabulator")
        qtbot.waitUntil(lambda walked=walked: window.timeline.hasFocus() is not walked)
        for key in "aw":
            view = window.timeline.state.target
            press(window, key)
            told = f"{key} after {happened} with the focus at {QApplication.focusWidget()}"
            assert window.timeline.state.target != view, told
        assert window.toolbar.search.text() == "", happened
        gaps = window.timeline.state.gaps_visible
        press(window, "g")
        assert window.timeline.state.gaps_visible is not gaps, happened


def test_escape_leads_back_to_the_timeline_and_a_selection_survives_it(
    window: MainWindow, qtbot: QtBot
) -> None:
    window.document.select_event(3)
    show_tab(window, qtbot, "Kernels")
    for place in (window.panels.filter, window.toolbar.search, window.panels.tabs.tabBar()):
        place.setFocus()
        press(window, "Esc")
        assert window.timeline.hasFocus()
        assert window.document.selected_event == 3
    press(window, "Esc")
    assert window.document.selected_event == -1


def test_a_table_keeps_its_arrows_after_a_click(window: MainWindow, qtbot: QtBot) -> None:
    show_tab(window, qtbot, "Kernels")
    click_row(window)
    table = next(each for each in window.panels.findChildren(TableView) if each.isVisible())
    row = table.currentIndex().row()
    press(window, "Down")
    assert table.currentIndex().row() == row + 1


def test_a_click_on_the_row_that_was_clicked_last_leads_back_to_its_event(
    window: MainWindow, qtbot: QtBot
) -> None:
    show_tab(window, qtbot, "Kernels")
    click_row(window)
    event = window.document.selected_event
    start = int(window.document.trace.events.start[event])
    window.timeline.show_interval(start - 2_000, start - 1_000, animate=False)
    click_row(window)
    assert window.document.selected_event == event
    t0, t1 = window.timeline.visible_interval
    assert t0 <= start < t1


def test_choosing_what_was_found_gives_the_timeline_its_keys(window: MainWindow, qtbot: QtBot) -> None:
    press(window, "Ctrl+F")
    for letter in "tokenize":
        press(window, letter)
    qtbot.waitUntil(lambda: bool(window.toolbar.search.popup.hits) and not window.jobs.busy)
    press(window, "Return")
    assert window.timeline.hasFocus()
    assert window.document.selected_event >= 0
