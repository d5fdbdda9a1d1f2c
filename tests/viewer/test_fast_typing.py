"""The search field of somebody who types without looking: what is chosen is what was typed."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from parsers.model import Trace
from viewer.dialogs.open_address import OpenAddress
from viewer.window.main_window import MainWindow

from .conftest import STEPS

RETURN = Qt.Key.Key_Return


def type_after(window: MainWindow, qtbot: QtBot, key: str, text: str) -> None:
    """Everything at once: no event of the list below the field is waited for."""
    window.timeline.setFocus()
    if key == "/":
        qtbot.keyClick(window, key)
    else:
        qtbot.keyClick(window, key, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClicks(window.toolbar.search, text)
    qtbot.keyClick(window.toolbar.search, RETURN)


def test_return_right_after_typing_runs_what_was_typed(window: MainWindow, qtbot: QtBot) -> None:
    before = window.document.finding
    type_after(window, qtbot, "p", "compact lanes")
    qtbot.waitUntil(lambda: window.timeline.state.arrangement.compact)
    assert window.document.finding is before, "the first hit without a text is a finding"
    assert window.timeline.hasFocus()


def test_return_right_after_typing_finds_the_event_and_the_text_stays_for_the_next_one(
    window: MainWindow, qtbot: QtBot, trace: Trace
) -> None:
    type_after(window, qtbot, "/", "tokenize")
    qtbot.waitUntil(lambda: window.document.selected_event >= 0)
    assert trace.name(window.document.selected_event) == "tokenize"
    assert window.toolbar.search.text() == "tokenize"
    first = window.document.selected_event
    window.toolbar.search.setFocus()
    qtbot.keyClick(window.toolbar.search, RETURN)
    assert window.document.selected_event != first
    assert f"of {STEPS}" in window.toolbar.search.position.text()


def test_return_for_what_nothing_matches_does_nothing_and_the_next_text_counts(
    window: MainWindow, qtbot: QtBot
) -> None:
    before = window.document.finding
    type_after(window, qtbot, "p", "qqqqqq")
    qtbot.waitUntil(lambda: window.toolbar.search.popup.note.text() == "Nothing matches")
    assert window.document.finding is before
    assert window.toolbar.search.hasFocus()
    type_after(window, qtbot, "p", "compact lanes")
    qtbot.waitUntil(lambda: window.timeline.state.arrangement.compact)


def test_an_action_leaves_no_text_in_the_field(window: MainWindow, qtbot: QtBot) -> None:
    type_after(window, qtbot, "p", "idle gaps")
    qtbot.waitUntil(lambda: not window.timeline.state.gaps_visible)
    assert window.toolbar.search.text() == ""


def test_another_machine_is_asked_for_from_the_field(
    window: MainWindow, qtbot: QtBot, tmp_path: Path
) -> None:
    type_after(window, qtbot, "p", "another machine")
    qtbot.waitUntil(lambda: isinstance(QApplication.activeModalWidget(), OpenAddress))
    dialog = QApplication.activeModalWidget()
    assert isinstance(dialog, OpenAddress)
    dialog.open_wanted.emit([tmp_path / "not there"])
    dialog.close()
    qtbot.waitUntil(window.banner.isVisible)
    assert window.banner.problem.text() == "not there: There is no such file."
