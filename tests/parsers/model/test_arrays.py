"""Rows that bear the same key are found together, distinct values in ascending order, and medians as numpy's."""

from __future__ import annotations

import numpy as np
import pytest

from parsers.model.arrays import ascending, distinct_values, median_of, rows_by

FAR = 1 << 40


def test_each_key_comes_once_with_all_its_rows_in_their_order() -> None:
    found = [(key, rows.tolist()) for key, rows in rows_by(np.array([7, -1, 7, 3, 7]))]
    assert found == [(-1, [1]), (3, [3]), (7, [0, 2, 4])]


def test_keys_of_several_numbers_differ_in_any_of_them() -> None:
    found = [(key, rows.tolist()) for key, rows in rows_by(np.array([[1, 2], [1, 1], [1, 2], [0, 9]]))]
    assert found == [([0, 9], [3]), ([1, 1], [1]), ([1, 2], [0, 2])]


def test_no_rows_have_no_keys() -> None:
    assert list(rows_by(np.empty(0, np.int64))) == []
    assert list(rows_by(np.empty((0, 2), np.int64))) == []


@pytest.mark.parametrize("values", [[], [7], [3, 1, 3, 2, 1], [FAR, -FAR, FAR]])
def test_distinct_values_come_in_ascending_order(values: list[int]) -> None:
    assert ascending(np.array(values, np.int64)).tolist() == sorted(set(values))
    assert distinct_values(np.array(values, np.int64)).tolist() == sorted(set(values))


def test_distinct_values_of_a_table_are_those_of_all_its_rows() -> None:
    assert distinct_values([[3, 1], [2, 3]]).tolist() == [1, 2, 3]


@pytest.mark.parametrize("values", [[2.5], [3, 1], [3, 1, 2], [0.0, np.inf, np.inf], [1.0, np.nan, 2.0, 0.0]])
def test_a_median_is_that_of_numpy(values: list[float]) -> None:
    np.testing.assert_array_equal(median_of(values), np.median(values))


@pytest.mark.parametrize("axis", [0, 1])
def test_medians_of_the_rows_or_columns_of_a_table_are_those_of_numpy(axis: int) -> None:
    table = np.array([[4.0, 1.0, np.nan], [3.0, 7.0, 5.0], [0.0, 2.0, 6.0], [9.0, 8.0, 1.0]])
    np.testing.assert_array_equal(median_of(table, axis), np.median(table, axis))


def test_nothing_has_a_median_that_is_no_number() -> None:
    with pytest.warns(RuntimeWarning):
        assert np.isnan(median_of([]))
