"""Rows that bear the same key are found together, and distinct values in ascending order."""

from __future__ import annotations

import numpy as np
import pytest

from parsers.model.arrays import ascending, rows_by

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
