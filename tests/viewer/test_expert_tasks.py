"""What an expert asks every day, with the clicks and keys that it takes: docs/hands.md tells them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QWidget
from pytestqt.qtbot import QtBot

import resources
from parsers.model.units import duration
from rules.analysis.idle.causes import Cause
from viewer.comparison.window import ComparisonWindow
from viewer.panels.charts.budget_bar import BudgetBar, PartButton
from viewer.panels.tables.table_view import TableView
from viewer.panels.tabs.query import QueryPanel
from viewer.panels.tabs.selection import SelectionPanel
from viewer.tables.table import frame_of
from viewer.window.main_window import MainWindow

from .conftest import MS, wait_until_laid_out, wait_until_ready
from .test_home import click
from .test_opening_lines import FEED

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "hands.md"


class Hand:
    """A mouse and a keyboard that count what they do."""

    def __init__(self, qtbot: QtBot) -> None:
        self._qtbot, self.clicks, self.keys = qtbot, 0, 0

    def click(self, widget: QWidget, at: QPoint | None = None) -> None:
        wait_until_laid_out(self._qtbot, widget)
        click(widget, at)
        self.clicks += 1

    def double_click(self, widget: QWidget) -> None:
        wait_until_laid_out(self._qtbot, widget)
        click(widget)
        QTest.mouseDClick(widget, Qt.MouseButton.LeftButton)
        self.clicks += 2

    def row(self, table: TableView, row: int) -> None:
        self._qtbot.waitUntil(lambda: table.rows.rowCount() > row)
        wait_until_laid_out(self._qtbot, table)
        self.click(table.viewport(), QPoint(40, table.rowViewportPosition(row) + 8))

    def type(self, window: QWidget, keys: Iterable[str | Qt.Key]) -> None:
        for key in keys:
            QTest.keyClick(window.windowHandle(), key)
            self.keys += 1


def told(task: str) -> tuple[int, int]:
    """The clicks and keys that the documentation states for a task."""
    line = next(each for each in DOCUMENT.read_text("utf-8").splitlines() if each.startswith(f"| {task} "))
    found = re.search(r"\| (?:(\d+) clicks?)?(?:, )?(?:(\d+) keys?)? \|", line)
    assert found is not None, line
    return int(found[1] or 0), int(found[2] or 0)


@pytest.fixture
def hand(qtbot: QtBot) -> Hand:
    return Hand(qtbot)


def part_of(bar: BudgetBar, key: str) -> PartButton:
    return next(button for button in bar.buttons if button.part.key == key)


def opened(window: MainWindow, qtbot: QtBot, path: Path) -> MainWindow:
    window.resize(1456, 900)
    window.open([path])
    wait_until_ready(qtbot, window)
    return window


@pytest.mark.thorough
def test_the_longest_exposed_collective_of_a_rank_with_its_wait_and_its_launch(
    empty_window: MainWindow, qtbot: QtBot, hand: Hand
) -> None:
    window = opened(empty_window, qtbot, resources.path("samples/straggler_four_ranks"))
    trace, analysis = window.document.trace, window.document.analysis
    assert trace is not None
    assert analysis is not None
    hand.click(part_of(window.verdict.bars[3], "communication"))
    qtbot.waitUntil(lambda: window.document.selected_event >= 0)
    collective = window.document.selected_event
    table = frame_of(analysis, "collectives")
    start, end = window.document.window
    mine = table[(table["rank"] == 3) & (table["start_ns"] >= start) & (table["start_ns"] < end)]
    longest = mine.loc[mine["exposed_ns"].idxmax()]
    assert collective == longest["event"]
    facts = window.panels.tabs.currentWidget()
    assert isinstance(facts, SelectionPanel)
    wait_until_ready(qtbot, window)
    said = " ".join(each.text() for each in facts.findChildren(QLabel) if each.isVisible()).replace(
        "\xa0", " "
    )
    assert f"{duration(int(longest['exposed_ns']))}, " in said
    assert f"{duration(int(longest['waiting_ns']))} for rank {int(longest['waits_for'])}" in said
    hand.type(window, "b")
    launch = window.document.selected_event
    assert launch in trace.links.launch[trace.links.operation == collective]
    assert (hand.clicks, hand.keys) == told("longest exposed collective of rank 3, its wait, its launch")
    hand.type(window, "b")
    assert window.document.selected_event in trace.links.operation[trace.links.launch == launch]


@pytest.mark.thorough
def test_all_gaps_of_one_cause_above_a_millisecond(
    empty_window: MainWindow, qtbot: QtBot, hand: Hand
) -> None:
    window = opened(empty_window, qtbot, resources.path("samples/cpu_python.pt.trace.json.gz"))
    analysis = window.document.analysis
    assert analysis is not None
    (bar,) = window.verdict.bars
    hand.double_click(part_of(bar, Cause.HOST.key))
    qtbot.waitUntil(lambda: isinstance(window.panels.tabs.currentWidget(), QueryPanel))
    panel = window.panels.tabs.currentWidget()
    assert isinstance(panel, QueryPanel)
    qtbot.waitUntil(lambda: panel.answer.table is not None and panel.answer.table.hasFocus())
    table = panel.answer.table
    assert table is not None
    hand.type(window, ">1ms")
    start, end = window.document.window
    idle = analysis.idle
    gaps = (idle.cause == Cause.HOST) & (idle.end > start) & (idle.start < end)
    inside = np.minimum(idle.end, end) - np.maximum(idle.start, start)
    assert table.rows.rowCount() == np.count_nonzero(inside[gaps] > MS) > 2
    assert table.rows.rowCount() < np.count_nonzero(gaps)
    assert (hand.clicks, hand.keys) == told("all gaps of one cause above 1 ms")


@pytest.mark.thorough
def test_before_and_after_of_one_kernel(
    make_window: Callable[..., MainWindow], fixtures: Path, qtbot: QtBot, hand: Hand
) -> None:
    window = make_window((1456, 900))
    names = ("moderate.pt.trace.json.gz", "moderate.fixed.pt.trace.json.gz")
    window.open([fixtures / "programs" / name for name in names])
    wait_until_ready(qtbot, window)
    qtbot.waitUntil(lambda: window.banner.action_button.isVisible())
    hand.click(window.banner.action_button)
    compared: list[ComparisonWindow] = []

    def there() -> bool:
        compared[:] = [each for each in QApplication.topLevelWidgets() if isinstance(each, ComparisonWindow)]
        return bool(compared) and compared[0].steps is not None

    qtbot.waitUntil(there)
    (comparison,) = compared
    kernels = comparison.details.kernels
    qtbot.waitUntil(lambda: kernels.rows.rowCount() > 0)
    on_both = (kernels.rows.shown("ns_before") > 0) & (kernels.rows.shown("ns_after") > 0)
    row = int(on_both.argmax())
    wait_until_laid_out(qtbot, kernels)
    assert kernels.viewport().rect().contains(kernels.visualRect(kernels.rows.index(row, 1)))
    assert (hand.clicks, hand.keys) == told("before and after of one kernel")
    hand.row(kernels, row)
    qtbot.waitUntil(lambda: all(view.state.evidence for view in comparison.twins.views))
    assert (hand.clicks, hand.keys) == told("the same, both on their timelines")
    comparison.close()
    QCoreApplication.sendPostedEvents(comparison, int(QEvent.Type.DeferredDelete.value))


def test_from_the_headline_to_the_line_of_code(
    empty_window: MainWindow, qtbot: QtBot, hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = opened(empty_window, qtbot, FEED)
    lines: list[object] = []
    window.document.line_wanted.disconnect(window.source_lines.open)
    window.document.line_wanted.connect(lines.append)
    hand.type(window, [Qt.Key.Key_F4])
    assert lines == [window.diagnosis.cards[0].finding.culprit.at]
    assert (hand.clicks, hand.keys) == told("from the headline to the line of code")
