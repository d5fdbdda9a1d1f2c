"""Rows of a lane: nested where intervals nest, never two overlapping events on one row."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from parsers.model import Progress
from parsers.model.nesting import depths, in_row_order
from tests.examples import examples

INTERVALS = st.lists(
    st.tuples(st.integers(0, 60), st.one_of(st.integers(0, 6), st.integers(0, 60))), min_size=1, max_size=40
)
LANES = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 40), st.integers(0, 30)), min_size=1, max_size=50
)


def sorted_columns(intervals: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    ordered = sorted((start, -(start + length)) for start, length in intervals)
    return np.array([each[0] for each in ordered], np.int64), np.array(
        [-each[1] for each in ordered], np.int64
    )


def nested_only(start: np.ndarray, end: np.ndarray) -> bool:
    """Whether every two intervals are apart or one holds the other."""
    for first in range(len(start)):
        for second in range(first + 1, len(start)):
            overlap = start[second] < end[first]
            if overlap and end[second] > end[first]:
                return False
    return True


@examples(300)
@given(INTERVALS)
def test_events_of_one_row_never_overlap(intervals: list[tuple[int, int]]) -> None:
    start, end = sorted_columns(intervals)
    depth = depths(start, end)
    for row in np.unique(depth):
        mine = depth == row
        assert np.all(start[mine][1:] >= end[mine][:-1])
    assert sorted(np.unique(depth).tolist()) == list(range(int(depth.max()) + 1))


@examples(300)
@given(INTERVALS)
def test_depth_of_nested_events_is_the_number_of_events_around_them(intervals: list[tuple[int, int]]) -> None:
    start, end = sorted_columns([(start, length + 1) for start, length in intervals])
    if not nested_only(start, end):
        return
    around = [
        sum(1 for outer in range(inner) if start[outer] <= start[inner] < end[outer])
        for inner in range(len(start))
    ]
    assert depths(start, end).tolist() == around


def test_a_later_overlap_takes_the_lowest_free_row() -> None:
    start, end = np.array([0, 10, 20, 30]), np.array([15, 25, 35, 45])
    assert depths(start, end).tolist() == [0, 1, 0, 1]


def test_touching_events_share_a_row_and_nothing_gives_nothing() -> None:
    assert depths(np.array([0, 5]), np.array([5, 9])).tolist() == [0, 0]
    assert depths(np.empty(0, np.int64), np.empty(0, np.int64)).tolist() == []


@examples(200)
@given(LANES)
def test_the_table_order_is_lane_then_row_then_start(events: list[tuple[int, int, int]]) -> None:
    lane = np.array([each[0] for each in events], np.int32)
    start = np.array([each[1] for each in events], np.int64)
    end = start + np.array([each[2] for each in events], np.int64)
    order, depth = in_row_order(start, end, lane, Progress())
    assert sorted(order.tolist()) == list(range(len(events)))
    keys = list(zip(lane[order].tolist(), depth.tolist(), start[order].tolist(), strict=True))
    assert keys == sorted(keys)
    same_row = (lane[order][1:] == lane[order][:-1]) & (depth[1:] == depth[:-1])
    assert np.all(start[order][1:][same_row] >= end[order][:-1][same_row])
