"""What fills a GPU's memory is drawn without losing a peak, and the table adds up to the drawing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QImage, QPainter
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from parsers import open_trace
from parsers.model import Trace
from parsers.model.units import size
from rules.analysis.analysis import Analysis
from rules.memory.account import DeviceMemory
from rules.memory.kinds import Kind
from rules.memory.summary import MemorySummary, memory_of, reserved_of
from viewer.appearance.painted_chart import TextCache, painting
from viewer.appearance.widgets import ElidedLabel
from viewer.panels.tabs.allocations import GROUPS, AllocationsPanel
from viewer.statistics.memory import Grouping, rows_at, segments_of
from viewer.timeline.geometry.scale import Scale
from viewer.timeline.memory.painting import MemoryLabels
from viewer.timeline.memory.stack import BLOCK, FROM_BELOW, MemoryStack, Peaks
from viewer.timeline.names_column import NAMES_WIDTH, beside_title
from viewer.timeline.pixels import Shown
from viewer.window.main_window import MainWindow

from .conftest import show_tab, wait_until_ready

FOLDER = Path(__file__).parents[1] / "fixtures" / "memory"


@pytest.fixture(scope="session")
def growing() -> Trace:
    """A loop that keeps what it makes."""
    return open_trace([FOLDER / "growing.snapshot.pickle.gz"])


@pytest.fixture(scope="session")
def summary(growing: Trace) -> MemorySummary:
    (found,) = memory_of(Analysis(growing))
    return found


@pytest.fixture(scope="session")
def account(summary: MemorySummary) -> DeviceMemory:
    assert summary.account is not None
    return summary.account


@pytest.mark.parametrize("columns", [1, 7, 1900, 100_000])
def test_no_peak_is_lost_however_few_columns_there_are(
    growing: Trace, account: DeviceMemory, columns: int
) -> None:
    stack = MemoryStack.of(account, reserved_of(growing, 0))
    shown = stack.columns(Scale(0.0, float(growing.duration), columns))
    assert int(shown.held.sum(axis=0).max()) == account.peak
    assert shown.reserved is not None
    assert np.all(shown.reserved >= shown.held.sum(axis=0))
    assert set(FROM_BELOW) == set(Kind)


def test_the_floor_of_the_overview_rises_with_every_step_that_keeps_something(
    growing: Trace, summary: MemorySummary, account: DeviceMemory
) -> None:
    stack = MemoryStack.of(account, None)
    floor = stack.floor(Scale(0.0, float(growing.duration), 1900))
    assert np.all(np.diff(floor) >= 0)
    assert floor[-1] == account.held[-1]
    ends = summary.growth.ends
    at = [int(end * 1900 / growing.duration) for end in ends[:-1]]
    assert np.diff(floor[at]) == pytest.approx(summary.growth.per_step, rel=0.1)


@pytest.mark.parametrize("longest", [1, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK])
@pytest.mark.parametrize("most", [3, 1 << 50])
def test_the_last_of_the_largest_levels_is_found_in_stretches_of_any_length(longest: int, most: int) -> None:
    random = np.random.default_rng(longest)
    levels = random.integers(0, most, 4000)
    edges = np.cumsum(np.append(0, random.integers(1, longest + 1, 2000)))
    edges = np.append(edges[edges < len(levels)], len(levels))
    found = Peaks.of(levels).last_largest(edges[:-1], edges[1:])
    for first, until, place in zip(edges[:-1], edges[1:], found, strict=True):
        inside = levels[first:until]
        assert place == first + np.flatnonzero(inside == inside.max())[-1]


def test_zoomed_in_each_column_shows_its_fullest_moment(growing: Trace, account: DeviceMemory) -> None:
    stack = MemoryStack.of(account, None)
    start = float(growing.duration) / 3
    shown = stack.columns(Scale(start, start + 2e6, 500))
    edges = np.ceil(start + np.arange(501) * 4000).astype(np.int64)
    for column in range(0, 500, 50):
        inside = account.held[np.searchsorted(account.time, edges[column]) :][
            : int(
                np.searchsorted(account.time, edges[column + 1])
                - np.searchsorted(account.time, edges[column])
            )
        ]
        expected = max([account.at(int(edges[column])), *inside.tolist()])
        assert int(shown.held[:, column].sum()) == expected


@pytest.mark.parametrize("grouping", list(Grouping))
def test_the_rows_of_a_moment_add_up_to_what_was_held(
    growing: Trace, summary: MemorySummary, account: DeviceMemory, grouping: Grouping
) -> None:
    for when in (account.peak_at, int(account.time[len(account.time) // 2])):
        rows = rows_at(growing, summary, when, grouping)
        assert sum(row.size for row in rows) == account.at(when)
        assert sum(row.blocks for row in rows) == int(account.alive(when).sum())
        assert [row.size for row in rows] == sorted((row.size for row in rows), reverse=True)
        members = np.concatenate([row.members for row in rows])
        assert int(account.memory.allocations.size[members].sum()) == account.at(when)


def test_rows_are_named_by_the_program_its_modules_and_its_steps(
    growing: Trace, summary: MemorySummary, account: DeviceMemory
) -> None:
    said = {
        grouping: [(row.what, row.where) for row in rows_at(growing, summary, account.peak_at, grouping)]
        for grouping in Grouping
    }
    assert not any("torch/" in where for _, where in said[Grouping.LINE])
    assert ("step", "real_mem.py line 15") in said[Grouping.LINE]
    assert any(where.startswith("modeling_gpt2.py") for _, where in said[Grouping.MODULE])
    assert {"in step 3", "in step 4"} <= {what for what, _ in said[Grouping.AGE]}


def test_segments_hold_all_that_is_reserved_and_their_blocks_what_is_held(account: DeviceMemory) -> None:
    segments = segments_of(account)
    assert segments is not None
    assert int(segments.size.sum()) == 3_376_414_720
    assert int(segments.used.sum()) == account.at(int(account.time[-1]))
    assert segments.holes == int(segments.piece_size[segments.piece_kind < 0].sum())
    assert np.all(np.diff(segments.size) <= 0)


def test_the_lane_and_both_tabs_tell_one_peak_where_two_records_differ(
    make_window: Callable[..., MainWindow], growing: Trace, account: DeviceMemory, qtbot: QtBot
) -> None:
    counted = tuple(replace(each, value=each.value * 1.01) for each in growing.counters)
    window = make_window(shows=replace(growing, counters=counted))
    wait_until_ready(qtbot, window)
    state = window.timeline.state
    (placed,) = (each for each in state.layout.scrolled if each.track.stacked)
    said = [beside_title(state.scene, Shown(placed, 0), None)]
    for title in ("Memory", "Allocations"):
        show_tab(window, qtbot, title)
        panel = window.panels.tabs.currentWidget()
        assert panel is not None
        said += [each.text() for each in panel.findChildren(ElidedLabel) if "peak" in each.text()]
    told = [each for each in said if "eserved" not in each]
    assert len(told) == 3
    assert all(size(account.peak) in each for each in told), told


def test_no_name_of_a_kind_lies_under_the_label_of_the_highest_moment(
    growing: Trace, account: DeviceMemory, monkeypatch: pytest.MonkeyPatch, qapp: object
) -> None:
    drawn: list[tuple[str, QRectF]] = []

    def note(cache: TextCache, _: QPainter, text: str, x: float, y: float, __: float) -> None:
        drawn.append((text, QRectF(x, y, cache.width(text), cache.height)))

    stack, labels = MemoryStack.of(account, reserved_of(growing, 0)), MemoryLabels()
    monkeypatch.setattr(TextCache, "draw", note)
    named, covered = 0, []
    for share in range(20):
        begin = growing.duration * share / 20
        for part in (1, 30, 900):
            drawn.clear()
            picture = QImage(900, 220, QImage.Format.Format_RGB32)
            with painting(picture) as painter:
                scale = Scale(begin, begin + growing.duration / 20 / part, 900)
                labels.draw(painter, stack, stack.columns(scale), scale, QRectF(0, 0, 900, 220))
            *names, (_, highest) = drawn
            named += len(names)
            covered += [(share, part, text) for text, box in names if box.intersects(highest)]
    assert covered == []
    assert named > 60


def test_the_tab_shows_the_peak_first_and_any_moment_that_is_clicked(
    empty_window: MainWindow, qtbot: QtBot
) -> None:
    empty_window.open([FOLDER / "growing.snapshot.pickle.gz"])
    wait_until_ready(qtbot, empty_window)
    show_tab(empty_window, qtbot, "Allocations")
    panel = empty_window.panels.tabs.currentWidget()
    assert isinstance(panel, AllocationsPanel)
    assert panel.summary is not None
    account = panel.summary.account
    assert account is not None
    assert int(panel.table.rows.frame["size"].sum()) == account.peak

    timeline = empty_window.timeline
    (placed,) = (each for each in timeline.state.layout.scrolled if each.track.stacked)
    x = timeline.state.scale.x(account.peaks()[1])
    at = QPointF(NAMES_WIDTH + x, timeline.canvas.top_of(placed) + placed.height - 6)
    QTest.mouseClick(timeline.canvas, Qt.MouseButton.LeftButton, pos=at.toPoint())
    wait_until_ready(qtbot, empty_window)
    moment = empty_window.document.selection.moment
    assert moment is not None
    assert moment.kind == Kind.PARAMETERS.value
    held = account.at(moment.when)
    qtbot.waitUntil(lambda: int(panel.table.rows.frame["size"].sum()) == held)
    assert panel.bars is not None
    panel.bars.resize(400, 200)
    assert not panel.bars.grab().isNull()

    for name in GROUPS:
        panel._button(name).click()
        wait_until_ready(qtbot, empty_window)
        assert int(panel.table.rows.frame["size"].sum()) == held
    visited = []
    empty_window.document.selection.moment_changed.connect(lambda moment: visited.append(moment.when))
    for focused in (timeline, panel.table):
        focused.setFocus()
        QTest.keyClick(focused, Qt.Key.Key_P)
        qtbot.waitUntil(lambda: int(panel.table.rows.frame["size"].sum()) == account.peak)
        QTest.keyClick(focused, Qt.Key.Key_P, Qt.KeyboardModifier.ShiftModifier)
    assert visited == 2 * [account.peak_at, account.peaks()[0]]


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
