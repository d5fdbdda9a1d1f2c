"""A running program is recorded from the menu, with the mouse and the keyboard, and its recording opens."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QMenu, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from tests.capture.pretended_kineto import PretendedKineto, steps_in
from viewer.capture.attachable import Attachable, attachable_programs
from viewer.capture.form.dialog import CaptureDialog
from viewer.capture.storage import Presets
from viewer.window.main_window import MainWindow

from .test_forms import edges

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Kineto asks on Linux only")


def click(qtbot: QtBot, widget: QWidget) -> None:
    assert widget.isVisible()
    qtbot.mouseClick(widget, Qt.MouseButton.LeftButton)


def choose(qtbot: QtBot, menu: QMenu, text: str) -> None:
    action = next(each for each in menu.actions() if text in each.text())
    qtbot.mouseClick(menu, Qt.MouseButton.LeftButton, pos=menu.actionGeometry(action).center())


def open_menu(qtbot: QtBot) -> QMenu:
    found: list[QMenu] = []

    def there() -> bool:
        popup = QApplication.activePopupWidget()
        found[:] = [popup] if isinstance(popup, QMenu) else []
        return bool(found)

    qtbot.waitUntil(there)
    return found[0]


@pytest.fixture
def dialog(make_window: Callable[..., MainWindow], qtbot: QtBot) -> CaptureDialog:
    """What *File > Attach to a running program* opens."""
    window = make_window()
    file = window.menu_bar.actions()[0]
    qtbot.mouseClick(
        window.menu_bar, Qt.MouseButton.LeftButton, pos=window.menu_bar.actionGeometry(file).center()
    )
    choose(qtbot, open_menu(qtbot), "Attach to a running program")
    opened = window.findChild(CaptureDialog)
    assert opened is not None
    qtbot.waitUntil(lambda: opened.isVisible() and not opened._jobs.busy)
    return opened


def type_program(qtbot: QtBot, dialog: CaptureDialog, text: str) -> None:
    field = dialog.target.program
    qtbot.mouseClick(field, Qt.MouseButton.LeftButton)
    qtbot.keyClick(field, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClicks(field, text) if text else qtbot.keyClick(field, Qt.Key.Key_Delete)


def test_a_running_program_is_named_and_recorded_with_real_clicks(
    dialog: CaptureDialog, tmp_path: Path, qtbot: QtBot
) -> None:
    window = dialog.parent()
    assert isinstance(window, MainWindow)
    type_program(qtbot, dialog, "")
    qtbot.waitUntil(lambda: dialog.problem.text() == "Name the process to attach to.")
    assert not dialog.record.isEnabled()
    type_program(qtbot, dialog, "train")
    qtbot.waitUntil(lambda: "train is not a process" in dialog.problem.text())
    type_program(qtbot, dialog, str(os.getpid()))
    dialog.target.interpreter.setEditText(sys.executable)
    click(qtbot, dialog.target._more)
    environment = dialog.target.environment
    click(qtbot, environment.viewport())
    qtbot.keyClicks(environment, f"KINETO_IPC_SOCKET_DIR={tmp_path}")
    dialog.attaching.steps.setFocus()
    dialog.attaching.steps.selectAll()
    qtbot.keyClicks(dialog.attaching.steps, "4")
    qtbot.waitUntil(dialog.record.isEnabled)
    assert "--active 4" in dialog.command.toPlainText()
    kineto = PretendedKineto(tmp_path, [4])
    with qtbot.waitSignal(dialog.captured, timeout=60_000) as caught:
        click(qtbot, dialog.record)
    (paths,) = caught.args
    assert [steps_in(path) for path in paths] == [4]
    assert len(kineto.orders) == 1
    qtbot.waitUntil(lambda: window.document.paths == tuple(paths))


def test_only_what_can_be_asked_of_a_running_program_is_shown(dialog: CaptureDialog, qtbot: QtBot) -> None:
    assert (dialog.record.text(), dialog.try_button.isVisible()) == ("Attach", False)
    click(qtbot, dialog.target._more)
    shown = [dialog.target.program, dialog.target.environment, dialog.target.where, dialog.attaching.wait]
    hidden = [dialog.target.arguments, dialog.target.launcher, dialog.target.folder, dialog.options]
    assert [each.isVisible() for each in shown] == [True] * len(shown)
    assert [each.isVisible() for each in hidden] == [False] * len(hidden)
    assert len(set(edges(dialog, dialog.target._form.ItemRole.LabelRole))) == 1
    assert len(set(edges(dialog, dialog.target._form.ItemRole.FieldRole))) == 1
    dialog.target.kind.setCurrentText("Script")
    qtbot.waitUntil(lambda: dialog.record.text() == "Record")
    assert [each.isVisible() for each in hidden] == [True] * len(hidden)
    assert not dialog.attaching.isVisible()


def test_programs_that_can_be_attached_to_are_offered(
    dialog: CaptureDialog, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    offered = [Attachable(4321, "python train.py --name a&b")]
    monkeypatch.setattr("viewer.capture.form.target.attachable_programs", lambda: offered)
    browse = next(each for each in dialog.target.findChildren(QPushButton) if each.text() == "Browse ...")
    click(qtbot, browse)
    choose(qtbot, open_menu(qtbot), "4321  python train.py --name a&&b")
    assert dialog.request().target.program == "4321"


def test_this_process_is_offered_only_when_it_was_started_for_that(tmp_path: Path) -> None:
    from tests.capture.test_attaching import prepared

    with prepared("sh", "-c", "sleep 300; true") as program:
        offered = [each for each in attachable_programs() if each.pid == program.pid]
        assert [each.command for each in offered] == ["sh -c sleep 300; true"]
    assert os.getpid() not in [each.pid for each in attachable_programs()]


def test_the_program_that_ran_does_not_replace_the_script_recorded_last(
    dialog: CaptureDialog, tmp_path: Path, qtbot: QtBot
) -> None:
    before = Presets().last_used()
    dialog.target.interpreter.setEditText(sys.executable)
    type_program(qtbot, dialog, "999999999")
    qtbot.waitUntil(dialog.record.isEnabled)
    click(qtbot, dialog.record)
    qtbot.waitUntil(lambda: "There is no process 999999999" in dialog.run_view.phase.text(), timeout=60_000)
    assert Presets().last_used() == before
