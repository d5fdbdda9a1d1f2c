"""Steps of which each does more than the one before are told from those that are slow now and then."""

from __future__ import annotations

import numpy as np
import pytest

from rules.analysis.steps.growth import grow

SWEEP = [7, 13, 26, 50, 95, 184, 365, 366, 367, 368, 372, 380, 390, 450, 530, 690]


@pytest.mark.parametrize(
    ("lengths", "growing"),
    [
        (SWEEP, True),
        (SWEEP[::-1], False),
        ([*SWEEP, 350], True),  # cut off by the end of the recording
        ([*SWEEP, 350, 340], False),  # shorter again
        ([100, 101, 99, 100, 102, 100, 99, 300], False),  # one slow step at the end
        ([100, 101, 99, 100, 102, 104, 107, 110], False),  # hardly longer
        ([100, 200, 300, 400], False),  # in order by chance
        ([100, 99, 120, 118, 140, 170], True),
        ([], False),
    ],
)
def test_steps_grow_where_none_is_shorter_than_one_before(lengths: list[float], growing: bool) -> None:
    assert grow(np.array(lengths, np.float64)) is growing
