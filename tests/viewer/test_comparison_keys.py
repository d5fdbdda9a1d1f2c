"""The comparison under the keyboard: what its keys are, and which of them close it."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from viewer.comparison.window import compare_with
from viewer.dialogs.page_dialog import ShortcutSheet
from viewer.window.main_window import MainWindow

from .conftest import training_run, wait_until_ready
from .test_comparison_window import AFTER, BEFORE, close, opened


def test_a_key_closes_it_escape_does_not_and_the_title_names_it(qtbot: QtBot, qapp: object) -> None:
    window = opened(BEFORE)
    qtbot.waitUntil(window.isActiveWindow)
    assert window.windowTitle() == f"{BEFORE.name} - Comparison"
    view = window.twins.views[0]
    view.setFocus()
    view.state.selection.select_event(0)
    for _ in range(3):
        qtbot.keyClick(view, Qt.Key.Key_Escape)
    assert view.state.selected == -1
    assert window.isVisible(), "what took long to compare is not lost to a key pressed once too often"
    qtbot.keyClick(view, Qt.Key.Key_W, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(lambda: not window.isVisible())
    close(window)


def test_its_keys_are_told_and_its_buttons_are_whole(
    make_window: Callable[..., MainWindow], qtbot: QtBot
) -> None:
    main = make_window(shows=training_run())
    wait_until_ready(qtbot, main)
    window = compare_with(main.document, [AFTER], main)
    assert window is not None
    qtbot.waitUntil(lambda: window.result is not None)
    for button in (window.buttons.export, window.buttons.copy, window.buttons.swap):
        assert button.height() >= button.sizeHint().height(), button.text()
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    window.twins.views[0].setFocus()
    qtbot.keyClick(window.twins.views[0], "?")
    qtbot.waitUntil(lambda: window.findChild(ShortcutSheet) is not None)
    sheet = window.findChild(ShortcutSheet)
    told = [label.text() for label in sheet.findChildren(QLabel)]
    assert "Swap before and after" in told
    assert "Link both timelines" in told
    assert "on a fix: tick it; to the next, previous" not in told, "there are no fixes in this window"
    sheet.close()
    close(window)
