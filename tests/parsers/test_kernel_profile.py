"""Metrics of a profiled kernel as numbers that arithmetic can be done with."""

from __future__ import annotations

import pytest

from parsers.model import KernelProfile


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), "n/a"])
def test_a_metric_that_is_no_finite_number_was_not_measured(value: float | str) -> None:
    kernel = KernelProfile("0", "k", (1, 1, 1), (1, 1, 1), 0, (9, 0), 1, 7, 1, "app", {"waves": value})
    assert kernel.number("waves") is None
