"""Batches that are built from Python's values, a tensor for each row, before they go to the GPU."""

from __future__ import annotations

import pytest

from rules.analysis.stretches.python_values import MIN_TIMES
from rules.fixes.plan import Plan
from rules.fixes.told import finding_of
from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body, promised


def batch_of(rows: int, around: float = 0.0, apart: float = 5.0) -> Plan:
    """A step in which rows of 20 us are made, with other work of Python behind them, and a small copy to the GPU."""

    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        for row in range(rows):
            at += apart if row == rows // 2 else 5.0
            trace.op(at, at + 10, "aten::empty")
            trace.op(at + 10, at + 15, "aten::lift_fresh")
            at += 15
        at += around
        trace.copy(at + 40, at + 50, "HtoD", at, pageable=True, bytes=1000)
        trace.kernels(at + 60, 10, 20, 10)

    return plan_of_body(body, length=400 + 20 * rows + apart + around)


@pytest.mark.parametrize(("rows", "found"), [(MIN_TIMES, True), (MIN_TIMES - 1, False)])
def test_a_batch_is_built_of_many_rows(rows: int, found: bool) -> None:
    assert ("rows-at-once" in promised(batch_of(rows))) is found


@pytest.mark.parametrize(("apart", "found"), [(49.0, True), (60.0, False)])
def test_nothing_else_takes_long_between_two_rows(apart: float, found: bool) -> None:
    assert ("rows-at-once" in promised(batch_of(2 * MIN_TIMES - 2, apart=apart))) is found


@pytest.mark.parametrize(("around", "gone"), [(1_900.0, True), (2_100.0, False)])
def test_what_python_does_around_more_rows_than_that_is_gone_too(around: float, gone: bool) -> None:
    """Rows take 2,000 us; at least, what is around them stays."""
    gain, step = promised(batch_of(100, around))["rows-at-once"], 2_405 + around
    assert (gain > step / (step - 2_000) * 1.15) is gone


def test_what_is_told_of_rows_points_to_the_time_before_their_copy() -> None:
    plan = batch_of(100)
    promise = next(each for each in plan.promises if each.proposal.fix == "rows-at-once")
    places = finding_of(plan.replay.analysis, plan, promise).evidence
    assert {each.name for each in places} == {"torch.tensor"}
    assert min(each.end - each.start for each in places) > 2_000_000


def test_the_rows_are_not_told_as_unnamed_work_as_well() -> None:
    assert "move-host-phase" not in promised(batch_of(100))
