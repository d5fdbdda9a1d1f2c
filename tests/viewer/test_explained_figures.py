"""Any figure leads to the rows that it is the sum of: a second click on it, and the line below the answer says it."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

import resources
from parsers.model.units import duration, size
from rules.fixes.plan import plan_of
from tests.examples import one_of
from tests.opened import analysed
from viewer.appearance.widgets import ElidedLabel
from viewer.panels.panel import Panel
from viewer.panels.tables.table_view import TableView
from viewer.panels.tabs.allocations import GROUPS, AllocationsPanel
from viewer.panels.tabs.critical_path import CriticalPathPanel
from viewer.panels.tabs.kernels import KernelsPanel
from viewer.panels.tabs.memory import MemoryPanel
from viewer.panels.tabs.operators import OperatorsPanel, RoofsPanel
from viewer.panels.tabs.query import QueryPanel
from viewer.panels.tabs.ranks import CollectivesPanel
from viewer.panels.tabs.steps import StepsPanel
from viewer.query.database import database_of
from viewer.query.explained import gain_behind, is_explained, part_behind
from viewer.window.main_window import MainWindow

from .conftest import show_tab, wait_until_laid_out, wait_until_ready

SAMPLE = resources.path("samples/cpu_python.pt.trace.json.gz")
RANKS = resources.path("samples/straggler_four_ranks")
GROWING = Path(__file__).resolve().parents[1] / "fixtures" / "memory" / "growing.snapshot.pickle.gz"


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


def opened(window: MainWindow, qtbot: QtBot, title: str, path: Path = SAMPLE) -> Panel:
    window.open([path])
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


OF_OPERATORS = {
    "cpu_self_ns": "self_ns",
    "cpu_total_ns": "duration_ns",
    "gpu_self_ns": "gpu_self_ns",
    "gpu_total_ns": "gpu_ns",
}


@pytest.mark.parametrize(
    ("title", "sums", "path"),
    one_of(
        3,
        [
            (KernelsPanel.title, {"total_ns": "duration_ns"}, SAMPLE),
            (OperatorsPanel.title, OF_OPERATORS, SAMPLE),
            (StepsPanel.title, {"gpu_idle_ns": "idle_ns"}, SAMPLE),
            (RoofsPanel.title, {"total_ns": "duration_ns"}, SAMPLE),
            (CriticalPathPanel.title, {"time": "a_step_ns"}, SAMPLE),
            (CollectivesPanel.title, {"waiting_ns": "waiting_ns"}, RANKS),
            (AllocationsPanel.title, {"size": "size_bytes"}, GROWING),
        ],
    ),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_rows_behind_each_line_of_a_table_add_up_to_its_figures(
    empty_window: MainWindow, qtbot: QtBot, title: str, sums: dict[str, str], path: Path
) -> None:
    panel = opened(empty_window, qtbot, title, path)
    analysis = empty_window.document.analysis
    assert analysis is not None
    database = database_of(analysis)
    for table in panel.tables:
        frame = table.rows.frame
        assert frame is not None
        for row in range(min(len(frame), 12)):
            behind = panel.behind(table, row)
            assert behind is not None
            found = database.run(behind.question.sql)
            if "calls" in frame and "event" in frame and title != RoofsPanel.title:
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


def test_a_click_on_the_gain_of_a_card_lists_the_step_before_and_after(
    window: MainWindow, qtbot: QtBot
) -> None:
    qtbot.waitUntil(lambda: window.document.plan is not None)
    plan = window.document.plan
    assert plan is not None
    card = next(each for each in window.diagnosis.cards if each.gives.text())
    promise = next(each for each in plan.promises if each.id == card.finding.fix)
    wait_until_laid_out(qtbot, card.gives)
    qtbot.mouseClick(card.gives, Qt.MouseButton.LeftButton)
    told, before = answered(window, qtbot), plan.replay.usual_ns
    assert f"before_ns: sum {duration(before)}" in told
    assert f"after_ns: sum {duration(before / promise.expected)}" in told


def test_a_click_on_the_gain_of_a_fix_lists_the_same(window: MainWindow, qtbot: QtBot) -> None:
    qtbot.waitUntil(lambda: window.document.plan is not None)
    window.side.setCurrentWidget(window.fixes)
    card = window.fixes.cards[0]
    for label in (card.gives, card.step):
        wait_until_laid_out(qtbot, label)
        qtbot.mouseClick(label, Qt.MouseButton.LeftButton)
        assert "saved_ns: sum " in answered(window, qtbot)
        panel = window.panels.tabs.currentWidget()
        assert isinstance(panel, QueryPanel)
        assert f"fix = '{card.promise.id}'" in panel.editor.sql


def test_the_parts_of_every_predicted_step_add_up_to_it() -> None:
    analysis = analysed(SAMPLE)
    plan, told = plan_of(analysis), 0
    for promise in plan.promises:
        if not promise.proposal.redesign:
            found = database_of(analysis).run(gain_behind(promise).question.sql).sums
            assert found["before_ns"].total == pytest.approx(plan.replay.usual_ns, rel=1e-6)
            assert found["after_ns"].total == pytest.approx(plan.replay.usual_ns / promise.expected, rel=1e-6)
            told += 1
    assert told > 1


@pytest.mark.thorough
def test_the_rows_behind_what_memory_holds_add_up_however_it_is_grouped(
    empty_window: MainWindow, qtbot: QtBot
) -> None:
    panel = opened(empty_window, qtbot, AllocationsPanel.title, GROWING)
    assert isinstance(panel, AllocationsPanel)
    analysis, told = empty_window.document.analysis, set()
    assert analysis is not None
    for button in panel.groupings.buttons():
        if button.text() not in GROUPS or button.isHidden():
            continue
        button.click()
        wait_until_ready(qtbot, empty_window)
        frame = panel.table.rows.frame
        assert frame is not None
        for row in range(min(len(frame), 6)):
            behind = panel.behind(panel.table, row)
            assert behind is not None
            found = database_of(analysis).run(behind.question.sql)
            assert found.rows == frame["blocks"].iloc[row]
            assert found.sums["size_bytes"].total == frame["size"].iloc[row]
            told.add(button.text())
    assert told >= {"kind", "line", "stack", "size", "age"}


def test_a_click_on_the_peak_of_a_counter_lists_its_samples(
    empty_window: MainWindow, qtbot: QtBot, fixtures: Path
) -> None:
    window = empty_window
    window.open([fixtures / "torch" / "memory_stack.pt.trace.json.gz"])
    wait_until_ready(qtbot, window)
    show_tab(window, qtbot, MemoryPanel.title)
    panel = window.panels.tabs.currentWidget()
    assert panel is not None
    wait_until_ready(qtbot, window)
    entry = next(each for each in panel.findChildren(ElidedLabel) if ": peak " in each.text())
    said = entry.text()
    wait_until_laid_out(qtbot, entry)
    qtbot.mouseClick(entry, Qt.MouseButton.LeftButton)
    answered(window, qtbot)
    query = window.panels.tabs.currentWidget()
    assert isinstance(query, QueryPanel)
    assert query.answer.table is not None
    rows = query.answer.table.rows
    held = next(column.key for column in rows.columns if column.key.endswith(":held_bytes"))
    assert f"peak {size(rows.shown(held).max())}" in said
