"""What a snapshot of the allocator says is drawn without losing a peak, and the table adds up to the drawing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from parsers import open_trace
from parsers.model import Trace
from rules.analysis.analysis import Analysis
from rules.memory.account import DeviceMemory
from rules.memory.kinds import Kind
from rules.memory.summary import memory_of
from viewer.panels.tabs.allocations import BY_LINE, AllocationsPanel
from viewer.statistics.memory import LASTING, rows_at, stack_of
from viewer.window.main_window import MainWindow

from .conftest import show_tab, wait_until_ready

FOLDER = Path(__file__).parents[1] / "fixtures" / "memory"


@pytest.fixture(scope="module")
def growing() -> Trace:
    """A loop that keeps what it makes."""
    return open_trace([FOLDER / "growing.snapshot.pickle.gz"])


@pytest.fixture(scope="module")
def account(growing: Trace) -> DeviceMemory:
    found = memory_of(Analysis(growing))[0].account
    assert found is not None
    return found


@pytest.mark.parametrize("columns", [1, 7, 100_000])
def test_no_peak_is_lost_however_few_columns_there_are(account: DeviceMemory, columns: int) -> None:
    stack = stack_of(account, columns)
    total = np.sum(list(stack.held.values()), axis=0)
    assert int(total.max()) == account.peak
    assert np.all(np.diff(stack.time) > 0)


def test_what_lasts_lies_below_what_comes_and_goes(account: DeviceMemory) -> None:
    kinds = list(stack_of(account).held)
    assert kinds == [kind for kind in LASTING if kind in kinds]
    assert set(LASTING) == set(Kind)


@pytest.mark.parametrize("by_line", [False, True])
def test_the_rows_of_a_moment_add_up_to_what_was_held(account: DeviceMemory, by_line: bool) -> None:
    for when in (account.peak_at, int(account.time[len(account.time) // 2])):
        rows = rows_at(account, when, by_line=by_line)
        assert sum(row.size for row in rows) == account.at(when)
        assert sum(row.blocks for row in rows) == int(account.alive(when).sum())
        assert [row.size for row in rows] == sorted((row.size for row in rows), reverse=True)


def test_lines_are_those_of_the_program(account: DeviceMemory) -> None:
    rows = rows_at(account, account.peak_at, by_line=True)
    assert any(" line " in row.where for row in rows)
    assert not any("torch/" in row.where for row in rows)


def test_the_tab_shows_the_peak_first_and_any_moment_on_a_click(
    empty_window: MainWindow, qtbot: QtBot
) -> None:
    empty_window.open([FOLDER / "growing.snapshot.pickle.gz"])
    wait_until_ready(qtbot, empty_window)
    show_tab(empty_window, qtbot, "Allocations")
    panel = empty_window.panels.tabs.currentWidget()
    assert isinstance(panel, AllocationsPanel)
    account = panel._summary.account
    frame = panel.table.rows.frame
    assert int(frame["size"].sum()) == account.peak
    assert panel.drawing is not None
    early = int(account.time[len(account.time) // 10])
    panel.drawing.moment_chosen.emit(early)
    wait_until_ready(qtbot, empty_window)
    assert int(panel.table.rows.frame["size"].sum()) == account.at(early)
    panel.grouping.setCurrentText(BY_LINE)
    wait_until_ready(qtbot, empty_window)
    assert any(" line " in where for where in panel.table.rows.frame["where"])
    qtbot.mouseClick(panel.to_peak, Qt.MouseButton.LeftButton)
    wait_until_ready(qtbot, empty_window)
    assert int(panel.table.rows.frame["size"].sum()) == account.peak


def test_a_recording_of_memory_alone_opens_though_it_has_no_lanes(
    empty_window: MainWindow, qtbot: QtBot
) -> None:
    empty_window.open([FOLDER / "oom.snapshot.pickle.gz"])
    wait_until_ready(qtbot, empty_window)
    diagnosis = empty_window.document.diagnosis
    assert diagnosis is not None
    (finding,) = (each for each in diagnosis.findings if each.rule == "out-of-memory")
    empty_window.document.select_finding(finding)
    assert "Allocations" in empty_window.panels.titles()


def test_a_recording_without_a_snapshot_has_no_such_tab(window: MainWindow) -> None:
    assert "Allocations" not in window.panels.titles()
