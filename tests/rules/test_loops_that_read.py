"""Loops whose rounds read several values back: over items where they also compute much, else read-backs alone."""

from __future__ import annotations

import pytest

from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body, promised

ROUNDS = 24
LAUNCH_US, READ_US = 8, 40


@pytest.mark.parametrize(
    ("values", "computing", "over_items"),
    [(4, 8, True), (4, 7, False), (3, 6, True), (3, 5, False)],
    ids=["computes much", "mostly reads", "two calls for each that reads", "less than two"],
)
def test_rounds_that_compute_more_than_what_they_read_are_items(
    values: int, computing: int, over_items: bool
) -> None:
    """As where targets are assigned box by box: cells are read as numbers, and written at these places."""
    length = values * READ_US + computing * LAUNCH_US + 10

    def body(trace: TinyTrace, _: int) -> None:
        for number in range(ROUNDS):
            at = 10.0 + number * length
            for kernel in range(computing):
                launched = at + kernel * LAUNCH_US
                trace.operation(launched + 6, launched + 8, f"void elementwise_{kernel}", launched)
            at += computing * LAUNCH_US
            for value in range(values):
                read = at + value * READ_US
                trace.copy(read + 8, read + 10, "DtoH", read, bytes=8, pageable=True)
                trace.call(read + 6, read + 20, "cudaStreamSynchronize")

    found = promised(plan_of_body(body, length=20 + ROUNDS * length))
    assert ("join-loop" in found) is over_items
