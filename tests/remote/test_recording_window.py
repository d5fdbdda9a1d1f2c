"""Recording elsewhere from the window, with the mouse: a lost connection is said, and what it left is fetched."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QPushButton
from pytestqt.qtbot import QtBot

from tests.remote.far_machine import FarMachine
from tests.remote.test_recording_elsewhere import UNTIL_IT_MAY_END, shell_request
from viewer.appearance import theme
from viewer.capture.form.dialog import CaptureDialog
from viewer.capture.request import CaptureRequest
from viewer.capture.storage import far_runs

MAX_WAIT_MS = 150_000


@contextlib.contextmanager
def opened(qtbot: QtBot, request: CaptureRequest | None) -> Iterator[CaptureDialog]:
    """The dialog, shown and filled in; nothing of it runs when the block ends."""
    dialog = CaptureDialog(None, request)
    qtbot.addWidget(dialog)
    dialog.show()
    try:
        qtbot.waitUntil(lambda: not dialog._jobs.is_running("tools"), timeout=MAX_WAIT_MS)
        yield dialog
    finally:
        dialog.run_view.end_now()
        dialog.close()


def click(qtbot: QtBot, button: QPushButton) -> None:
    qtbot.waitUntil(lambda: button.isVisible() and button.isEnabled(), timeout=MAX_WAIT_MS)
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)


def until_it_says(qtbot: QtBot, dialog: CaptureDialog, text: str) -> None:
    def says() -> None:
        view = dialog.run_view
        assert text in view.phase.text(), f"{view.advice.text()}\n{view.output.toPlainText()}"

    qtbot.waitUntil(says, timeout=MAX_WAIT_MS)


@pytest.fixture
def lost(
    far: FarMachine, tmp_path: Path, qtbot: QtBot, qapp: QApplication
) -> Iterator[Callable[[], CaptureDialog]]:
    """A dialog whose run goes on over there after its connection was lost for good."""
    theme.apply(qapp, "dark")
    script = f"echo begun; {UNTIL_IT_MAY_END}; echo over > ended"
    with opened(qtbot, shell_request("wired", tmp_path / "here", script)) as dialog:

        def lose() -> CaptureDialog:
            click(qtbot, dialog.record)
            qtbot.waitUntil(lambda: "begun" in dialog.run_view.output.toPlainText(), timeout=MAX_WAIT_MS)
            far.wire.cut(down=True)
            until_it_says(qtbot, dialog, "Connection lost, the run continues on ssh:wired")
            click(qtbot, dialog.run_view.finish)
            until_it_says(qtbot, dialog, "The connection to ssh:wired was lost")
            return dialog

        yield lose


def end_the_run(far: FarMachine) -> None:
    far.wire.is_down = False
    (far.home / "may_end").touch()
    until = time.monotonic() + MAX_WAIT_MS / 1000
    while not (far.home / "ended").exists():
        assert time.monotonic() < until
        time.sleep(0.02)
    for name in ("may_end", "ended"):
        (far.home / name).unlink()


def test_a_lost_connection_is_said_and_what_it_left_is_fetched_with_a_click(
    far: FarMachine, tmp_path: Path, lost: Callable[[], CaptureDialog], qtbot: QtBot
) -> None:
    dialog = lost()
    end_the_run(far)
    with qtbot.waitSignal(dialog.captured, timeout=MAX_WAIT_MS) as caught:
        click(qtbot, dialog.run_view.fetch)
    assert caught.args == [[tmp_path / "here" / "sh.sqlite"]]
    assert far_runs() == []


def test_what_was_left_is_offered_when_the_dialog_opens_again(
    far: FarMachine, tmp_path: Path, lost: Callable[[], CaptureDialog], qtbot: QtBot
) -> None:
    lost().close()
    end_the_run(far)
    with opened(qtbot, None) as dialog:
        assert "sh was left on ssh:wired" in dialog.run_view.phase.text()
        with qtbot.waitSignal(dialog.captured, timeout=MAX_WAIT_MS) as caught:
            click(qtbot, dialog.run_view.fetch)
        assert caught.args == [[tmp_path / "here" / "sh.sqlite"]]
    assert far_runs() == []
    with opened(qtbot, None) as dialog:
        assert not dialog.run_view.isVisible(), "nothing is left to be fetched"
