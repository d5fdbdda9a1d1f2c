"""Files that were opened together and do not belong together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from viewer.reports.text_report import as_text
from viewer.window.main_window import MainWindow

from .conftest import wait_until_ready


def test_two_runs_opened_together_are_said_to_be_two_and_a_click_compares_them(
    make_window: Callable[..., MainWindow], fixtures: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = make_window()
    one, other = (fixtures / "pairs" / f"{name}.pt.trace.json.gz" for name in ("pageable", "d2h_all"))
    compared: list[list[Path]] = []
    monkeypatch.setattr(window.acts, "compare_with", compared.append)
    window.open([one, other])
    wait_until_ready(qtbot, window)
    assert window.banner.isVisible()
    assert window.banner.problem.text().startswith(f"{other.name} is not shown: recorded at another time")
    assert window.banner.action_button.text() == "Compare the two"
    assert window.status.file.text() == one.name
    assert other.name not in window.status.file.toolTip()
    qtbot.mouseClick(window.banner.action_button, Qt.MouseButton.LeftButton)
    assert compared == [[other]]
    assert not window.banner.isVisible()
    document = window.document
    assert document.trace is not None
    assert document.diagnosis is not None
    assert document.analysis is not None
    assert other.name in as_text(document.trace, document.diagnosis, document.analysis)
    window.banner.say("Something else")
    assert not window.banner.action_button.isVisible()
