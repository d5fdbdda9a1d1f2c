"""A GPU that idles beside operators of the CPU, where nothing says which of them started its work."""

from __future__ import annotations

import pytest

from rules import Finding, diagnose
from tests.rules.builder import TinyTrace


def told(calls: list[float]) -> Finding:
    """Of a GPU that idles while convolutions are called, each of them for so long (us)."""
    trace, start = TinyTrace(), 0.0
    for number, took in enumerate(calls):
        trace.op(start, start + took, "Conv2D")
        start += took
        for layer in range(10 + 3 * number):
            trace.operation(start, start + 10, f"sm90_conv_{layer}")
            start += 10
    (found,) = [each for each in diagnose(trace.build()).findings if each.rule == "idle-unexplained"]
    return found


@pytest.mark.parametrize(("usual", "once"), [(1_000.0, True), (11_000.0, False)])
def test_one_call_much_longer_than_the_others_is_its_first_use(usual: float, once: bool) -> None:
    found = told([10.0, 100_000.0, usual, usual, usual])
    assert ("it does so once, when it is first used" in found.explanation) is once
    assert found.advice[0].startswith("Run a few warm-up steps") is once


def test_one_of_several_long_calls_is_no_first_use() -> None:
    found = told([10.0, 100_000.0, 60_000.0, 1_000.0, 1_000.0, 1_000.0, 1_000.0])
    assert "first used" not in found.explanation


def without_launches(*gaps: tuple[float, float]) -> Finding:
    """Of kernels that run for 1 ms from end to end but for these gaps (us)."""
    trace, at, number = TinyTrace(), 0.0, 0
    for start, length in (*gaps, (1_000.0, 0.0)):
        while at < start:
            trace.operation(at, at + 10, f"kernel_{number}")
            at, number = at + 10, number + 1
        at += length
    (found,) = [each for each in diagnose(trace.build()).findings if each.rule == "idle-unexplained"]
    return found


@pytest.mark.parametrize(("late", "early"), [(40.0, True), (42.0, False)])
def test_idle_time_of_a_start_is_told_as_such(late: float, early: bool) -> None:
    found = without_launches((100.0, 80.0), (300.0, 80.0), (900.0, late))
    assert found.title.startswith("Idle at first, for an" if early else "Idle for an") is True
    told = " 80 % of it lies in the first half of this time; in the second half the GPU idles 8.0 %."
    assert (told in found.explanation) is early


def test_one_gap_that_is_most_of_it_is_told_alone() -> None:
    found = without_launches((100.0, 200.0), (900.0, 20.0))
    assert found.title.startswith("Idle for an")
    assert "One gap of 200 us is most of it." in found.explanation
    assert "first half" not in found.explanation


@pytest.mark.parametrize(
    ("within", "times", "coalesced"), [(60.0, 80, True), (45.0, 80, False), (8_000.0, 1, False)]
)
def test_work_that_waits_while_sparse_tensors_are_coalesced_is_told_as_that(
    within: float, times: int, coalesced: bool
) -> None:
    trace = TinyTrace()
    for number in range(80):
        at = number * 120.0
        trace.operation(at + 810, at + 820, f"kernel_{number * number % 7}", 5.0 * number, launch_us=3)
        if number < times:
            trace.op(at + 705, at + 705 + within, "aten::_coalesce")
    (found,) = [each for each in diagnose(trace.build()).findings if each.rule == "idle-unexplained"]
    assert found.title.startswith("Sparse tensors are coalesced again and again") is coalesced
    assert found.title.startswith("Queued work waits for something unrecorded") is not coalesced
    assert found.advice[0].startswith("Coalesce it once") is coalesced
