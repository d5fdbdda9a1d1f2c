"""A real script is tried in the window of a trial: the same runner as the command, outside the window's process."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from rules.trials.trial import Kind
from tests.capture.pretend import script_request
from viewer.appearance import theme
from viewer.dialogs.trials.session import Subject
from viewer.dialogs.trials.window import MIN_SECONDS, TrialsWindow


@pytest.mark.thorough  # every day the command tries this script, and the window one that is pretended
def test_a_real_script_is_tried_in_the_window(
    qtbot: QtBot, qapp: QApplication, tmp_path: Path, torch_python: str
) -> None:
    theme.apply(qapp, "dark")
    settings = {"OMP_NUM_THREADS": "1", "LOG": str(tmp_path / "log")}
    request = script_request("trial_state.py", tmp_path / "out", python=torch_python, **settings)
    window = TrialsWindow(Subject(request, ("fused-optimizer", "tf32"), ()))
    qtbot.addWidget(window)
    window.seconds.setValue(MIN_SECONDS)
    window.show()
    blocks: list[int] = []
    window.session.progressed.connect(lambda far: blocks.append(far.block))
    QTest.mouseClick(window.start_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: window.session.trials is not None, timeout=300_000)
    trials = window.session.trials
    assert trials is not None
    assert trials.control is not None
    assert trials.control.gain is not None
    assert max(blocks) >= 8
    rows = window.rows.rows
    assert rows["control"].trial is trials.control
    assert "tf32" not in rows, "without a GPU it makes no sense"
    assert "TF32" in window.notes.text() or trials.restless
    if not trials.restless:
        (fused,) = (each for each in trials.trials if each.candidate.switch == "fused-optimizer")
        assert fused.candidate.kind is Kind.SWITCH
        assert fused.gain is not None
        assert rows["fused-optimizer"].trial is fused
    window.close()
