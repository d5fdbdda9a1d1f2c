"""Rows that bear the same key are found together, distinct values in ascending order, and medians as numpy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from parsers.model.arrays import (
    among,
    ascending,
    distinct_values,
    last_of_group,
    median_of,
    numbered_rows,
    numbered_values,
    per_value,
    place_if_there,
    place_in,
    rows_by,
)

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


MANY = np.random.default_rng(7).integers(
    -40, 9_000, 3_000
)  # so many that they are counted, or looked up in a table


@pytest.mark.parametrize("values", [MANY, MANY.astype(np.int32), MANY.astype(np.int8), MANY * FAR, MANY / 8])
def test_many_values_are_told_apart_as_few_are(values: npt.NDArray[Any]) -> None:
    distinct, number = np.unique(values, return_inverse=True)
    for found in (distinct_values(values), numbered_values(values)[0]):
        assert found.dtype == values.dtype
        assert found.tolist() == distinct.tolist()
    assert numbered_values(values)[1].tolist() == number.tolist()


@pytest.mark.parametrize("values", [[], [7], [3, -1, 3, 2], [FAR, -FAR, FAR]])
def test_values_are_numbered_in_ascending_order(values: list[int]) -> None:
    distinct, number = numbered_values(np.array(values, np.int64))
    assert distinct.tolist() == sorted(set(values))
    assert number.tolist() == [sorted(set(values)).index(each) for each in values]


@pytest.mark.parametrize("rows", [[], [(2, -1, FAR), (1, 9, 0), (2, -1, FAR), (2, -1, 0), (1, 8, FAR)]])
def test_rows_are_numbered_by_their_first_column_then_by_the_next(rows: list[tuple[int, ...]]) -> None:
    number = numbered_rows(*np.array(rows, np.int64).reshape(-1, 3).T)
    assert number.tolist() == [sorted(set(rows)).index(each) for each in rows]


@pytest.mark.parametrize("wanted", [5, 3_000])
@pytest.mark.parametrize("shift", [0, -4_000, FAR])
def test_few_and_many_numbers_are_found_where_they_stand(wanted: int, shift: int) -> None:
    column = np.unique(MANY[:1_500]) + shift
    values = MANY[-wanted:] + shift
    assert among(values, column).tolist() == np.isin(values, column).tolist()
    there = values[np.isin(values, column)]
    assert column[place_if_there(there, column)].tolist() == there.tolist()
    assert (place_if_there(values, column) < len(column)).all()


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


def test_each_value_is_judged_once_in_ascending_order_and_rows_as_lists() -> None:
    asked: list[object] = []

    def judge(each: object) -> int:
        asked.append(each)
        return len(asked)

    assert per_value(np.array([5, 3, 5, 4]), judge).tolist() == [3, 1, 3, 2]
    assert asked == [3, 4, 5]
    assert per_value(np.array([[1, 2], [0, 9], [1, 2]]), lambda row: sum(row)).tolist() == [3, 9, 3]
    assert per_value(np.empty(0, np.int64), judge, np.int32).dtype == np.int32


def test_the_place_of_a_number_is_that_of_the_first_equal_one() -> None:
    assert place_in(np.array([8, 2, 8, 5]), np.array([5, 8, 3, 9])).tolist() == [3, 0, -1, -1]
    assert place_in(np.empty(0, np.int64), np.array([1])).tolist() == [-1]


def test_the_last_of_a_group_is_the_one_that_is_not_after_a_time() -> None:
    group, start = np.array([1, 1, 4]), np.array([10, 20, 5])
    wanted, when = np.array([1, 1, 1, 4]), np.array([20, 19, 30, 5])
    assert last_of_group(group, start, wanted, when).tolist() == [1, 0, 1, 2]
