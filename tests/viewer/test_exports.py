"""What is exported is said, can be opened, is named after the recording, and holds the user's notes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from tests.viewer.conftest import wait_until_laid_out, wait_until_ready
from viewer.window.main_window import MainWindow


def test_a_report_is_named_after_the_recording_and_holds_the_bookmarks(
    empty_window: MainWindow, fixtures: Path, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, recording = empty_window, tmp_path / "night shift.pt.trace.json.gz"
    shutil.copy(fixtures / "programs" / "moderate.pt.trace.json.gz", recording)
    window.open([recording])
    wait_until_ready(qtbot, window)
    offered: list[str] = []

    def ask(_: object, __: str, name: str, ___: str) -> tuple[str, str]:
        offered.append(name)
        return str(tmp_path / "report.html"), ""

    opened: list[QUrl] = []
    monkeypatch.setattr(QFileDialog, "getSaveFileName", ask)
    monkeypatch.setattr(QDesktopServices, "openUrl", opened.append)
    window.commands["bookmark"].trigger()
    window.commands["export-report"].trigger()
    qtbot.waitUntil(window.banner.isVisible)
    assert offered == ["night shift-diagnosis.html"]
    assert window.banner.problem.text() == "Saved report.html"
    assert "Bookmarks and notes" in (tmp_path / "report.html").read_text("utf-8")
    for button in (window.banner.open_button, window.banner.folder_button):
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert [Path(each.toLocalFile()) for each in opened] == [tmp_path / "report.html", tmp_path]
    window.banner.say("Something else")
    assert not window.banner.open_button.isVisible()
    wait_until_ready(qtbot, window)


def test_nothing_moves_under_the_mouse_that_ticks_a_fix(window: MainWindow, qtbot: QtBot) -> None:
    qtbot.waitUntil(lambda: bool(window.fixes.cards))
    window.side.setCurrentWidget(window.fixes)
    wait_until_ready(qtbot, window)
    card = window.fixes.cards[0]
    wait_until_laid_out(qtbot, card)
    before = card.mapToGlobal(card.rect().topLeft())
    qtbot.mouseClick(card.box, Qt.MouseButton.LeftButton, pos=card.box.rect().center())
    qtbot.waitUntil(window.prediction.isVisible)
    wait_until_ready(qtbot, window)
    wait_until_laid_out(qtbot, card)
    assert card.mapToGlobal(card.rect().topLeft()) == before
