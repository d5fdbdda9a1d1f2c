"""Picking, names, pixels, counters and stretches of small gaps."""

from __future__ import annotations

import numpy as np
import pytest

from parsers.model import Counter, Trace
from parsers.model.names.kernels import distinct_names, kernel_name
from viewer.appearance.naming import python_name
from viewer.timeline.geometry.columns import Columns, columns, counter_columns, grid
from viewer.timeline.geometry.gaps import dense_stretches, hatching
from viewer.timeline.geometry.raster import (
    LEVELS,
    GapColors,
    GapPlaces,
    blended,
    density_table,
    gap_colors,
    gap_places,
    gap_tiles,
    paint_curve,
    paint_gaps,
    paint_row,
)
from viewer.timeline.geometry.row_index import count_in, event_at, neighbour, row_index
from viewer.timeline.geometry.scale import Scale
from viewer.timeline.kinds.base import counter_style_of, shown_value

GROUND = 0xFF000000
RED = np.array([0xFFFF0000], np.uint32)


def lane_of(trace: Trace, name: str) -> int:
    return next(index for index, lane in enumerate(trace.lanes) if lane.name == name)


def test_the_event_under_a_time_is_found_and_near_misses_within_the_tolerance(small_run: Trace) -> None:
    lane = lane_of(small_run, "GPU 0 stream 7")
    first = small_run.events.lane_slice(lane).start
    inside = float(small_run.events.start[first] + 10)
    assert event_at(small_run.events, lane, 0, inside, 0) == first
    before = float(small_run.events.start[first] - 1000)
    assert event_at(small_run.events, lane, 0, before, 0) == -1
    assert event_at(small_run.events, lane, 0, before, 1001) == first
    assert event_at(small_run.events, lane, 5, inside, 0) == -1


def test_neighbours_stay_on_their_row(small_run: Trace) -> None:
    lane = lane_of(small_run, "GPU 0 stream 7")
    part = small_run.events.lane_slice(lane)
    assert neighbour(small_run.events, part.start, 1) == part.start + 1
    assert neighbour(small_run.events, part.start, -1) == part.start
    assert neighbour(small_run.events, part.stop - 1, 1) == part.stop - 1


def test_an_area_counts_the_events_that_touch_it(small_run: Trace) -> None:
    lane = lane_of(small_run, "GPU 0 stream 7")
    first = small_run.events.lane_slice(lane).start
    start, end = int(small_run.events.start[first]), int(small_run.events.end[first])
    assert count_in(small_run.events, [lane], start, end) == 1
    assert count_in(small_run.events, [lane], 0, small_run.duration) == 12
    assert count_in(small_run.events, range(len(small_run.lanes)), 0, small_run.duration) == len(
        small_run.events
    )


@pytest.mark.parametrize(
    ("full", "short"),
    [
        ("void gemm_kernel<float, (int)4>(int, float*)", "gemm_kernel"),
        ("ncclDevKernel_AllReduce_Sum_f32(ncclDevComm*)", "ncclDevKernel_AllReduce_Sum_f32"),
        ("sm90_xmma_gemm_bf16_tn", "sm90_xmma_gemm_bf16_tn"),
        ("Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD (Pinned -> Device)"),
        ("[CUDA memcpy Host-to-Device]", "[CUDA memcpy Host-to-Device]"),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*>>(int)",
            "Fill · vectorized_elementwise_kernel",
        ),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int)",
            "add · vectorized_elementwise_kernel",
        ),
        ("", ""),
        ("<<<", "<<<"),
    ],
)
def test_a_kernel_is_called_by_what_it_does(full: str, short: str) -> None:
    assert kernel_name(full) == short


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["void k<float>(int)", "void other<float>(int)"], ["k", "other"]),
        (["void k<float, 128, true>(int)", "void k<float, 512, true>(int)"], ["k <128>", "k <512>"]),
        (["void a::k<(a::Type)0>(f<int>)", "void a::k<(a::Type)2>(f<int>)"], ["k <0>", "k <2>"]),
        (
            [
                "void k<4, at::native::AUnary<float, at::Mul<float> >, std::array<char*, 2ul> >(int)",
                "void k<4, at::native::Binary<float, at::Mul<float> >, std::array<char*, 3ul> >(int)",
            ],
            ["k <AUnary>", "k <Binary>"],
        ),
        (
            [
                "void k<at::native::gelu(at::Iter&, at::Type)::{lambda()#2}::operator()() const>(int)",
                "void k<at::native::(anonymous namespace)::silu(at::Iter&)::{lambda()#1}>(int)",
            ],
            ["k <gelu>", "k <silu>"],
        ),
        (["void k<int>(int)", "void k<int, 4>(int)"], ["k", "k"]),
        (["k<", "k<<", "k<,"], ["k", "k", "k"]),
        (["k", "k"], ["k", "k"]),
    ],
)
def test_kernels_that_share_a_name_are_told_apart_by_their_template_arguments(
    names: list[str], shown: list[str]
) -> None:
    assert distinct_names(names) == shown


def test_a_python_frame_is_called_by_its_function() -> None:
    assert python_name("/home/me/train.py(12): forward") == "forward (train.py:12)"
    assert python_name("<built-in method run>") == "<built-in method run>"


def one_event(start: int, end: int, width: int) -> Columns:
    row = row_index(np.array([start], np.int64), np.array([end], np.int64), np.zeros(1, np.int32))
    seen = columns(row, grid(Scale(0, width, width)))
    assert seen is not None
    return seen


