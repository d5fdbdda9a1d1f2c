"""Rows in pixel columns: against a reference that looks at every event."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from viewer.timeline.geometry.columns import PHASES, columns, grid
from viewer.timeline.geometry.row_index import SHORT, Row, row_index
from viewer.timeline.geometry.scale import Scale


def made_row(gaps: list[int], lengths: list[int], names: list[int] | None = None) -> Row:
    steps = np.array([value for pair in zip(gaps, lengths, strict=True) for value in pair], np.int64)
    edges = np.cumsum(steps)
    start, end = edges[0::2].copy(), edges[1::2].copy()
    labels = np.array(names if names is not None else [0] * len(start), np.int32)
    return row_index(start, end, labels)


def random_row(count: int, seed: int, names: int = 5) -> Row:
    random = np.random.default_rng(seed)
    gaps = (
        random.integers(0, 2000, count) * (random.random(count) < 0.5)
        + (random.random(count) < 0.01) * 100_000
    )
    lengths = random.integers(1, 3000, count)
    return made_row(gaps.tolist(), lengths.tolist(), random.integers(0, names, count).tolist())


def covered(row: Row, left: float, right: float) -> float:
    """The share of [left, right) that events take: the definition."""
    inside = np.minimum(row.end, right) - np.maximum(row.start, left)
    return float(np.maximum(inside, 0).sum()) / (right - left)


rows = st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500)), min_size=1, max_size=30)


@given(rows, st.integers(-200, 3000), st.integers(40, 20_000), st.integers(1, 60))
def test_coverage_is_the_share_of_the_column_that_events_take(
    pairs: list[tuple[int, int]], first: int, span: int, width: int
) -> None:
    row = made_row([gap for gap, _ in pairs], [length for _, length in pairs])
    view = grid(Scale(float(first), float(first + span), float(width)))
    seen = columns(row, view)
    expected = [covered(row, view.times[n], view.times[n + 1]) for n in range(width)]
    if seen is None:
        assert max(expected) == 0
        return
    np.testing.assert_allclose(seen.coverage, expected, atol=1e-6)


@given(rows, st.integers(-200, 3000), st.integers(40, 20_000), st.integers(1, 60))
def test_the_event_of_a_column_touches_it_and_no_event_is_left_out(
    pairs: list[tuple[int, int]], first: int, span: int, width: int
) -> None:
    row = made_row([gap for gap, _ in pairs], [length for _, length in pairs])
    view = grid(Scale(float(first), float(first + span), float(width)))
    seen = columns(row, view)
    slack = 1 + view.step * 1e-6
    for column in range(width):
        left, right = view.times[column], view.times[column + 1]
        touching = (row.start < right - slack) & (row.end > left + slack)
        event = -1 if seen is None else int(seen.event[column])
        if event >= 0:
            assert row.start[event] <= right + slack
            assert row.end[event] >= left - slack
        else:
            assert not touching.any()


@given(rows, st.integers(0, 2000), st.integers(40, 5000), st.integers(20, 300))
def test_every_event_at_least_two_columns_wide_is_listed_with_its_edges(
    pairs: list[tuple[int, int]], first: int, span: int, width: int
) -> None:
    row = made_row([gap for gap, _ in pairs], [length for _, length in pairs])
    scale = Scale(float(first), float(first + span), float(width))
    seen = columns(row, grid(scale))
    listed = set() if seen is None else set(seen.wide.tolist())
    for event in range(len(row)):
        left, right = scale.x(float(row.start[event])), scale.x(float(row.end[event]))
        visible_whole_column = min(right, width) - max(left, 0) >= 2 + 1 / PHASES
        if visible_whole_column:
            assert event in listed
    if seen is not None:
        np.testing.assert_allclose(
            seen.left, (row.start[seen.wide] - scale.t0) / scale.ns_per_pixel, atol=0.51 / PHASES
        )
        assert np.all(seen.right - seen.left >= 2)


@examples(25)
@given(st.integers(SHORT, 3 * SHORT), st.integers(0, 1000), st.floats(0, 0.9), st.floats(0.001, 1.0))
def test_the_index_of_a_long_row_agrees_with_the_events(
    count: int, seed: int, at: float, share: float
) -> None:
    row = random_row(count, seed)
    whole = float(row.end[-1])
    view = grid(Scale(at * whole, at * whole + share * whole, 400.0))
    seen, plain = columns(row, view), columns(Row(0, row.start, row.end, row.name), view)
    assert (seen is None) == (plain is None)
    if seen is None or plain is None:
        return
    by_clock = row.clock is not None and row.clock.cell * 2 <= view.step
    # The clock rounds edges to its cells, so both edges of a column are off by at most a quarter of it.
    off = np.abs(seen.coverage - plain.coverage)
    assert off.max() <= (0.51 if by_clock else 1e-6)
    assert seen.coverage.sum() == pytest.approx(plain.coverage.sum(), rel=0.03 if by_clock else 1e-6, abs=1)


def test_a_row_that_is_always_busy_looks_evenly_busy_from_far_away() -> None:
    row = made_row([0] * 50_000, [100] * 50_000)
    for span in (1.0, 0.83, 0.7):
        seen = columns(row, grid(Scale(0.0, float(row.end[-1]) * span, 1000.0)))
        assert seen is not None
        assert seen.coverage.min() > 0.999


def test_where_many_events_share_a_column_the_name_with_the_most_time_stands_for_it() -> None:
    count = 64 * 200
    names = (
        [1] * 48 + [2] * 16
    ) * 200  # of each 64 events 48 are short ones of name 1, 16 longer ones of name 2
    lengths = ([10] * 48 + [15] * 16) * 200
    row = made_row([5] * count, lengths, names)
    seen = columns(row, grid(Scale(0.0, float(row.end[-1]), 50.0)))
    assert seen is not None
    assert np.mean(row.name[seen.event] == 1) > 0.9


def test_an_instant_shows_although_it_takes_no_time() -> None:
    row = made_row([500], [0])
    seen = columns(row, grid(Scale(0.0, 1000.0, 10.0)))
    assert seen is not None
    assert seen.event.tolist() == [-1] * 5 + [0] + [-1] * 4
    assert seen.coverage.max() == 0


def test_short_rows_have_no_index_and_long_ones_a_small_one() -> None:
    assert made_row([1] * 100, [1] * 100).index_bytes == 0
    row = random_row(100_000, 3)
    assert 0 < row.index_bytes <= 4 * len(row)


def test_the_window_of_a_row_holds_exactly_the_events_that_touch_it() -> None:
    row = made_row([10, 10, 10], [10, 10, 10])  # 10-20, 30-40, 50-60
    assert row.window(21, 29) == (1, 1)
    assert row.window(25, 45) == (1, 2)
    assert row.window(0, 100) == (0, 3)


def test_a_view_that_moves_by_whole_pixels_stays_on_one_lattice() -> None:
    span, start = 5e7, 7.4e9
    for width in range(1600, 1920, 10):
        steps = [start + 38 * number * span / width for number in range(60)]
        assert len({grid(Scale(at, at + span, float(width))).phase for at in steps}) == 1
