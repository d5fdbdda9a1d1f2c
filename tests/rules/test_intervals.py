"""Sets of intervals, and finding times in ascending columns, against counting every moment one by one."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.model.arrays import among
from rules.analysis.arithmetic.ascending_search import last_not_after
from rules.analysis.arithmetic.intervals import (
    Intervals,
    complement,
    contains,
    covered_before,
    intersect,
    measure,
    subtract,
    union,
)
from rules.analysis.idle.causes import DeviceTime

END = 40
numbers = st.lists(st.integers(-3, END + 3), max_size=30)


def column(values: list[int]) -> npt.NDArray[np.int64]:
    return np.array(values, np.int64)


@st.composite
def some_intervals(draw: st.DrawFn) -> Intervals:
    """Disjoint and sorted; some of them touch."""
    edges = sorted(draw(st.sets(st.integers(0, END), max_size=20)))
    kept = [pair for pair in pairwise(edges) if draw(st.booleans())]
    return column([start for start, _ in kept]), column([end for _, end in kept])


def moments(intervals: Intervals) -> set[int]:
    return {moment for start, end in zip(*intervals, strict=True) for moment in range(start, end)}


def is_canonical(intervals: Intervals) -> bool:
    start, end = intervals
    return bool((start < end).all() and (end[:-1] < start[1:]).all())


@given(some_intervals(), some_intervals())
def test_what_two_sets_share_and_what_only_one_has_is_what_counting_moments_gives(
    one: Intervals, other: Intervals
) -> None:
    assert moments(intersect(one, other)) == moments(one) & moments(other)
    assert moments(subtract(one, other)) == moments(one) - moments(other)
    assert moments(complement(one, 0, END)) == set(range(END)) - moments(one)
    for made in (intersect(one, other), subtract(one, other), union(*one)):
        assert is_canonical(made)


@given(some_intervals(), numbers)
def test_whether_a_time_is_covered_and_how_much_lies_before_it_is_what_counting_gives(
    intervals: Intervals, times: list[int]
) -> None:
    covered = moments(intervals)
    for asked in (times, sorted(times)):
        assert contains(intervals, column(asked)).tolist() == [time in covered for time in asked]
        before = [sum(moment < time for moment in covered) for time in asked]
        assert covered_before(intervals, column(asked)).tolist() == before


@given(some_intervals(), st.integers(-3, END + 3), st.integers(-3, END + 3))
def test_the_part_of_a_set_inside_a_window_is_measured_alike_by_all_who_measure(
    intervals: Intervals, t0: int, t1: int
) -> None:
    inside = sum(t0 <= moment < t1 for moment in moments(intervals))
    assert DeviceTime.within(intervals, t0, t1) == inside
    assert measure(intervals, column([t0]), column([max(t0, t1)])).tolist() == [inside]


@given(numbers, numbers, st.booleans())
def test_the_last_entry_not_after_a_time_is_found_in_any_order_of_the_times(
    values: list[int], times: list[int], ascending: bool
) -> None:
    values.sort()
    if ascending:
        times.sort()
    found = last_not_after(column(values), column(times))
    assert found.tolist() == [sum(value <= time for value in values) - 1 for time in times]
    assert among(column(times), column(values)).tolist() == [time in values for time in times]


@pytest.mark.parametrize(
    "values", [[], [-5], [200], [10, 50, 50, 90], list(range(0, 100, 9)), list(range(0, 100, 7))]
)
def test_many_times_are_placed_among_few_entries(values: list[int]) -> None:
    times = list(range(100))
    found = last_not_after(column(values), column(times))
    assert found.tolist() == [sum(value <= time for value in values) - 1 for time in times]
    assert found.dtype == np.int64
