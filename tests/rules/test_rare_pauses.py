"""Pauses on the CPU that a few steps hold: told as such, and apart from what every step has."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rules import Finding, diagnose
from rules.wording.words import Part
from tests.rules.builder import TinyTrace, steps

STEP = 400_000.0
RULE = "cpu-outside-operators"


def outside(pauses: Sequence[float], name: str = "", quick_elsewhere: bool = False) -> list[Finding]:
    """What is said of steps that pause so long (us) between the same two operators, in a function of this name."""

    def body(trace: TinyTrace, index: int) -> None:
        pause = pauses[index]
        trace.op(0, 50_000, "aten::mm")
        if name and (pause > min(pauses) or quick_elsewhere):
            trace.frame(50_000, 50_000 + pause, name)
        trace.op(50_000 + pause, STEP, "aten::addmm")

    return [each for each in diagnose(steps(len(pauses), STEP, body).build()).findings if each.rule == RULE]


def few_in(finding: Finding) -> int:
    """In how few steps it is said to lie; 0 for every step."""
    amount = finding.headline.amount
    assert isinstance(amount, Part)
    return amount.few


@pytest.mark.parametrize(("pause", "told"), [(200_000, True), (100_000, False)])
def test_a_pause_is_no_interruption_where_it_is_longer_than_one_can_be(pause: float, told: bool) -> None:
    """What is usually short is longer by more than 100 ms, or by 100 ms at most."""
    found = outside([20, 20, 20, pause, 20, 20])
    assert [each.title for each in found] == (
        ["Code outside PyTorch's operators: 8.3 % of the time, in 1 of 6 steps"] if told else []
    )


@pytest.mark.parametrize(("pause", "told"), [(340_000, True), (310_000, False)])
def test_a_pause_is_an_interruption_where_it_is_not_far_longer_than_usual(pause: float, told: bool) -> None:
    found = outside([32_000, 32_000, 32_000, pause, 32_000, 32_000])
    assert [few_in(each) for each in found] == ([1, 0] if told else [0])


@pytest.mark.parametrize(
    ("name", "quick_elsewhere", "told"),
    [("numpy/linalg.py(1): svd", False, True), ("numpy/linalg.py(1): svd", True, False), ("", False, False)],
)
def test_a_shorter_pause_is_told_where_a_function_runs_that_is_never_quicker(
    name: str, quick_elsewhere: bool, told: bool
) -> None:
    found = outside([200, 200, 200, 90_000, 80_000, 200], name, quick_elsewhere)
    assert [few_in(each) for each in found] == ([2] if told else [])


@pytest.mark.parametrize(("inside", "told"), [(46_000, True), (44_000, False)])
def test_that_function_takes_most_of_the_pause(inside: float, told: bool) -> None:
    def body(trace: TinyTrace, index: int) -> None:
        pause = 90_000 if index >= 4 else 200
        trace.op(0, 50_000, "aten::mm")
        if index >= 4:
            trace.frame(51_000, 51_000 + inside, "numpy/linalg.py(1): svd")
        trace.op(50_000 + pause, STEP, "aten::addmm")

    found = diagnose(steps(6, STEP, body).build()).findings
    assert (RULE in {each.rule for each in found}) is told


def test_what_every_step_has_is_told_beside_the_pause_of_one() -> None:
    rare, usual = outside([30_000, 30_000, 30_000, 390_000 - 50_000, 30_000, 30_000])
    assert rare.title == "Code outside PyTorch's operators: 14 % of the time, in 1 of 6 steps"
    assert rare.explanation.startswith(
        "In 1 of 6 steps, neither an operator nor a data loader runs for 340 ms: the thread is in Python or"
    )
    assert rare.explanation.endswith("Without this code a step would take 343 ms on average.")
    assert "Do it less often" in rare.advice[0]
    assert usual.title == "Code outside PyTorch's operators: 6.3 % of every step"
    assert usual.explanation.startswith("A step takes 400 ms, and for 25.0 ms of it neither")


@pytest.mark.parametrize(("usual", "count"), [(20_000, 1), (30_000, 2)])
def test_it_is_not_where_it_is_less_than_a_twentieth(usual: float, count: int) -> None:
    assert len(outside([usual, usual, usual, 340_000, usual, usual])) == count


@pytest.mark.parametrize(("more", "few"), [(65_000, [0, 1]), (55_000, [0])])
def test_steps_differ_by_less_than_twice_the_median_as_they_do(more: float, few: list[int]) -> None:
    """One step has a second pause, behind an operator that only it calls."""

    def body(trace: TinyTrace, index: int) -> None:
        trace.op(60_000, 150_000, "aten::mm")
        if not index:
            trace.op(150_010, 150_020, "aten::detach")
        trace.op(150_020 + more if not index else 150_030, STEP, "aten::addmm")

    found = [each for each in diagnose(steps(3, STEP, body).build()).findings if each.rule == RULE]
    assert sorted(map(few_in, found)) == few


@pytest.mark.parametrize(("slow", "few"), [(3, 3), (4, 0)])
def test_a_few_are_half_of_the_steps_at_most(slow: int, few: int) -> None:
    def body(trace: TinyTrace, index: int) -> None:
        trace.op(0, 50_000, "aten::mm")
        if index < slow:
            trace.op(150_000, 150_100, "aten::detach")
        trace.op(150_100 if index < slow else 50_010, STEP, "aten::addmm")

    found = [each for each in diagnose(steps(6, STEP, body).build()).findings if each.rule == RULE]
    assert [few_in(each) for each in found] == [few]


@pytest.mark.parametrize(("count", "few"), [(3, 1), (2, 0)])
def test_of_two_steps_nobody_knows_which_one_is_usual(count: int, few: int) -> None:
    def body(trace: TinyTrace, index: int) -> None:
        trace.op(0, 50_000, "aten::mm")
        if index:
            trace.op(50_010, STEP, "aten::addmm")
        else:
            trace.op(250_000, STEP, "aten::detach")

    found = [each for each in diagnose(steps(count, STEP, body).build()).findings if each.rule == RULE]
    assert [few_in(each) for each in found] == [few]
