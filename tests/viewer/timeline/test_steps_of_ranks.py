"""Steps of several ranks: the ruler, the keys and the selector speak of the rank in focus."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

import resources
from parsers.model import Device, EventKind, Lane, LaneKind, Rank, Trace
from parsers.model.builder import TraceBuilder
from rules.analysis.steps.steps import Step
from tests.viewer.conftest import wait_until_ready
from tests.viewer.timeline.mouse import LEFT, MS, NONE, x_of
from viewer.appearance.widgets import unbroken
from viewer.timeline.geometry.scale import Scale
from viewer.timeline.geometry.step_rows import StepRow, step_rows
from viewer.timeline.names_column import NAMES_WIDTH
from viewer.timeline.ruler import RULER_HEIGHT
from viewer.timeline.view import TimelineView
from viewer.window.main_window import MainWindow
from viewer.window.toolbar import MAX_RANKS_LISTED

STEPS = 4
STEPS_Y = RULER_HEIGHT + 10


def run_of(ranks: int) -> Trace:
    """Four steps of 10 ms on each rank; each rank starts 2 ms after the one before."""
    builder = TraceBuilder()
    for rank in range(ranks):
        builder.ranks.append(Rank(rank, ranks))
        device = builder.device(Device(rank, "GPU", rank=rank))
        own = {"rank": rank, "process": rank + 1}
        steps = builder.lane(Lane(LaneKind.STEPS, "Steps", **own))
        calls = builder.lane(Lane(LaneKind.CUDA_API, "CUDA calls", thread=1, **own))
        stream = builder.lane(Lane(LaneKind.GPU_STREAM, "stream 7", device=device, stream=7, **own))
        start = (np.arange(STEPS) * 10 + 2 * rank) * MS
        names = np.array([builder.string(f"ProfilerStep#{number}") for number in range(STEPS)])
        builder.add(start, start + 10 * MS, names, steps, EventKind.STEP)
        called = builder.add(
            start + MS, start + 2 * MS, builder.string("cudaLaunchKernel"), calls, EventKind.API
        )
        kernels = builder.add(
            start + 2 * MS, start + 9 * MS, builder.string("gemm"), stream, EventKind.KERNEL
        )
        builder.link(kernels, called)
    return builder.build()


@pytest.fixture
def shown(make_window: Callable[..., MainWindow], qtbot: QtBot) -> MainWindow:
    """A window on two ranks."""
    window = make_window()
    window.document.show(run_of(2))
    wait_until_ready(qtbot, window)
    window.timeline.fit_all()
    return window


def kernels_of(trace: Trace, rank: int) -> list[int]:
    lanes = [number for number, lane in enumerate(trace.lanes) if lane.rank == rank]
    return [
        event
        for event in trace.events.of_kind(EventKind.KERNEL).tolist()
        if trace.events.lane[event] in lanes
    ]


def followed(window: MainWindow) -> int | None:
    return window.timeline.state.step_row.rank


def test_selecting_an_event_shows_the_steps_of_its_rank(shown: MainWindow) -> None:
    trace = shown.document.trace
    assert trace is not None
    for rank in (1, 0):
        shown.timeline.select_event(kernels_of(trace, rank)[1])
        assert followed(shown) == rank
        assert {step.rank for _, step in shown.timeline.state.shown_steps} == {rank}


def test_the_keys_and_the_buttons_walk_through_the_steps_of_the_rank_in_focus(
    shown: MainWindow, qtbot: QtBot
) -> None:
    document = shown.document
    shown.timeline.state.follow(1)
    for expected in (0, 1, 2):
        qtbot.keyClick(shown.timeline, Qt.Key.Key_BracketRight)
        step = document.steps[document.step]
        assert (step.rank, step.name) == (1, f"ProfilerStep#{expected}")
    shown.timeline.state.follow(0)
    qtbot.mouseClick(shown.toolbar.steps.previous, Qt.MouseButton.LeftButton)
    step = document.steps[document.step]
    assert (step.rank, step.name) == (0, "ProfilerStep#1")


def test_a_click_fits_the_step_of_the_rank_in_focus_and_a_double_click_counts_from_it(
    shown: MainWindow,
) -> None:
    view = shown.timeline
    view.state.follow(1)
    place = QPoint(x_of(view, 21), STEPS_Y)
    QTest.mouseClick(view.ruler, LEFT, NONE, place)
    QTest.mouseDClick(view.ruler, LEFT, NONE, place)
    step = shown.document.steps[shown.document.step]
    assert (step.rank, step.name) == (1, "ProfilerStep#1")
    assert view.state.origin == step.start
    assert view.visible_interval[0] < step.start < step.end < view.visible_interval[1]
    QTest.mouseDClick(view.ruler, LEFT, NONE, QPoint(place.x(), 5))
    assert view.state.origin == 0


def test_the_menu_beside_the_steps_chooses_the_rank(shown: MainWindow) -> None:
    zero, one = shown.timeline.ruler.rank_menu().actions()
    assert [zero.isChecked(), one.isChecked()] == [True, False]
    one.trigger()
    assert followed(shown) == 1
    assert [action.isChecked() for action in shown.timeline.ruler.rank_menu().actions()] == [False, True]


def test_one_rank_has_no_menu(view: TimelineView) -> None:
    QTest.mousePress(view.ruler, LEFT, NONE, QPoint(NAMES_WIDTH // 2, STEPS_Y))  # a menu would block here
    assert len(view.ruler.rank_menu().actions()) == 1


def test_the_selector_groups_steps_by_rank(shown: MainWindow) -> None:
    box = shown.toolbar.steps.box
    texts = [box.itemText(row).partition("   ")[0] for row in range(box.count())]
    assert texts[:2] == ["All steps", ""]
    assert [text for text in texts if text.startswith("Rank 1")] == [
        f"Rank 1: {n + 1} of {STEPS}" for n in range(STEPS)
    ]
    box.setCurrentIndex(texts.index("Rank 1: 3 of 4"))
    box.activated.emit(box.currentIndex())
    step = shown.document.steps[shown.document.step]
    assert (step.rank, step.name) == (1, "ProfilerStep#2")
    assert followed(shown) == 1


def test_of_many_ranks_the_selector_lists_the_one_in_focus(
    make_window: Callable[..., MainWindow], qtbot: QtBot
) -> None:
    window = make_window()
    window.document.show(run_of(MAX_RANKS_LISTED + 1))
    wait_until_ready(qtbot, window)
    box = window.toolbar.steps.box
    for rank in (MAX_RANKS_LISTED, 3):
        window.timeline.state.follow(rank)
        listed = [box.itemText(row) for row in range(box.count()) if ":" in box.itemText(row)]
        assert len(listed) == STEPS
        assert all(text.startswith(f"Rank {rank}: ") for text in listed)


def test_ten_thousand_steps_cost_no_more_than_the_pixels() -> None:
    steps = [Step(f"step {n}", 0, n * 100, n * 100 + 100) for n in range(10_000)]
    row = step_rows(steps)[0]
    whole = list(row.visible(Scale(0, 1_000_000, 300)))
    assert 150 < len(whole) <= 300
    near = [index for index, _ in row.visible(Scale(1_250, 1_750, 300))]
    assert near == [12, 13, 14, 15, 16, 17]


def test_a_time_between_steps_belongs_to_none() -> None:
    row = StepRow(0, ((3, Step("a", 0, 10, 20)), (4, Step("b", 0, 30, 40))))
    assert [row.at(when) for when in (9, 10, 19.9, 20, 30, 40)] == [-1, 3, 3, -1, 4, -1]
    assert StepRow().at(0) == -1
    assert list(StepRow().visible(Scale(0, 1, 1))) == []


def test_the_first_view_of_a_run_with_a_late_rank_says_why_and_shows_that_rank(
    make_window: Callable[..., MainWindow], qtbot: QtBot
) -> None:
    window = make_window()
    window.open([resources.path("samples/straggler_four_ranks")])
    wait_until_ready(qtbot, window)
    diagnosis = window.document.diagnosis
    assert diagnosis is not None
    late = diagnosis.findings[0]
    assert late.rule == "late-rank"
    assert followed(window) == late.rank
    assert late.because.startswith(f"Rank {late.rank} ")
    assert window.verdict.where.text().startswith(unbroken(late.because))
    visible = {each.placed.track.device for each in window.timeline.canvas.shown()}
    assert late.device in visible


def test_a_rank_is_followed_before_its_steps_are_known(shown: MainWindow) -> None:
    view, scene = shown.timeline, shown.timeline.state.scene
    assert scene is not None
    scene.set_analysis(None)
    view.reveal_device(1)
    assert view.state.shown_steps == ()
    view.set_analysis(shown.document.analysis)
    assert followed(shown) == 1
    view.state.follow(7)
    assert followed(shown) == 1
