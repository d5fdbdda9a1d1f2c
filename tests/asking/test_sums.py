"""Which columns of an answer add up, by their names."""

from __future__ import annotations

import pandas as pd
import pytest

from viewer.query.result import adds_up, sums_of

OF_EACH = """mean_ns p99_ns longest_ns start_ns peak_at_ns time_share percent bus_bytes_per_s ttft_ns cpu_total_ns
registers blocks_x a_step_ns first_token_ns"""


@pytest.mark.parametrize("name", OF_EACH.split())
def test_means_moments_shares_and_rates_do_not(name: str) -> None:
    assert not adds_up(name)


def test_sums_are_of_what_is_known_and_percentiles_are_values_that_occur() -> None:
    sums = sums_of(
        pd.DataFrame({"event": [1, 2, 3], "total_ns": [10.0, None, 30.0], "name": ["a", "b", "c"]})
    )
    assert set(sums) == {"total_ns"}
    assert (sums["total_ns"].total, sums["total_ns"].median, sums["total_ns"].p99) == (40.0, 10.0, 30.0)
