"""A memory snapshot in the window: its verdict, its card, and the moment that the card shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from viewer.window.main_window import MainWindow

from .conftest import wait_until_ready


@pytest.mark.parametrize(
    ("name", "says"),
    [("growing", "Memory grows with every step"), ("oom", "Out of memory"), ("sound", "At its peak")],
)
def test_a_snapshot_opens_with_its_verdict_and_its_memory(
    make_window: Callable[..., MainWindow], qtbot: QtBot, fixtures: Path, name: str, says: str
) -> None:
    window = make_window((1200, 760))
    window.open([fixtures / "memory" / f"{name}.snapshot.pickle.gz"])
    wait_until_ready(qtbot, window)
    assert window.verdict.sentence.text().startswith(says)
    assert window.document.trace is not None
    assert len(window.document.trace.memory) == 1


def test_show_on_the_card_flies_to_the_failed_allocation(
    make_window: Callable[..., MainWindow], qtbot: QtBot, fixtures: Path
) -> None:
    window = make_window((1200, 760))
    window.open([fixtures / "memory" / "oom.snapshot.pickle.gz"])
    wait_until_ready(qtbot, window)
    shows = [each for each in window.findChildren(QPushButton) if each.isVisible() and each.text() == "Show"]
    QTest.mouseClick(shows[0], Qt.MouseButton.LeftButton)
    assert window.document.trace is not None
    failed = window.document.trace.memory[0].failures[0].time
    qtbot.waitUntil(
        lambda: window.timeline.visible_interval[0] <= failed <= window.timeline.visible_interval[1]
    )
