"""Small numbers that stand for the large ones of Nsight Systems."""

from __future__ import annotations

import numpy as np
import pytest

from parsers.nsys.reading import Codes

FAR = 1 << 40


@pytest.mark.parametrize(
    "batches",
    [
        ([5, 6, 5], [6, 5], [5, 7, 6]),  # close together, and a new one later
        ([FAR, 1, FAR], [1, FAR], [2, FAR]),  # far apart
        ([10, 12], [11, 10], [9, 13]),  # between the known ones, and on both sides of them
    ],
)
def test_each_value_keeps_its_code_over_batches(batches: tuple[list[int], ...]) -> None:
    codes = Codes()
    for batch in batches:
        assert [codes.values[code] for code in codes.of(np.array(batch, np.int64)).tolist()] == batch
    assert len(codes.values) == len({each for batch in batches for each in batch})