def test_painting_touches_the_columns_of_the_event_and_no_other() -> None:
    block = np.full((6, 40), GROUND, np.uint32)
    seen = one_event(10, 20, 40)
    paint_row(block, seen, np.zeros(40, np.uint8), density_table(RED, GROUND), GROUND)
    painted = (block != GROUND).any(axis=0)
    assert painted[11:20].all()
    assert not painted[:10].any()
    assert not painted[20:].any()
    assert (block[:, 12] == RED[0]).all()


def test_the_shade_of_a_column_grows_with_the_time_it_is_busy_and_never_vanishes() -> None:
    shades = density_table(RED, GROUND) >> 16 & 255
    assert len(shades) == LEVELS + 1
    assert shades[0] > 40
    assert np.all(np.diff(shades.astype(int)) >= 0)
    assert shades[-1] == 255


def test_blending_mixes_each_channel() -> None:
    mixed = blended(np.array([0xFF204060], np.uint32), 0xFF000000, np.array([0.5]))
    assert int(mixed[0, 0]) == 0xFF102030


def places(gap: Columns, colors: GapColors, first: int = 0, *marks: int) -> GapPlaces:
    shown = gap_tiles(gap, np.zeros(len(gap.event), np.uint8), colors)
    found = gap_places(shown, colors, first, np.array(marks, np.int64))
    assert found is not None
    return found


def test_a_gap_is_hatched_over_a_tint_with_a_solid_foot() -> None:
    block, colors = np.full((20, 40), GROUND, np.uint32), gap_colors(RED, GROUND, hatching(1)[:1])
    paint_gaps(block, places(one_event(8, 32, 40), colors), colors, 3)
    assert (block[:, :8] == GROUND).all()
    assert len(np.unique(block[:17, 8:32])) == 2
    assert (block[17:, 8:32] == RED[0]).all()


def test_the_hatching_of_a_gap_moves_with_the_picture() -> None:
    def painted(phase: int) -> np.ndarray:
        block = np.full((20, 40), GROUND, np.uint32)
        colors = gap_colors(RED, GROUND, hatching(1)[:1])
        paint_gaps(block, places(one_event(0, 40, 40), colors, phase), colors, 0)
        return block

    assert (painted(3)[:, :30] == painted(0)[:, 3:33]).all()


def test_a_line_of_the_ruler_is_seen_but_where_a_gap_covers_it() -> None:
    block, colors = np.full((20, 40), GROUND, np.uint32), gap_colors(RED, GROUND, hatching(1)[:1])
    block[:, [4, 16]] = RED[0]
    expected = block.copy()
    paint_gaps(expected[:, 8:32], places(one_event(0, 24, 24), colors, 8), colors, 3)
    paint_gaps(block, places(one_event(8, 32, 40), colors, 0, 4, 16), colors, 3)
    assert (block == expected).all()


def test_without_a_gap_in_view_there_is_nothing_to_hatch() -> None:
    colors = gap_colors(RED, GROUND, hatching(1)[:1])
    shown = gap_tiles(one_event(8, 32, 40), np.zeros(40, np.uint8), colors)
    assert gap_places(shown[:8], colors, 0, np.empty(0, np.int64)) is None
    assert gap_places(shown[:9], colors, 0, np.empty(0, np.int64)) is not None


def counter(unit: str = "bytes") -> Counter:
    time = np.array([10, 20, 21, 22, 60], np.int64)
    return Counter("memory", unit, time, np.array([1.0, 5.0, 9.0, 2.0, 4.0]))


def test_a_counter_holds_its_value_and_does_not_lose_a_peak() -> None:
    found = counter_columns(counter(), Scale(0, 80, 8))
    assert found is not None
    value, peak = found
    assert np.isnan(value[0])
    assert value[1:].tolist() == [1, 2, 2, 2, 2, 4, 4]
    assert peak[1:].tolist() == [1, 9, 2, 2, 2, 4, 4]


def test_a_counter_without_samples_is_not_drawn() -> None:
    empty = Counter("memory", "bytes", np.empty(0, np.int64), np.empty(0))
    assert counter_columns(empty, Scale(0, 10, 10)) is None
    assert counter_style_of("bytes").bounds(empty) == (0.0, 1.0)


def test_a_percentage_is_drawn_from_zero_to_hundred() -> None:
    assert counter_style_of("%").bounds(counter("%")) == (0.0, 100.0)
    assert counter_style_of("").bounds(counter()) == (0.0, 9.0)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(1.5e9, "bytes", "1.50 GB"), (57.0, "%", "57 %"), (312.4, "W", "312 W"), (None, "W", "–")],
)
def test_values_have_their_unit(value: float | None, unit: str, text: str) -> None:
    assert shown_value(value, unit) == text


def test_a_curve_is_filled_up_to_its_value() -> None:
    block = np.full((11, 4), GROUND, np.uint32)
    level = np.array([np.nan, 0.0, 0.5, 1.0])
    paint_curve(block, level, level, 0xFF111111, 0xFFFFFFFF, 1)
    assert next((column != GROUND).sum() for column in block.T) == 0
    assert [(column == 0xFFFFFFFF).any() for column in block.T] == [False, True, True, True]
    assert (block[:, 3] != GROUND).all()


def test_many_small_gaps_of_one_cause_make_a_stretch_and_one_long_gap_does_not() -> None:
    start = np.arange(0, 4000, 10, dtype=np.int64)
    small = row_index(start, start + 4, np.full(len(start), 2, np.int32))
    seen = columns(small, grid(Scale(0, 4000, 800)))
    assert seen is not None
    (stretch,) = dense_stretches(seen, small.name[np.maximum(seen.event, 0)], 16, 50)
    assert (stretch.first, stretch.last, stretch.cause) == (0, 800, 2)
    assert stretch.share == pytest.approx(0.4, abs=0.01)
    long = one_event(0, 800, 800)
    assert dense_stretches(long, np.zeros(800, np.int32), 16, 50) == []
