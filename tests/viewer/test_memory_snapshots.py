"""A memory snapshot in the window: its verdict, its card, and the moment that the card shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QRectF, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from rules.memory.kinds import Kind
from rules.memory.summary import memory_of
from viewer.appearance import theme
from viewer.timeline.memory.colors import color_of
from viewer.timeline.memory.painting import beside_line
from viewer.window.main_window import MainWindow

from .conftest import wait_until_ready


@pytest.mark.parametrize(
    ("name", "says"),
    [("growing", "Memory grows with every step"), ("oom", "Out of memory"), ("sound", "Memory peaks at")],
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
    (bar,) = window.verdict.bars
    assert sum(button.share for button in bar.buttons) == pytest.approx(1)
    QTest.mouseClick(bar.buttons[0], Qt.MouseButton.LeftButton)
    assert window.document.selection.moment is not None
    (summary,) = memory_of(window.document.analysis)
    assert window.document.selection.moment.when == summary.peak_at


def test_the_overview_of_memory_alone_shows_what_fills_the_gpu(
    make_window: Callable[..., MainWindow], qtbot: QtBot, fixtures: Path
) -> None:
    window = make_window((1200, 760))
    window.open([fixtures / "memory" / "growing.snapshot.pickle.gz"])
    wait_until_ready(qtbot, window)
    overview = window.timeline.overview.grab().toImage()
    colors = {overview.pixelColor(x, y).name() for x in range(200, 1100, 7) for y in range(overview.height())}
    assert {color_of(kind, theme.current()).name() for kind in (Kind.PARAMETERS, Kind.OPTIMIZER)} <= colors


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


def test_labels_of_failed_allocations_cover_neither_the_peak_nor_each_other() -> None:
    area = QRectF(0, 0, 700, 200)
    peak = QRectF(560, 6, 130, 18)
    first = beside_line(640, 150, 14, area, [peak])
    assert first.right() < 640
    assert not first.intersects(peak)
    second = beside_line(645, 150, 14, area, [peak, first])
    assert not any(second.intersects(each) for each in (peak, first))
    assert beside_line(300, 150, 14, area, [peak]).top() == 1  # nothing is in its way
    assert beside_line(40, 150, 14, area, [peak]).left() > 40
