"""Rows that are kept while the view moves look exactly like rows that are painted anew."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot

from parsers.model import U32, Device, EventKind, EventTable, Lane, LaneKind, Trace
from rules.analysis.analysis import Analysis
from rules.analysis.idle.causes import IdleTable
from rules.analysis.steps.analysed_time import AnalysedTime
from rules.terms import Culprit, CulpritKind
from tests.examples import examples, one_of
from viewer.timeline.canvas import LaneCanvas
from viewer.timeline.frame import FramePainter, Options
from viewer.timeline.geometry.columns import Columns, Grid, columns, grid
from viewer.timeline.geometry.row_index import Row, row_index
from viewer.timeline.geometry.scale import Scale
from viewer.timeline.geometry.strips import FIRST_FRAMES, TURNS, Strip, Strips
from viewer.timeline.view import TimelineView

RUN_NS = 40_000_000
GAPS = 300


def random_row(count: int, seed: int, uneven: bool = False) -> Row:
    """Events and pauses of random length; ``uneven``: half of them in a hundredth of the time."""
    random = np.random.default_rng(seed)
    steps = random.integers(0, 200, 2 * count)
    if uneven:
        steps[: count // 2] *= 100
    edges = np.cumsum(steps) + random.integers(0, 1000)
    return row_index(edges[0::2], edges[1::2], random.integers(0, 5, count).astype(np.int32))


def assert_same(one: Columns | None, other: Columns | None) -> None:
    if one is None or other is None:
        assert all(each is None or (each.event < 0).all() for each in (one, other))
    else:
        for name in ("coverage", "event", "wide", "left", "right"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@examples(120)
@given(
    st.sampled_from((3, 40, 700, 3000, 40_000)),
    st.integers(0, 10**6),
    st.booleans(),
    st.one_of(
        st.tuples(st.floats(-0.1, 1.0), st.floats(1e-5, 1.2)),
        st.tuples(st.floats(0.985, 0.995), st.floats(1e-4, 0.02)),  # where uneven rows are crowded
    ),
    st.integers(0, 150),
    st.integers(0, 150),
)
@example(
    3000, 1, False, (1.0, 1.0), 1, 0
)  # a clock puts the last event, just before this view, into its first column
def test_a_column_shows_the_same_whatever_else_is_in_view(
    count: int, seed: int, uneven: bool, place: tuple[float, float], before: int, after: int
) -> None:
    at, share = place
    row = random_row(count, seed, uneven)
    whole = float(row.end[-1]) + 1
    view = grid(Scale(at * whole, (at + share) * whole + 40, 120))
    wider = Strip.of(row, view, view.first - before, view.first + view.width + after)
    assert_same(wider.shown(view), Strip.of(row, view, view.first, view.first + view.width).shown(view))


def test_a_crowd_beside_it_does_not_change_what_a_column_shows() -> None:
    random = np.random.default_rng(0)
    crowd = np.sort(random.integers(0, 60_000, 2 * 6_000))
    quiet = 60_000 + np.sort(random.integers(0, 60_000, 2 * 300))
    far = 10**9 + np.arange(2 * 200)
    edges = np.concatenate((crowd, quiet, far))
    row = row_index(edges[0::2], edges[1::2], np.zeros(len(edges) // 2, np.int32))
    view = grid(Scale(60_000.0, 120_000.0, 60))
    assert row.clock is not None
    assert row.clock.cell > view.step
    alone = Strip.of(row, view, view.first, view.first + view.width)
    beside_it = Strip.of(row, view, view.first - 60, view.first + view.width)
    assert_same(beside_it.shown(view), alone.shown(view))


@examples(40)
@given(
    st.sampled_from((5, 700, 5000)),
    st.integers(0, 10**6),
    st.floats(1e-4, 1.0),
    st.lists(st.integers(-90, 90), max_size=25),
)
def test_what_grew_while_the_view_moved_is_what_would_be_found_anew(
    count: int, seed: int, share: float, moves: list[int]
) -> None:
    row = random_row(count, seed)
    whole = float(row.end[-1]) + 1
    view = grid(Scale(0.3 * whole, (0.3 + share) * whole + 40, 120))
    strips = Strips()
    for by in [0, *moves]:
        view = view.part(view.first + by, view.first + by + view.width)
        strips.begin(view)
        kept = strips.strip("row", row, view)
        anew = Strip.of(row, view, kept.first, kept.last)
        assert_same(kept.columns, anew.columns)
        assert_same(kept.shown(view), anew.shown(view))


def test_only_what_comes_into_view_is_worked_out(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(row: Row, view: Grid) -> Columns | None:
        asked.append(view.width)
        return columns(row, view)

    monkeypatch.setattr("viewer.timeline.geometry.strips.columns", counted)
    row, strips = random_row(5000, 1), Strips()
    view = grid(Scale(100_000.0, 200_000.0, 1000))
    for _ in range(60):
        view = view.part(view.first + 5, view.first + 5 + view.width)
        strips.begin(view)
        strips.strip("row", row, view)
    assert sum(asked) < 2000
    strips.begin(grid(Scale(100_000.0, 200_001.0, 1000)))
    asked.clear()
    strips.strip("row", row, grid(Scale(100_000.0, 200_001.0, 1000)))
    assert asked == [1016]


def test_while_nothing_moves_rows_are_prepared_for_a_movement(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, strips = [random_row(5000, seed) for seed in range(5)], Strips()
    view = grid(Scale(100_000.0, 200_000.0, 1000))
    strips.begin(view)
    for number, row in enumerate(rows):
        strips.strip(number, row, view)
    strips.begin(view.part(10**6, 10**6 + view.width))
    assert not strips.look_ahead(2)
    strips.begin(view)
    strips.begin(view)
    assert [strips.look_ahead(2) for _ in range(4)] == [True, True, False, False]
    with monkeypatch.context() as nothing:
        nothing.setattr("viewer.timeline.geometry.strips.columns", None)  # nothing is worked out any more
        for by in (-200, 200):
            moved = view.part(view.first + by, view.first + by + view.width)
            for number, row in enumerate(rows):
                kept = strips.strip(number, row, moved)
                assert kept.first < moved.first < moved.first + moved.width < kept.last


def zoomed(factor: float) -> Grid:
    """1000 columns around one moment."""
    return grid(Scale(150_000.0 - 50_000 * factor, 150_000.0 + 50_000 * factor, 1000))


@pytest.mark.parametrize("by", [-0.005, 0.005])
def test_while_zooming_every_row_takes_its_turn_to_be_exact(by: float) -> None:
    rows, strips = [random_row(5000, seed) for seed in range(2 * TURNS)], Strips()
    rough: list[set[int]] = []
    for number in range(1 + FIRST_FRAMES + TURNS):
        view = zoomed(1.0 + by * number)
        strips.begin(view, hurried=True)
        made = [strips.strip(number, row, view) for number, row in enumerate(rows)]
        rough.append({number for number, strip in enumerate(made) if strip.rough})
        assert strips.is_rough is bool(rough[-1])
        for row, strip in zip(rows, made, strict=True):
            if not strip.rough:
                assert_same(strip.shown(view), Strip.of(row, view, strip.first, strip.last).shown(view))
        strips.look_ahead(len(rows))  # while nothing has moved yet
    assert rough[0] == set()
    assert [len(each) for each in rough[1:]] == FIRST_FRAMES * [2 * TURNS] + TURNS * [2 * TURNS - 2]
    assert not set.intersection(*rough[1 + FIRST_FRAMES :])
    strips.begin(view)
    assert not strips.is_rough
    for number, row in enumerate(rows):
        kept = strips.strip(number, row, view)
        assert_same(kept.shown(view), Strip.of(row, view, kept.first, kept.last).shown(view))


@pytest.mark.parametrize(("by", "each"), [(0.97, 5), (0.94, 10), (1.03, 8), (1.06, 14)])
def test_the_faster_a_zoom_the_more_rows_take_their_turn_in_a_frame(by: float, each: int) -> None:
    rows, strips = [random_row(5000, seed) for seed in range(40)], Strips()
    made: list[int] = []
    for number in range(20):
        view = zoomed(by**number)
        strips.begin(view, hurried=True)
        made.append(sum(not strips.strip(name, row, view).rough for name, row in enumerate(rows)))
        strips.look_ahead(len(rows))  # before the zoom begins
    assert made == [40] + 19 * [each]  # and never many at once, because none went too far from its zoom


@pytest.mark.parametrize(("by", "spared"), [(0.982, 2), (0.981, 0), (1.01, 2), (1.012, 0)])
def test_a_slow_zoom_begins_with_the_rows_as_they_were(by: float, spared: int) -> None:
    rows, strips = [random_row(5000, seed) for seed in range(40)], Strips()
    made: list[int] = []
    for number in range(40):
        view = zoomed(by**number)
        strips.begin(view, hurried=True)
        made.append(sum(not strips.strip(name, row, view).rough for name, row in enumerate(rows)))
        strips.look_ahead(len(rows))
    later = made[1 + spared :]
    assert made[: 1 + spared] == [40] + spared * [0]
    assert later == len(later) * later[:1]
    assert later[0] > 0


def test_rows_are_prepared_with_what_they_look_like() -> None:
    row, strips, view = random_row(5000, 1), Strips(), zoomed(1.0)
    asked: list[int] = []

    def make(columns: Columns) -> U32:
        asked.append(len(columns.event))
        return np.arange(len(columns.event), dtype=np.uint32)

    for _ in range(2):
        strips.begin(view)
        strips.strip("row", row, view).look(make, view)
        strips.look_ahead(1)
    assert len(asked) == 2
    strips.begin(zoomed(0.9), hurried=True)
    strips.strip("row", row, view).look(make, view)
    assert len(asked) == 3  # the row whose turn it is


@examples(60)
@given(st.sampled_from((40, 700, 5000)), st.integers(0, 10**6), st.floats(0.9, 0.999))
def test_a_stretched_row_shows_what_is_a_column_away_at_most(count: int, seed: int, factor: float) -> None:
    row = random_row(count, seed)
    strips, before, view = Strips(), zoomed(1.0), zoomed(factor)
    strips.begin(before, hurried=True)
    strips.strip("first", row, before)
    strips.strip("second", row, before)
    strips.begin(view, hurried=True)
    rough = [strips.strip(name, row, view) for name in ("first", "second")]
    strip = next(each for each in rough if each.rough)
    seen = strip.shown(view)
    if seen is None:
        return
    for column in np.flatnonzero(seen.event >= 0).tolist():
        start, end = row.start[seen.event[column]], row.end[seen.event[column]]
        assert start < view.times[column + 1] + before.step
        assert end > view.times[column] - before.step
    exact = columns(row, view)
    assert exact is not None
    _, here, there = np.intersect1d(seen.wide, exact.wide, return_indices=True)
    np.testing.assert_array_equal(seen.left[here], exact.left[there])
    np.testing.assert_array_equal(seen.right[here], exact.right[there])


def test_rest_after_a_zoom_is_painted_exactly(busy_view: TimelineView, qtbot: QtBot) -> None:
    state, canvas = busy_view.state, busy_view.canvas
    span = RUN_NS / 4
    for number in range(6):
        state.look_at(Scale(RUN_NS / 3, RUN_NS / 3 + span * 0.97**number, 1), animate=False, remember=False)
        canvas.repaint()
    assert canvas.is_rough
    qtbot.waitUntil(lambda: not canvas.is_rough)
    assert canvas.picture() == painted(canvas, FramePainter(), canvas.devicePixelRatioF())


def test_the_names_are_painted_again_when_they_change_and_not_while_one_zooms(
    busy_view: TimelineView, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, canvas = busy_view.state, busy_view.canvas
    state.look_at(Scale(0.0, RUN_NS / 4, 1), animate=False)
    qtbot.waitUntil(lambda: not canvas.is_rough)
    painted_names: list[str] = []
    names = canvas._names_picture

    def counted(*arguments: Any) -> QImage:
        painted_names.append(canvas.hovered)
        return names(*arguments)

    monkeypatch.setattr(canvas, "_names_picture", counted)
    state.look_at(Scale(0.0, RUN_NS / 5, 1), animate=False)
    qtbot.waitUntil(lambda: not canvas.is_rough)
    assert painted_names == []
    canvas.hovered = state.layout.scrolled[0].track.key
    canvas.update()
    qtbot.waitUntil(lambda: painted_names == [canvas.hovered])


def busy_run(seed: int = 3) -> Trace:
    """Two streams and two threads with nested operators, wide events and thousands of narrow ones."""
    random = np.random.default_rng(seed)
    lanes = (
        Lane(LaneKind.CPU_THREAD, "thread 1", process=1, thread=1),
        Lane(LaneKind.CUDA_API, "thread 1", process=1, thread=1),
        Lane(LaneKind.GPU_STREAM, "stream 0", device=0, stream=0),
        Lane(LaneKind.GPU_STREAM, "stream 1", device=0, stream=1),
    )
    kinds = (EventKind.CPU_OP, EventKind.API, EventKind.KERNEL, EventKind.KERNEL)
    parts = []
    for lane, (kind, counts) in enumerate(zip(kinds, ((60, 900), (300,), (4000,), (80,)), strict=True)):
        for depth, count in enumerate(counts):
            steps = random.exponential(1.0, 2 * count) * np.where(random.random(2 * count) < 0.02, 30, 1)
            edges = np.cumsum(steps)
            edges = (edges * (RUN_NS / edges[-1])).astype(np.int64)
            start, end = edges[0::2], np.maximum(edges[1::2], edges[0::2] + 1)
            end[:-1] = np.minimum(end[:-1], start[1:])
            name = random.integers(0, 9, count).astype(np.int32)
            at = (np.full(count, lane, np.int32), np.full(count, depth, np.int32))
            parts.append((start, end, name, *at, np.full(count, kind, np.uint8)))
    columns_ = [np.concatenate(each) for each in zip(*parts, strict=True)]
    table = EventTable(*columns_, np.full(len(columns_[0]), -1, np.int64))
    return Trace(tuple(f"aten::operation_{n}" for n in range(9)), table, lanes, (Device(0, "GPU"),))


def with_gaps(trace: Trace) -> Analysis:
    random = np.random.default_rng(5)
    edges = np.sort(random.integers(0, RUN_NS, 2 * GAPS))
    none = np.full(GAPS, -1, np.int64)
    zero = np.zeros(GAPS, np.int32)
    cause = random.integers(0, 7, GAPS).astype(np.uint8)
    blamed = Culprit(CulpritKind.REGION, "tokenize")
    idle = IdleTable(edges[0::2], edges[1::2], np.zeros(GAPS, np.int64), cause, zero, none, none, (blamed,))
    analysis = Analysis(trace)
    Analysis.idle.keep(analysis, idle)
    Analysis.steps.keep(analysis, ())
    Analysis.analysed.keep(analysis, AnalysedTime(0, RUN_NS))
    return analysis


@pytest.fixture
def busy_view(view: TimelineView) -> TimelineView:
    trace = busy_run()
    view.set_trace(trace)
    view.set_analysis(with_gaps(trace))
    return view


def painted(canvas: LaneCanvas, painter: FramePainter, ratio: float) -> QImage:
    scene = canvas.state.scene
    assert scene is not None
    options = Options(canvas.state.origin, canvas.state.gaps_visible)
    arguments = (scene, canvas.state.scale, canvas.shown(), canvas.pinned(), canvas.height(), ratio, options)
    return painter.paint(*arguments).copy()


@pytest.mark.parametrize(("ratio", "seed"), one_of(9, itertools.product((1.5, 1.0, 2.0), range(3))))
def test_a_frame_of_a_moving_view_equals_a_frame_painted_anew(
    busy_view: TimelineView, ratio: float, seed: int
) -> None:
    view, state, random = busy_view, busy_view.state, np.random.default_rng(seed)
    moving = FramePainter()

    def fold(number: int) -> None:
        placed = state.layout.scrolled
        view.lane_commands.toggle(placed[number % len(placed)])

    def jump() -> None:
        start, span = random.uniform(0, 0.7) * RUN_NS, 10 ** random.uniform(-4, -0.3) * RUN_NS
        state.look_at(Scale(start, start + span, 1), animate=False)

    def pan() -> None:
        state.pan(int(random.integers(-120, 120)))

    actions: list[Callable[[], None]] = [
        *[pan] * 12,
        jump,
        lambda: view.canvas.scroll_to(int(random.integers(0, 60))),
        lambda: view.set_gaps_visible(bool(random.integers(0, 2))),
        lambda: view.state.set_compact(bool(random.integers(0, 2))),
        lambda: fold(int(random.integers(0, 9))),
        lambda: view.set_colour_mode(str(random.choice(["family", "name", "duration"]))),
    ]
    shown = set()
    for number in range(60):
        actions[0 if number % 20 else 12]()
        actions[int(random.integers(0, len(actions)))]()
        moving.look_ahead(int(random.integers(0, 3)))
        image = painted(view.canvas, moving, ratio)
        assert image == painted(view.canvas, FramePainter(), ratio), f"frame {number}"
        shown.add(hash(bytes(image.constBits())))
    assert len(shown) > 20
