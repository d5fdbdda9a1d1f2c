"""Every single gap, launch, copy and collective in a table: sorted, filtered, narrowed, and shown where it happened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

import resources
from parsers import open_trace
from parsers.model import Trace
from rules.analysis.analysis import Analysis
from tests.opened import analysed
from tests.viewer.conftest import MS, STEPS, show_tab, wait_until_laid_out, wait_until_ready
from viewer.panels.tables.table_view import TableView
from viewer.panels.tabs.instances import KINDS, MAX_ROWS, InstancesPanel, rows_of_kind
from viewer.panels.tabs.ranks import RanksPanel
from viewer.tables.table import frame_of
from viewer.window.main_window import MainWindow


def instances(window: MainWindow, qtbot: QtBot, kind: str) -> InstancesPanel:
    """The tab with this kind chosen as a user chooses it."""
    show_tab(window, qtbot, "Instances")
    panel = window.panels.tabs.currentWidget()
    assert isinstance(panel, InstancesPanel)
    panel.choice.setFocus()
    while panel.choice.currentText() != kind:
        before = panel.choice.currentIndex()
        qtbot.keyClick(panel.choice, Qt.Key.Key_Down)
        assert panel.choice.currentIndex() != before, f"{kind} is not offered"
    qtbot.waitUntil(lambda: bool(panel.tables) and panel.tables[0].accessibleName() == kind)
    wait_until_ready(qtbot, window)
    wait_until_laid_out(qtbot, panel.tables[0])
    return panel


def click_row(table: TableView, qtbot: QtBot, row: int) -> None:
    where = table.visualRect(table.rows.index(row, 0)).center()
    qtbot.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(where))


def test_a_click_on_a_gap_selects_it_and_brings_it_into_view(window: MainWindow, qtbot: QtBot) -> None:
    window.timeline.show_interval(0, MS, animate=False)
    panel = instances(window, qtbot, "Gaps")
    click_row(panel.tables[0], qtbot, 0)
    row, analysis = window.document.selected_gap, window.document.analysis
    assert analysis is not None
    assert row >= 0
    start, end = analysis.idle.start[row], analysis.idle.end[row]
    assert end - start == (analysis.idle.end - analysis.idle.start).max(), "the longest comes first"
    t0, t1 = window.timeline.visible_interval
    assert t0 <= start
    assert end <= t1
    assert window.panels.tabs.currentWidget() is panel


def test_a_click_on_a_launch_selects_its_call_and_the_selection_is_marked_in_the_table(
    window: MainWindow, qtbot: QtBot
) -> None:
    panel = instances(window, qtbot, "Launches")
    table = panel.tables[0]
    click_row(table, qtbot, 3)
    chosen = window.document.selected_event
    assert chosen == table.rows.value(3, "event")
    other = int(table.rows.value(7, "event"))
    window.document.show_event(other)
    window.panels.show_panel("Instances")
    window.document.select_event(-1)
    window.document.select_event(other)
    assert table.currentIndex().row() == 7


def test_the_filter_takes_words_and_bounds_and_the_sums_follow_it(window: MainWindow, qtbot: QtBot) -> None:
    panel = instances(window, qtbot, "Gaps")
    table, every = panel.tables[0], len(panel.tables[0].rows.frame)
    assert panel.summary.text().startswith(f"{every} · duration ")
    window.panels.filter.setFocus()
    qtbot.keyClicks(window.panels.filter, "python >1ms")
    lengths = table.rows.shown("duration_ns")
    assert 0 < len(lengths) < every
    assert (lengths > MS).all()
    assert panel.summary.text().startswith(f"{len(lengths)} of {every} · duration ")
    qtbot.keyClicks(window.panels.filter, " nothing is called so")
    assert table.rows.rowCount() == 0


def test_what_is_typed_into_a_table_goes_into_the_filter_unless_it_is_a_shortcut(
    window: MainWindow, qtbot: QtBot
) -> None:
    panel = instances(window, qtbot, "Gaps")
    table, every = panel.tables[0], len(panel.tables[0].rows.frame)
    table.setFocus()
    for key in ">1ms":
        QTest.keyClick(window.windowHandle(), key)
    assert window.panels.filter.text() == ">1ms"
    assert 0 < table.rows.rowCount() < every
    table.setFocus()
    visible = window.timeline.state.gaps_visible
    QTest.keyClick(window.windowHandle(), "g")
    assert window.timeline.state.gaps_visible is not visible
    assert window.panels.filter.text() == ">1ms"


def test_the_keyboard_alone_leads_from_the_name_of_a_tab_to_a_row_and_to_its_place(
    window: MainWindow, qtbot: QtBot
) -> None:
    window.timeline.show_interval(0, MS, animate=False)
    field = window.toolbar.search
    QTest.keyClick(window.windowHandle(), Qt.Key.Key_P, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(field.hasFocus)
    qtbot.keyClicks(field, "instances")
    qtbot.waitUntil(lambda: field.popup.isVisible() and field.popup.hits[0].title == "Instances")
    QTest.keyClick(field, Qt.Key.Key_Return)
    panel = window.panels.tabs.currentWidget()
    assert isinstance(panel, InstancesPanel)
    qtbot.waitUntil(lambda: bool(panel.tables) and panel.tables[0].hasFocus())
    for key in ">1ms":
        QTest.keyClick(window.windowHandle(), key)
    assert window.panels.filter.hasFocus()
    QTest.keyClick(window.windowHandle(), Qt.Key.Key_Return)
    assert panel.tables[0].hasFocus()
    assert (panel.tables[0].rows.shown("duration_ns") > MS).all()
    assert window.document.selected_gap < 0, "nothing is chosen on the way"
    QTest.keyClick(window.windowHandle(), Qt.Key.Key_Return)
    assert window.document.selected_gap >= 0


def test_a_step_narrows_the_rows_and_the_scope_is_written_on_them(window: MainWindow, qtbot: QtBot) -> None:
    panel = instances(window, qtbot, "Launches")
    every = len(panel.tables[0].rows.frame)
    assert panel.summary.text().endswith("whole recording · one rank")
    qtbot.keyClick(window.timeline, Qt.Key.Key_BracketRight)
    wait_until_ready(qtbot, window)
    assert window.document.step >= 0
    assert len(panel.tables[0].rows.frame) == every // STEPS
    assert "step ProfilerStep#" in panel.summary.text()
    assert panel.scope.isVisible()


def test_collectives_say_their_step_what_is_exposed_and_for_whom_they_wait(shared_data: Path) -> None:
    analysis = analysed(
        *(shared_data / f"ddp/straggler_gpu.rank{rank}.pt.trace.json.gz" for rank in range(4))
    )
    frame = frame_of(analysis, "collectives")
    waiting = frame[frame["waiting_ns"] > MS]
    assert (waiting["waits_for"] == 2).mean() > 0.9, "rank 2 is the late one"
    assert frame["exposed_ns"].le(frame["duration_ns"]).all()
    steps = [analysis.steps[int(step)] for step in frame["step"].dropna()]
    assert [step.rank for step in steps] == frame["rank"][frame["step"].notna()].tolist()
    shown = rows_of_kind(KINDS[0], analysis, 0, 10**12).frame
    assert np.all(np.diff(shown["exposed_ns"]) <= 0)


def test_what_one_rank_alone_cannot_tell_of_a_collective_is_no_zero() -> None:
    ranks = sorted(resources.path("samples/straggler_four_ranks").iterdir())
    for files, is_told in ((ranks, True), (ranks[:1], False)):
        analysis = analysed(*files)
        shown = rows_of_kind(KINDS[0], analysis, 0, 10**12)
        assert ("waiting_ns" in {column.key for column in shown.columns}) is is_told
        frame = frame_of(analysis, "collectives")
        assert frame["waiting_ns"].notna().any() == is_told
        sizes = frame["message_bytes"].dropna()
        assert len(sizes)
        assert (sizes > 0).all()


def test_waits_add_up_to_what_the_analysis_counts(fixtures: Path) -> None:
    analysis = Analysis(open_trace([fixtures / "programs" / "moderate.pt.trace.json.gz"]))
    launches, gaps = frame_of(analysis, "launch_waits"), frame_of(analysis, "gaps")
    launched = gaps["next_event"].isin(launches["operation"])
    assert launches["gpu_idle_ns"].sum() == gaps["duration_ns"][launched].sum() > 0
    copies = frame_of(analysis, "copies")
    assert copies["exposed_ns"].sum() == sum(
        analysis.budgets(device).exposed_copy_ns for device in analysis.active_devices
    )
    synchronised = frame_of(analysis, "synchronisations")
    assert synchronised["name"].astype(str).str.contains("Synchronize|Memcpy").all()


@pytest.mark.parametrize(("most", "left"), [(5, 19), (MAX_ROWS, 0)])
def test_of_very_many_the_longest_are_listed(
    most: int, left: int, trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("viewer.panels.tabs.instances.MAX_ROWS", most)
    launches = next(kind for kind in KINDS if kind.title == "Launches")
    rows = rows_of_kind(launches, Analysis(trace), 0, 10**12)
    assert (len(rows.frame), rows.left) == (24 - left, left)


def test_a_tab_that_does_not_follow_the_step_says_so(
    make_window: Callable[..., MainWindow], qtbot: QtBot, shared_data: Path
) -> None:
    window = make_window((1400, 900))
    window.open([shared_data / f"ddp/straggler_gpu.rank{rank}.pt.trace.json.gz" for rank in (0, 2)])
    wait_until_ready(qtbot, window)
    show_tab(window, qtbot, "Collectives")
    panel = window.panels.tabs.currentWidget()
    assert panel is not None
    assert not panel.scope.isVisible()  # type: ignore[attr-defined]
    qtbot.keyClick(window.timeline, Qt.Key.Key_BracketRight)
    assert panel.scope.text().startswith("All steps, not just ProfilerStep#")  # type: ignore[attr-defined]


def test_a_cell_of_the_map_selects_its_rank_and_step_and_goes_there(
    make_window: Callable[..., MainWindow], qtbot: QtBot, shared_data: Path
) -> None:
    window = make_window((1400, 900))
    window.open([shared_data / f"ddp/straggler_gpu.rank{rank}.pt.trace.json.gz" for rank in range(4)])
    wait_until_ready(qtbot, window)
    show_tab(window, qtbot, "Ranks")
    panel = window.panels.tabs.currentWidget()
    assert isinstance(panel, RanksPanel)
    qtbot.waitUntil(lambda: panel.heat.isVisible() and panel.table.rows.frame is not None)
    wait_until_laid_out(qtbot, panel.heat)
    cell = panel.heat.box(np.array([3]), np.array([1])).center().toPoint()
    qtbot.mouseClick(panel.heat, Qt.MouseButton.LeftButton, pos=cell)
    step = window.document.steps[window.document.step]
    assert step.rank == 3
    t0, t1 = window.timeline.visible_interval
    assert t0 < step.end
    assert step.start < t1
    assert "3" in str(panel.table.rows.value(panel.table.currentIndex().row(), "name"))
    trace = window.document.trace
    assert trace is not None
    places = window.timeline.state.evidence
    assert places
    assert {trace.lanes[place.lane].rank for place in places} == {3}
