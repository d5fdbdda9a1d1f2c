"""What an expert asks every day, with the clicks and keys that it takes: docs/hands.md tells them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QPoint
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

import resources
from viewer.comparison.window import ComparisonWindow
from viewer.panels.tables.table_view import TableView
from viewer.panels.tabs.instances import InstancesPanel
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

    def tab(self, window: MainWindow, title: str) -> None:
        bar, titles = window.panels.tabs.tabBar(), window.panels.titles()
        wait_until_laid_out(self._qtbot, bar)
        self.click(bar, bar.tabRect(titles.index(title)).center())
        wait_until_ready(self._qtbot, window)

    def row(self, table: TableView, row: int) -> None:
        self._qtbot.waitUntil(lambda: table.rows.rowCount() > row)
        wait_until_laid_out(self._qtbot, table)
        self.click(table.viewport(), QPoint(40, table.rowViewportPosition(row) + 8))

    def type(self, widget: QWidget, text: str) -> None:
        QTest.keyClicks(widget, text)
        self.keys += len(text)


def told(task: str) -> tuple[int, int]:
    """The clicks and keys that the documentation states for a task."""
    line = next(each for each in DOCUMENT.read_text("utf-8").splitlines() if each.startswith(f"| {task} "))
    found = re.search(r"\| (\d+) clicks?(?:, (\d+) keys)? \|", line)
    assert found is not None, line
    return int(found[1]), int(found[2] or 0)


@pytest.fixture
def hand(qtbot: QtBot) -> Hand:
    return Hand(qtbot)


def opened(window: MainWindow, qtbot: QtBot, path: Path) -> MainWindow:
    window.resize(1456, 900)
    window.open([path])
    wait_until_ready(qtbot, window)
    return window


def instances(window: MainWindow, hand: Hand, qtbot: QtBot) -> TableView:
    hand.tab(window, "Instances")
    panel = window.panels.tabs.currentWidget()
    assert isinstance(panel, InstancesPanel)
    qtbot.waitUntil(lambda: bool(panel.tables) and panel.tables[0].rows.rowCount() > 0)
    return panel.tables[0]


def test_the_longest_exposed_collective_of_a_rank_with_its_wait_and_its_launch(
    empty_window: MainWindow, qtbot: QtBot, hand: Hand
) -> None:
    window = opened(empty_window, qtbot, resources.path("samples/straggler_four_ranks"))
    table = instances(window, hand, qtbot)
    hand.click(window.panels.filter)
    hand.type(window.panels.filter, "rank:3")
    qtbot.waitUntil(lambda: set(table.rows.shown("rank").tolist()) == {3.0})
    hand.row(table, 0)
    exposed = table.rows.shown("exposed_ns")
    assert table.rows.value(0, "exposed_ns") == exposed.max() > MS
    assert table.rows.value(0, "waiting_ns") > MS
    assert table.rows.value(0, "waits_for") == 2
    collective = window.document.selected_event
    assert collective == table.rows.value(0, "event")
    trace = window.document.trace
    assert trace is not None
    hand.type(table, "b")
    launch = window.document.selected_event
    assert launch in trace.links.launch[trace.links.operation == collective]
    assert (hand.clicks, hand.keys) == told("longest exposed collective of rank 3, its wait, its launch")
    QTest.keyClicks(table, "b")
    back = window.document.selected_event
    assert back in trace.links.operation[trace.links.launch == launch]


def test_all_gaps_of_one_cause_above_a_millisecond(
    empty_window: MainWindow, qtbot: QtBot, hand: Hand
) -> None:
    window = opened(empty_window, qtbot, resources.path("samples/cpu_python.pt.trace.json.gz"))
    table = instances(window, hand, qtbot)
    hand.click(window.panels.filter)
    hand.type(window.panels.filter, "python >1ms")
    qtbot.waitUntil(lambda: set(table.rows.shown("cause").tolist()) == {"waiting for Python"})
    assert (table.rows.shown("duration_ns") > MS).all()
    assert table.rows.rowCount() > 2
    assert (hand.clicks, hand.keys) == told("all gaps of one cause above 1 ms")


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
    hand.row(kernels, int(on_both.argmax()))
    qtbot.waitUntil(lambda: all(view.state.evidence for view in comparison.twins.views))
    assert (hand.clicks, hand.keys) == told("before and after of one kernel")
    comparison.close()
    QCoreApplication.sendPostedEvents(comparison, int(QEvent.Type.DeferredDelete.value))


def test_from_the_headline_to_the_line_of_code(
    empty_window: MainWindow, qtbot: QtBot, hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = opened(empty_window, qtbot, FEED)
    lines: list[object] = []
    window.document.line_wanted.disconnect(window.source_lines.open)
    window.document.line_wanted.connect(lines.append)
    hand.click(window.verdict.sentence)
    card = window.diagnosis.cards[0]
    hand.click(card.line_button)
    assert lines == [card.finding.culprit.at]
    assert (hand.clicks, hand.keys) == told("from the headline to the line of code")
