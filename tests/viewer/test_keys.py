"""Every key of the window, pressed as the platform delivers it, and what the less common gestures do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt, QTimer
from PySide6.QtGui import QContextMenuEvent, QGuiApplication, QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog, QLabel, QLineEdit, QMenu, QPushButton
from pytestqt.qtbot import QtBot

from parsers.model import EventKind, Trace
from viewer.appearance import theme
from viewer.comparison.twins import TwinTimelines
from viewer.dialogs.page_dialog import ShortcutSheet
from viewer.dialogs.preferences_dialog import PreferencesDialog
from viewer.window.commands import Command
from viewer.window.main_window import MainWindow
from viewer.window.palette import Mode

from .conftest import MS, show_tab, wait_until_ready
from .timeline.mouse import LEFT, NONE, SHIFT, at, drag, kernel, span, wheel

CONTROL = Qt.KeyboardModifier.ControlModifier


def press(window: MainWindow, keys: str) -> None:
    """Press a combination such as "Ctrl+B"; the window finds the command or the focused widget for it."""
    combination = QKeySequence(keys)[0]
    QTest.keyClick(window.windowHandle(), combination.key(), combination.keyboardModifiers())


def answer(qtbot: QtBot, text: str, ask: Callable[[], None]) -> None:
    """Type ``text`` and Return into the dialog that ``ask`` opens."""

    def type_it() -> None:
        dialog = QApplication.activeModalWidget()
        assert dialog is not None
        QTest.keyClicks(dialog.findChild(QLineEdit), text)
        QTest.keyClick(dialog, Qt.Key.Key_Return)

    QTimer.singleShot(50, type_it)
    ask()


# Commands


def test_every_key_reaches_its_command_while_the_timeline_has_the_focus(
    window: MainWindow, qtbot: QtBot
) -> None:
    reached: list[str] = []

    def listen(command: Command) -> None:
        action = window.commands[command.id]
        action.triggered.disconnect()
        action.triggered.connect(lambda: reached.append(command.id))

    expected = []
    for command in window.commands.all:
        if command.keys and command.checked is None:
            listen(command)
    for command in window.commands.all:
        for keys in command.keys if command.checked is None else ():
            window.timeline.setFocus()
            press(window, keys)
            expected.append(command.id)
    assert reached == expected
    assert len(expected) > 30


def test_a_switch_is_turned_by_its_key_and_turned_back(window: MainWindow) -> None:
    switches: dict[str, Callable[[], bool]] = {
        "G": lambda: window.timeline.state.gaps_visible,
        "C": lambda: window.timeline.state.arrangement.compact,
        "L": lambda: window.timeline.canvas.legend_visible,
        "U": lambda: window.timeline.state.arrangement.calls_apart,
        "Z": lambda: window.timeline.overview.shown == (0, window.timeline.state.end),
        "F6": window.diagnosis_dock.isVisible,
        "F7": window.panels_dock.isVisible,
    }
    window.timeline.show_interval(10 * MS, 14 * MS, animate=False)
    for key, is_on in switches.items():
        before = is_on()
        press(window, key)
        assert is_on() is not before, key
        press(window, key)
        assert is_on() is before, key


def test_what_a_key_does_has_a_line_in_a_menu_too(window: MainWindow) -> None:
    lines = [action for menu in window.commands.menus.values() for action in menu.actions()]
    for command in ("legend", "measure", "gaps", "compact", "back"):
        assert window.commands[command] in lines, command


def test_a_key_puts_the_cursor_into_the_search_field(window: MainWindow) -> None:
    for key, mode in (("Ctrl+P", Mode.ALL), ("Ctrl+F", Mode.EVENTS), ("/", Mode.EVENTS)):
        window.timeline.setFocus()
        assert not window.toolbar.search.hasFocus()
        press(window, key)
        assert window.toolbar.search.hasFocus(), key
        assert window.toolbar.search.mode is mode, key


def test_the_filter_of_lanes_says_how_many_are_left_and_how_to_get_all_back(window: MainWindow) -> None:
    bar = window.timeline.filter_bar
    whole = len(window.timeline.state.layout.scrolled)
    assert not bar.isVisible()
    press(window, "Ctrl+L")
    assert bar.field.hasFocus()
    for letter in "kind:cuda":
        press(window, letter)
    assert bar.told.text() == f"filtered: 1 of {whole} lanes"
    press(window, "Esc")
    assert window.timeline.hasFocus()
    assert bar.isVisible()
    press(window, "Ctrl+L")
    for letter in "zzz":
        press(window, letter)
    assert bar.told.text() == "No matching lanes"
    assert window.timeline.state.layout.scrolled == ()
    QTest.mouseClick(bar.close_button, LEFT)
    assert not bar.isVisible()
    assert len(window.timeline.state.layout.scrolled) == whole


def test_letters_typed_into_a_field_are_text_and_no_commands(window: MainWindow, qtbot: QtBot) -> None:
    before = window.timeline.visible_interval
    show_tab(window, qtbot, "Kernels")
    window.panels.filter.setFocus()
    for letter in "gclf0.":
        press(window, letter)
    assert window.panels.filter.text() == "gclf0."
    assert window.timeline.visible_interval == before
    assert window.timeline.state.gaps_visible


def test_the_question_mark_opens_the_sheet_of_keys(window: MainWindow, qtbot: QtBot) -> None:
    press(window, "?")
    sheet = QApplication.activeModalWidget()
    assert sheet is not None
    assert sheet.windowTitle() == "Keyboard and mouse"
    QTest.keyClick(sheet, Qt.Key.Key_Escape)


def test_going_to_a_time_shows_it(window: MainWindow, qtbot: QtBot) -> None:
    answer(qtbot, "31.2ms", lambda: press(window, "Ctrl+G"))
    t0, t1 = window.timeline.visible_interval
    assert (t0 + t1) / 2 == pytest.approx(31.2 * MS, abs=1000)
    assert t1 - t0 <= 6 * MS


def test_a_time_that_is_none_is_said(window: MainWindow, qtbot: QtBot) -> None:
    before = window.timeline.visible_interval
    answer(qtbot, "soon", lambda: press(window, "Ctrl+G"))
    assert "'soon' is not a time" in window.banner.problem.text()
    assert window.timeline.visible_interval == before


def test_the_steps_are_walked_with_brackets(window: MainWindow, qtbot: QtBot) -> None:
    press(window, "]")
    first = window.document.step
    assert first >= 0
    press(window, "]")
    assert window.document.step == first + 1
    press(window, "[")
    assert window.document.step == first


# The view


def test_the_wheel_zooms_on_the_rulers_too(window: MainWindow) -> None:
    timeline = window.timeline
    for strip in (timeline.ruler, timeline.overview):
        timeline.show_interval(10 * MS, 30 * MS, animate=False)
        wheel(strip, QPoint(strip.width() // 2, 10), 1)
        assert span(timeline) == pytest.approx(16 * MS, rel=0.01)


def test_the_wheel_follows_the_habit_chosen_in_the_preferences_everywhere(
    window: MainWindow, qtbot: QtBot
) -> None:
    press(window, "Ctrl+,")
    dialog = QApplication.activeModalWidget()
    assert isinstance(dialog, PreferencesDialog)
    dialog.wheel.setFocus()
    QTest.keyClick(dialog.wheel, Qt.Key.Key_End)
    QTest.keyClick(dialog, Qt.Key.Key_Return)
    twins, sheet = TwinTimelines(), ShortcutSheet(())
    for widget in (twins, sheet):
        qtbot.addWidget(widget)
    for timeline in (window.timeline, *twins.views):
        timeline.state.set_end(60 * MS)
        timeline.show_interval(10 * MS, 14 * MS, animate=False)
        for held, zooms in ((NONE, False), (CONTROL, False), (Qt.KeyboardModifier.AltModifier, True)):
            before = span(timeline)
            wheel(timeline.canvas, QPoint(500, 60), -1, held)
            assert (span(timeline) > before) == zooms, held
    assert any("scrolls; Alt zooms" in label.text() for label in sheet.findChildren(QLabel))


def test_a_double_click_on_the_overview_shows_everything(window: MainWindow, trace: Trace) -> None:
    timeline = window.timeline
    timeline.show_interval(10 * MS, 14 * MS, animate=False)
    QTest.mouseDClick(timeline.overview, LEFT, NONE, QPoint(timeline.overview.width() - 20, 20))
    assert timeline.visible_interval[0] <= 0
    assert timeline.visible_interval[1] >= trace.duration


# Lanes


def choose_from_menu(window: MainWindow, place: QPoint, wanted: str) -> None:
    """Right click on the lanes, then walk down the menu with the keyboard to what begins with ``wanted``."""
    canvas = window.timeline.canvas

    def choose() -> None:
        menu = QApplication.activePopupWidget()
        if menu is None:
            QTimer.singleShot(50, choose)
            return
        assert isinstance(menu, QMenu)
        for _ in menu.actions():
            QTest.keyClick(menu, Qt.Key.Key_Down)
            active = menu.activeAction()
            if active is not None and active.text().startswith(wanted):
                QTest.keyClick(menu, Qt.Key.Key_Return)
                return
        menu.close()

    QTimer.singleShot(50, choose)
    event = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, place, canvas.mapToGlobal(place), NONE)
    QApplication.sendEvent(canvas, event)
    window.activateWindow()  # keys find their command in the active window, which the menu was until now
    assert QTest.qWaitForWindowActive(window, 60_000)


def test_a_right_click_on_a_lane_pins_and_hides_it(window: MainWindow) -> None:
    timeline = window.timeline
    QTest.keyClick(window, Qt.Key.Key_U)
    name = QPoint(60, at(timeline, 1, "CUDA API").y())
    choose_from_menu(window, name, "Pin")
    assert [each.track.title for each in timeline.state.layout.pinned] == ["CUDA API"]
    choose_from_menu(window, QPoint(60, at(timeline, 1, "Regions").y()), "Hide")
    assert "Regions" not in [each.track.title for each in timeline.state.layout.scrolled]


# Selection


def test_a_click_on_a_bar_of_the_histogram_walks_its_events(
    window: MainWindow, qtbot: QtBot, trace: Trace
) -> None:
    window.document.select_event(kernel(trace, 0))
    show_tab(window, qtbot, "Selection")
    histogram = window.panels.tabs.currentWidget().histogram
    (bar,) = np.flatnonzero(histogram.counts).tolist()
    alike = histogram.things.tolist()
    walked = []
    for _ in range(3):
        QTest.mouseClick(histogram, LEFT, NONE, histogram.bar(bar).center().toPoint())
        walked.append(window.document.selected_event)
    first = alike.index(kernel(trace, 0))
    assert walked == alike[first + 1 : first + 4]


def test_the_links_of_a_launch_lead_to_its_kernel(window: MainWindow, trace: Trace) -> None:
    launch = int(trace.links.launch_of(np.array([kernel(trace, 1)]))[0])
    window.document.select_event(launch)
    facts = window.panels.tabs.currentWidget().facts
    links = [each for each in facts.findChildren(QPushButton) if each.isVisible()]
    for link in links:
        QTest.mouseClick(link, LEFT)
        if window.document.selected_event == kernel(trace, 1):
            break
    assert window.document.selected_event == kernel(trace, 1)
    assert trace.events.kind[window.document.selected_event] == EventKind.KERNEL


def test_a_dragged_area_narrows_kernels_and_operators_until_it_is_gone(
    window: MainWindow, qtbot: QtBot, trace: Trace
) -> None:
    timeline = window.timeline
    timeline.show_interval(0, 20 * MS, animate=False)
    show_tab(window, qtbot, "Kernels")
    table = window.panels.tabs.currentWidget().by_name
    everything = int(table.rows.frame["calls"].sum())
    drag(timeline.canvas, at(timeline, 0.1), at(timeline, 3))
    show_tab(window, qtbot, "Kernels")
    assert int(table.rows.frame["calls"].sum()) == 3
    told = window.panels.tabs.currentWidget().scope
    assert told.isVisible()
    assert "in the selected 2.9" in told.text()
    show_tab(window, qtbot, "Operators")
    operators = window.panels.tabs.currentWidget().table
    assert int(operators.rows.frame["calls"].sum()) == 7
    timeline.setFocus()
    press(window, "Esc")
    show_tab(window, qtbot, "Kernels")
    assert int(table.rows.frame["calls"].sum()) == everything
    assert not told.isVisible()


def test_the_totals_of_an_area_are_copied_as_text_and_as_csv(window: MainWindow, qtbot: QtBot) -> None:
    timeline = window.timeline
    timeline.show_interval(0, 20 * MS, animate=False)
    drag(timeline.canvas, at(timeline, 0.1), at(timeline, 3))
    wait_until_ready(qtbot, window)
    table = window.panels.tabs.currentWidget().area.table
    table.setFocus()
    QTest.keyClick(table, Qt.Key.Key_A, CONTROL)
    QTest.keyClick(table, Qt.Key.Key_C, CONTROL)
    assert "softmax_warp\t" in QGuiApplication.clipboard().text()
    QTest.keyClick(table, Qt.Key.Key_C, CONTROL | SHIFT)
    assert "softmax_warp," in QGuiApplication.clipboard().text()


# Pictures and themes


def test_the_window_is_copied_as_a_picture(window: MainWindow) -> None:
    window.commands["copy-picture"].trigger()
    picture = QGuiApplication.clipboard().pixmap()
    assert picture.width() >= window.width()


def test_ctrl_e_writes_a_picture(window: MainWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, begins in (("view.png", b"\x89PNG"), ("view.svg", b"<?xml")):
        chosen = str(tmp_path / name)
        monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_, chosen=chosen: (chosen, ""))
        press(window, "Ctrl+E")
        assert Path(chosen).read_bytes().startswith(begins)


def test_high_contrast_is_chosen_in_the_menu(window: MainWindow) -> None:
    menu = next(each.menu() for each in window.commands.menus["View"].actions() if each.text() == "Theme")
    plain = theme.contrast(theme.current().text_secondary, theme.current().window)
    next(each for each in menu.actions() if "contrast" in each.text().lower()).trigger()
    assert theme.contrast(theme.current().text_secondary, theme.current().window) > plain
    assert window.preferences.theme == next(each.data() for each in menu.actions() if each.isChecked())
