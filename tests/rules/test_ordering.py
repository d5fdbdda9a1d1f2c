"""What is in order is seen to be, and what is counted in place of sorted comes out as if it had been sorted."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from parsers.model.arrays import numbered_rows, stable_order
from rules.analysis.arithmetic.intervals import union
from viewer.statistics.kernels import grouped, longest_events, totals

few = arrays.arrays(np.int64, st.integers(0, 30), elements=st.integers(0, 4))


@given(few, st.integers(0, 3))
def test_the_order_is_that_of_a_stable_sort(values: np.ndarray, apart: int) -> None:
    within = np.arange(len(values)) * apart // 4 % 3
    for order, expected in (
        (stable_order(values), np.argsort(values, kind="stable")),
        (stable_order(values, within=within), np.lexsort((values, within))),
    ):
        assert np.array_equal(np.arange(len(values)) if order is None else order, expected)


def test_what_is_sorted_is_not_sorted_again() -> None:
    assert stable_order(np.array([1, 2, 2, 5])) is None
    assert stable_order(np.array([3, 4, 1, 2]), within=np.array([0, 0, 1, 1])) is None
    start, end = np.array([0, 10, 20]), np.array([5, 15, 25])
    with patch("numpy.argsort", side_effect=AssertionError("sorted")):
        assert [column.tolist() for column in union(start, end)] == [[0, 10, 20], [5, 15, 25]]


@pytest.mark.parametrize("far", [1, 2**40, 2**61])
@given(few, st.integers(-3, 3))
def test_groups_and_sums_are_those_of_a_sort(far: int, keys: np.ndarray, shift: int) -> None:
    values = (np.arange(len(keys)) * 7 % 5 + shift) * far
    groups = grouped(keys, values)
    for row, key in enumerate(sorted(set(keys.tolist()))):
        mine = sorted(values[keys == key].tolist())
        found = (groups.key[row], groups.count[row], groups.least[row], groups.median[row], groups.most[row])
        assert found == (key, len(mine), mine[0], mine[(len(mine) + 1) // 2 - 1], mine[-1])
        assert groups.total[row] == np.array(mine).sum() == totals(keys, values, groups.key)[row]


@given(few)
def test_the_longest_of_each_name_is_the_last_of_several(names: np.ndarray) -> None:
    durations, keys = np.arange(len(names)) * 5 % 3, np.unique(names)
    found = longest_events(names, durations, np.arange(len(names)) + 100, keys)
    order = np.lexsort((durations, names))
    expected = [100 + max(order[names[order] == key].tolist(), key=order.tolist().index) for key in keys]
    assert found.tolist() == expected


@given(arrays.arrays(np.int64, st.tuples(st.integers(0, 20), st.just(3)), elements=st.integers(-1, 50)))
def test_rows_are_numbered_in_their_order(rows: np.ndarray) -> None:
    more = np.arange(len(rows)) % 2
    expected = np.unique(np.column_stack((rows, more)), axis=0, return_inverse=True)[1].ravel()
    assert numbered_rows(*rows.T, more).tolist() == expected.tolist()
