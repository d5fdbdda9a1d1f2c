"""GPU API calls inside of the operators that make them, and the rows that say when each GPU works."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from parsers.model import Device, EventKind, Lane, LaneKind, Trace
from parsers.model.builder import TraceBuilder
from rules.analysis.analysis import Analysis
from viewer.timeline.geometry.drawing_index import build_index
from viewer.timeline.view import TimelineView

from .mouse import LEFT, NONE, SHIFT, at, track_y, x_of
from .test_layout import several_ranks


def titles(view: TimelineView) -> list[str]:
    return [each.track.title for each in view.state.layout.scrolled]


def calls_of(trace: Trace) -> list[int]:
    return trace.events.of_kind(EventKind.API).tolist()


def test_a_call_lies_one_level_below_the_innermost_operator_around_it() -> None:
    builder = TraceBuilder()
    operators = builder.lane(Lane(LaneKind.CPU_THREAD, "Main", process=1, thread=1))
    calls = builder.lane(Lane(LaneKind.CUDA_API, "Main calls", process=1, thread=1))
    elsewhere = builder.lane(Lane(LaneKind.CUDA_API, "Other calls", process=1, thread=2))
    starts, ends = np.array([0, 10, 20, 200]), np.array([100, 90, 30, 300])
    builder.add(starts, ends, builder.string("aten::op"), operators, EventKind.CPU_OP)
    # in three operators, in two, in one, in none, over the end of one
    at_ns = np.array([22, 40, 95, 150, 299])
    builder.add(at_ns, at_ns + 5, builder.string("cudaLaunchKernel"), calls, EventKind.API)
    builder.add(at_ns, at_ns + 5, builder.string("cudaLaunchKernel"), elsewhere, EventKind.API)
    trace = builder.build()
    nested = build_index(trace).calls
    assert set(nested) == {operators}
    assert nested[operators].level.tolist() == [3, 2, 1, 0, 1]
    for depth, found in nested[operators].rows.items():
        assert (found.row.start[1:] >= found.row.end[:-1]).all()
        assert {int(trace.events.lane[event]) for event in found.events} <= {operators, calls}
        assert depth in (0, 1, 2, 3)


def test_calls_start_inside_of_their_operators_and_a_key_parts_them(
    view: TimelineView, small_run: Trace
) -> None:
    assert "CUDA API" not in titles(view)
    thread = next(each for each in view.state.layout.scrolled if each.track.title == "Main thread")
    assert len(thread.rows) == 3  # linear, addmm, and the calls of addmm
    view.set_calls_inside(False)
    assert "CUDA API" in titles(view)
    assert len(next(e for e in view.state.layout.scrolled if e.track.title == "Main thread").rows) == 2


def test_a_click_on_a_call_inside_of_an_operator_selects_it(view: TimelineView, small_run: Trace) -> None:
    thread = next(each for each in view.state.layout.scrolled if each.track.title == "Main thread")
    row = thread.rows[2]
    y = view.canvas.top_of(thread) + row.top + row.height // 2
    place = at(view, 6.25, "Main thread")
    place.setY(y)
    QTest.mouseClick(view.canvas, LEFT, NONE, place)
    assert view.state.selected == calls_of(small_run)[0]
    QTest.mouseClick(view.canvas, LEFT, NONE, at(view, 6.25, "Main thread"))
    assert small_run.name(view.state.selected) == "aten::linear"


def test_a_launch_that_is_shown_unfolds_the_operators_it_lies_in(
    view: TimelineView, small_run: Trace
) -> None:
    thread = next(each for each in view.state.layout.scrolled if each.track.title == "Main thread")
    view.lane_commands.toggle(thread)
    view.select_event(calls_of(small_run)[2])
    shown = view.state.layout.of_lane(int(small_run.events.lane[calls_of(small_run)[2]]))
    assert shown is not None
    assert shown.track.title == "Main thread"
    assert not shown.collapsed
    assert len(shown.rows) == 3


def test_shift_down_goes_from_operators_over_calls_to_kernels(view: TimelineView, small_run: Trace) -> None:
    operator = int(small_run.events.of_kind(EventKind.CPU_OP)[0])
    view.select_event(operator)
    kinds = []
    for _ in range(4):
        QTest.keyClick(view, Qt.Key.Key_Down, SHIFT)
        kinds.append(EventKind(int(small_run.events.kind[view.state.selected])))
    assert kinds[1:3] == [EventKind.API, EventKind.KERNEL]


def test_each_gpu_has_a_row_on_top_whose_gaps_can_be_clicked(view: TimelineView) -> None:
    assert titles(view)[0] == "GPU 0"
    place = at(view, 3, "GPU 0")
    QTest.mouseClick(view.canvas, LEFT, NONE, place)
    idle = view.state.scene.idle  # type: ignore[union-attr]
    assert idle is not None
    assert view.state.gap >= 0
    assert int(idle.start[view.state.gap]) <= 3_000_000 < int(idle.end[view.state.gap])
    image = view.canvas.grab().toImage()
    ratio = image.devicePixelRatio()
    y = track_y(view, "GPU 0")
    busy, idle_there = (image.pixelColor(round(x_of(view, ms) * ratio), round(y * ratio)) for ms in (6.7, 3))
    assert busy != idle_there


def test_ranks_that_are_one_strip_have_no_second_one(qtbot: QtBot) -> None:
    view = TimelineView()
    qtbot.addWidget(view)
    view.resize(1000, 500)
    view.show()
    view.set_trace(several_ranks(6))
    assert not [title for title in titles(view) if "· GPU" in title]
    view.lane_commands.toggle(view.state.layout.scrolled[2])
    assert titles(view)[0] == "Rank 2 · GPU 2"


def test_the_first_view_shows_the_lane_of_the_gpu_where_threads_are_deep(qtbot: QtBot) -> None:
    builder = TraceBuilder()
    gpu = builder.device(Device(0, "GPU"))
    for thread in (1, 2):
        lane = builder.lane(Lane(LaneKind.CPU_THREAD, f"Thread {thread}", process=1, thread=thread))
        depth = np.arange(8, dtype=np.int64) * 10
        operators = builder.add(depth, 1000 - depth, builder.string("op"), lane, EventKind.CPU_OP)
        stream = builder.lane(Lane(LaneKind.GPU_STREAM, "stream 7", process=1, device=gpu, stream=7))
        kernel = builder.add(
            depth[:1] + 500 * thread,
            depth[:1] + 500 * thread + 100,
            builder.string("gemm"),
            stream,
            EventKind.KERNEL,
        )
        builder.link(kernel, operators[:1])
    trace = builder.build()
    view = TimelineView()
    qtbot.addWidget(view)
    view.resize(900, 350)
    view.show()
    view.set_trace(trace)
    view.set_analysis(Analysis(trace))
    stream = next(each for each in view.state.layout.scrolled if each.track.first_of_device)
    assert stream.bottom <= view.canvas.room
    threads = [each for each in view.state.layout.scrolled if each.track.kind is LaneKind.CPU_THREAD]
    assert [len(each.rows) for each in threads] != [8, 8]
    assert all(each.hidden_levels == 8 - len(each.rows) for each in threads)
