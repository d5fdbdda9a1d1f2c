"""From a finding in the window to the line: the button that opens it, the text around it, and a file that is gone."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from viewer.dialogs.preferences_dialog import PreferencesDialog
from viewer.window.main_window import MainWindow

from .conftest import wait_until_ready

FEED = Path(__file__).parents[1] / "fixtures" / "stacks" / "feed.chrome.json"


@pytest.fixture
def shown(empty_window: MainWindow, qtbot: QtBot) -> MainWindow:
    """The window with a recording whose first finding is about a line of feed.py."""
    empty_window.open([FEED])
    wait_until_ready(qtbot, empty_window)
    return empty_window


def test_a_finding_opens_its_line_in_the_editor(shown: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = f"import sys; open({str(log)!r}, 'w').write(' '.join(sys.argv[1:]))"
    shown.preferences.editor = shlex.join([sys.executable, "-c", program, "{file}", "{line}"])
    shown.preferences.folders = f"/tmp/cpu={FEED.parent}"
    card = shown.diagnosis.cards[0]
    card.set_current(True)
    assert card.line_button.text() == "Open feed.py:23 in the editor"
    qtbot.mouseClick(card.line_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: log.exists() and bool(log.read_text()))
    assert log.read_text() == f"{FEED.parent / 'feed.py'} 23"


def test_a_key_opens_the_line_of_the_chosen_finding(shown: MainWindow) -> None:
    opened: list[object] = []
    shown.document.line_wanted.disconnect(shown.source_lines.open)
    shown.document.line_wanted.connect(opened.append)
    QTest.keyClick(shown, Qt.Key.Key_F4)
    findings = shown.document.diagnosis.findings
    assert opened == [findings[0].at]
    shown.document.select_finding(replace(findings[0], at=None))
    QTest.keyClick(shown, Qt.Key.Key_F4)
    assert len(opened) == 1
    assert shown.banner.isVisible()
    assert "names no line" in shown.banner.problem.text()


def test_the_lines_around_are_shown_where_the_file_is_here(shown: MainWindow) -> None:
    card = shown.diagnosis.cards[0]
    card.set_current(True)
    card.fix_button.setChecked(True)
    texts = [each.text() for each in card.findChildren(QLabel)]
    assert "/tmp/cpu/feed.py:23, in compress" in texts
    assert not any("> 23" in text or "analysed time" in text for text in texts)
    card.fix_button.setChecked(False)
    shown.preferences.folders = f"/tmp/cpu={FEED.parent}"
    card.fix_button.setChecked(True)
    line = (FEED.parent / "feed.py").read_text().splitlines()[22]
    texts = [each.text() for each in card.findChildren(QLabel)]
    assert any(f"> 23  98 %  {line}" in text for text in texts)
    assert any("for how much of the analysed time a thread was at that line" in text for text in texts)


def test_a_file_that_is_not_here_is_said_with_what_to_do(shown: MainWindow, qtbot: QtBot) -> None:
    shown.preferences.folders = ""
    shown.preferences.editor = shlex.join([sys.executable, "{file}"])
    card = shown.diagnosis.cards[0]
    card.set_current(True)
    qtbot.mouseClick(card.line_button, Qt.MouseButton.LeftButton)
    said = " ".join(each.text() for each in shown.banner.findChildren(QLabel))
    assert "feed.py does not exist here" in said
    assert "Preferences" in said


def test_editor_and_folders_are_preferences(shown: MainWindow, qtbot: QtBot) -> None:
    dialog = PreferencesDialog(shown.preferences, shown)
    qtbot.addWidget(dialog)
    dialog.editor.setCurrentText("my-editor {file}:{line}")
    dialog.folders.setPlainText("/them=/me\n")
    dialog.accept()
    assert shown.preferences.editor == "my-editor {file}:{line}"
    assert shown.preferences.folders == "/them=/me"
