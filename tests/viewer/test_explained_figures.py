"""Any figure leads to the rows that it is the sum of: a second click on it, and the line below the answer says it."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

import resources
from parsers.model.units import duration
from tests.opened import analysed
from viewer.panels.panel import Panel
from viewer.panels.tables.table_view import TableView
from viewer.panels.tabs.kernels import KernelsPanel
from viewer.panels.tabs.operators import OperatorsPanel
from viewer.panels.tabs.query import QueryPanel
from viewer.panels.tabs.steps import StepsPanel
from viewer.query.database import database_of
from viewer.query.explained import is_explained, part_behind
from viewer.window.main_window import MainWindow

from .conftest import show_tab, wait_until_laid_out, wait_until_ready

SAMPLE = resources.path("samples/cpu_python.pt.trace.json.gz")


def middle_of(table: TableView, row: int, key: str) -> QPoint:
    place = next(index for index, column in enumerate(table.rows.columns) if column.key == key)
    return table.visualRect(table.rows.index(row, place)).center()


def answered(window: MainWindow, qtbot: QtBot) -> str:
    """What the line below the answer says, once there is one."""
    panel = window.panels.tabs.currentWidget()
    assert isinstance(panel, QueryPanel)
    wait_until_ready(qtbot, window)
    qtbot.waitUntil(lambda: bool(panel.answer.left.text()))
    return panel.answer.left.text()


def opened(window: MainWindow, qtbot: QtBot, title: str) -> Panel:
    window.open([SAMPLE])
    wait_until_ready(qtbot, window)
    show_tab(window, qtbot, title)
    panel = window.panels.tabs.currentWidget()
    assert isinstance(panel, Panel)
    wait_until_laid_out(qtbot, panel.tables[0])
    qtbot.waitUntil(lambda: panel.tables[0].rows.rowCount() > 0)
    return panel


def test_a_second_click_on_a_time_lists_the_calls_that_it_adds_up(
    empty_window: MainWindow, qtbot: QtBot
) -> None:
    window = empty_window
    panel = opened(window, qtbot, KernelsPanel.title)
    table = panel.tables[0]
    calls, total = (int(table.rows.value(0, key)) for key in ("calls", "total_ns"))
    QTest.mouseDClick(table.viewport(), Qt.MouseButton.LeftButton, pos=middle_of(table, 0, "total_ns"))
    told = answered(window, qtbot)
    assert told.startswith(f"{calls} rows in ")
    assert f"duration_ns: sum {duration(total)}, median {duration(table.rows.value(0, 'p50_ns'))}" in told
    assert f"p99 {duration(table.rows.value(0, 'p99_ns'))}" in told


def test_a_second_click_on_a_name_explains_nothing(empty_window: MainWindow, qtbot: QtBot) -> None:
    panel = opened(empty_window, qtbot, KernelsPanel.title)
    table = panel.tables[0]
    QTest.mouseDClick(table.viewport(), Qt.MouseButton.LeftButton, pos=middle_of(table, 0, "short_name"))
    wait_until_ready(qtbot, empty_window)
    assert empty_window.panels.tabs.currentWidget() is panel


@pytest.mark.parametrize("title", [KernelsPanel.title, OperatorsPanel.title, StepsPanel.title])
def test_the_rows_behind_each_line_of_a_table_add_up_to_its_figures(
    empty_window: MainWindow, qtbot: QtBot, title: str
) -> None:
    panel = opened(empty_window, qtbot, title)
    analysis = empty_window.document.analysis
    assert analysis is not None
    sums = {
        KernelsPanel.title: {"total_ns": "duration_ns"},
        OperatorsPanel.title: {
            "cpu_self_ns": "self_ns",
            "cpu_total_ns": "duration_ns",
            "gpu_self_ns": "gpu_self_ns",
            "gpu_total_ns": "gpu_ns",
        },
        StepsPanel.title: {"gpu_idle_ns": "idle_ns"},
    }[title]
    database = database_of(analysis)
    for table in panel.tables:
        frame = table.rows.frame
        assert frame is not None
        for row in range(min(len(frame), 12)):
            behind = panel.behind(table, row)
            assert behind is not None
            found = database.run(behind.question.sql)
            if "calls" in frame:
                assert found.rows == frame["calls"].iloc[row]
            for key, amount in sums.items():
                total = found.sums[amount].total if amount in found.sums else 0.0
                assert total == pytest.approx(float(frame[key].iloc[row]), abs=1)


def test_a_second_click_on_a_part_of_the_bar_lists_what_it_adds_up(
    empty_window: MainWindow, qtbot: QtBot
) -> None:
    window = empty_window
    opened(window, qtbot, KernelsPanel.title)
    (bar,) = window.verdict.bars
    button = next(each for each in bar.buttons if each.part.key == "host-bound")
    wait_until_laid_out(qtbot, button)
    QTest.mouseDClick(button, Qt.MouseButton.LeftButton)
    assert "inside_ns: sum " in answered(window, qtbot)
    panel = window.panels.tabs.currentWidget()
    assert isinstance(panel, QueryPanel)
    assert "FROM gaps" in panel.editor.sql


def test_every_part_of_the_budget_is_the_sum_of_the_rows_behind_it() -> None:
    from rules.verdict.verdict import budget_parts

    analysis = analysed(SAMPLE)
    told = 0
    for key, label, ns in budget_parts(analysis.budgets(0), analysis.idle):
        if ns and is_explained(key):
            behind = part_behind(analysis, 0, key, label, analysis.window)
            found = database_of(analysis).run(behind.question.sql)
            assert found.sums["inside_ns"].total == pytest.approx(ns, abs=1)
            told += 1
    assert told > 2


def test_a_click_on_the_share_of_a_card_leads_to_its_sum(window: MainWindow, qtbot: QtBot) -> None:
    card = window.diagnosis.cards[0]
    wait_until_laid_out(qtbot, card.share)
    qtbot.mouseClick(card.share, Qt.MouseButton.LeftButton)
    assert answered(window, qtbot).startswith("1 row")
