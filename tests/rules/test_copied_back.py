"""What is copied to the GPU right behind a copy to the host is what came, or the next input."""

from __future__ import annotations

import pytest

from rules.analysis.analysis import Analysis
from rules.fixes.plan import Plan, Promise, make_plan
from tests.rules.builder import TinyTrace, steps

BYTES = 8_000_000


def copied(plan: Plan, key: str) -> Promise:
    (found,) = (
        each for each in plan.promises if each.id.startswith("copy-less") and each.proposal.key == key
    )
    return found


def vectors(apart_us: float) -> Plan:
    """Two inputs of 3 ms, a kernel, and a result of 6 ms; then, so much later, the next inputs."""

    def body(trace: TinyTrace, _: int) -> None:
        trace.copy(100, 3_100, "HtoD", 0, pageable=True, bytes=BYTES, launch_us=3_150)
        trace.copy(3_260, 6_260, "HtoD", 3_160, pageable=True, bytes=BYTES, launch_us=3_150)
        trace.operation(6_340, 6_430, "vecAdd", 6_320, launch_us=10.0)
        trace.copy(6_450, 12_450, "DtoH", 6_340, pageable=True, bytes=BYTES, launch_us=6_600)

    return make_plan(Analysis(steps(12, 12_940 + apart_us, body).build()))


@pytest.mark.parametrize(("apart_us", "goes_too"), [(2.0, False), (45.0, False), (55.0, True), (900.0, True)])
def test_the_next_input_is_not_what_was_copied_back(apart_us: float, goes_too: bool) -> None:
    """Sixteen cores go through 8 MB in 50 us."""
    plan = vectors(apart_us)
    found = copied(plan, "D2H")
    whole = plan.replay.usual_ns
    without_one = whole / (whole - 6_600_000)
    assert (found.expected > 1.2 * without_one) is goes_too
    if not goes_too:
        assert found.low <= found.expected <= found.high <= 1.03 * without_one


@pytest.mark.parametrize(("part", "goes_too"), [(0.98, True), (1.02, False)])
def test_more_than_what_came_is_not_what_was_copied_back(part: float, goes_too: bool) -> None:
    """As where a program makes a larger problem each time: its arrays are new ones."""

    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 5, 90, 100)
        trace.copy(550, 6_550, "DtoH", 540, pageable=True, bytes=BYTES, launch_us=6_020)
        trace.copy(7_650, 10_650, "HtoD", 7_600, pageable=True, bytes=int(part * BYTES), launch_us=3_060)
        trace.kernels(10_700, 5, 90, 100)

    plan = make_plan(Analysis(steps(12, 11_300, body).build()))
    left = 11_300 - 6_020 - 1_040 - (3_060 if goes_too else 0)
    assert copied(plan, "D2H").expected == pytest.approx(11_300 / left, rel=0.1)


def test_two_results_may_come_back_as_one() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 5, 90, 100)
        trace.copy(550, 3_550, "DtoH", 540, pageable=True, bytes=BYTES // 2, launch_us=3_020)
        trace.copy(3_580, 6_550, "DtoH", 3_570, pageable=True, bytes=BYTES // 2, launch_us=3_000)
        trace.copy(7_650, 10_650, "HtoD", 7_600, pageable=True, bytes=BYTES, launch_us=3_060)
        trace.kernels(10_700, 5, 90, 100)

    plan = make_plan(Analysis(steps(12, 11_300, body).build()))
    assert copied(plan, "D2H").expected == pytest.approx(11_300 / (11_300 - 6_020 - 1_040 - 3_060), rel=0.1)
