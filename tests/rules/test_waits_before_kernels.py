"""Faster kernels give little while the GPU waits for the CPU: such a wait is told first, also where a fix mends it."""

from __future__ import annotations

import pytest

from rules.analysis.analysis import Analysis
from rules.findings.base import Category
from tests.rules.test_causes import busy_in_python, finding, promise, told

__all__ = ["busy_in_python"]  # the fixture


@pytest.mark.parametrize(
    ("category", "share", "place"),
    [
        (Category.NO_TENSOR_CORES, 0.36, 2),
        (Category.NO_TENSOR_CORES, 0.44, 0),
        (Category.VARIABILITY, 0.36, 0),
    ],
)
def test_faster_kernels_that_no_fix_gives_come_after_the_waits_that_would_only_grow(
    analysis: Analysis, category: Category, share: float, place: int
) -> None:
    launches, kernels = finding(Category.LAUNCH_BOUND, 0.2), finding(category, share)
    copies = finding(Category.COPY_D2H, 0.16)
    made = promise(1, 1.5, Category.COPY_D2H), promise(2, 1.25, Category.LAUNCH_BOUND)
    found = told(analysis, [launches, copies, kernels], *made)
    assert found[place][0] == category.value
