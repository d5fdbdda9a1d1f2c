"""A rank whose recording is shorter than that of another waits for nothing before and after it."""

from __future__ import annotations

import pytest

from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.analysis.idle.causes import Cause
from rules.findings.base import Category
from tests.rules.builder import TinyTrace


def two_ranks(until: float, since: float) -> TinyTrace:
    """Rank 0 works for 10 ms; rank 1 from 4 ms to 5 ms, and was recorded from ``since`` to ``until``."""
    trace = TinyTrace(rank=0)
    for number in range(100):
        trace.operation(100 * number + 5, 100 * number + 95, "gemm", 100 * number)
    trace.rank = 1
    trace.operation(4_005, 4_500, "gemm", 4_000)
    trace.operation(4_505, 5_000, "gemm", 4_480)
    trace.region(since, until, "tokenize")
    return trace


@pytest.mark.parametrize(
    ("since", "until", "unknown_us", "waits"),
    [(4_000, 5_000, 3_995 + 4_995, False), (4_000, 10_000, 3_995, True), (0, 5_000, 4_995, True)],
    ids=["nothing else recorded", "recorded to the end", "recorded from the start"],
)
def test_what_was_not_recorded_of_a_rank_is_no_waiting(
    since: float, until: float, unknown_us: float, waits: bool
) -> None:
    trace = two_ranks(until, since).build()
    idle = Analysis(trace).idle
    unknown = idle.cause == Cause.UNKNOWN
    assert (idle.end - idle.start)[unknown].sum() == 1_000 * unknown_us
    assert {idle.culprit_of(row).text for row in unknown.nonzero()[0].tolist()} == {
        "nothing of this rank was recorded then"
    }
    found = {each.category for each in diagnose(trace).findings}
    assert (Category.HOST_BOUND in found) is waits
    assert Category.UNEXPLAINED_IDLE not in found
