"""Loops on the CPU whose rounds make a tensor of Python's numbers, and copy their model first."""

from __future__ import annotations

import pytest

from rules.analysis.analysis import Analysis
from rules.analysis.cpu.cpu_time import cpu_time
from rules.losses.cpu_loops import ItemLoops
from rules.losses.cpu_work import with_freeing
from tests.rules.builder import TinyTrace, steps
from tests.rules.test_loops_on_the_cpu import loops_of

REQUESTS = 16
LARGE = [512, 512]  # 1 MiB: a copy takes as long alone as it does for all


def requests(values: int = 2, times: int = REQUESTS, copied: list[int] | None = None) -> ItemLoops:
    """Steps of so many rounds, each of which makes a tensor of so many numbers and calls two layers."""

    def body(trace: TinyTrace, _: int) -> None:
        for number in range(times):
            at = 300.0 * number
            if copied is not None:
                trace.shapes(trace.op(at, at + 200, "aten::clone"), [copied], ["float"])
            trace.shapes(trace.op(at + 202, at + 204, "aten::lift_fresh"), [[1, values]], ["float"])
            for place in range(2):
                layer = trace.op(at + 210 + 40 * place, at + 240 + 40 * place, "aten::linear")
                trace.shapes(layer, [[1, 512], LARGE, [512]], ["float"] * 3)

    return loops_of(300.0 * times, body)


@pytest.mark.parametrize(("values", "found"), [(2, True), (1, False)])
def test_a_round_that_makes_a_tensor_of_several_numbers_has_an_item(values: int, found: bool) -> None:
    """A layer makes one of a single number, for a limit or a scale."""
    assert bool(requests(values).loops) is found


@pytest.mark.parametrize(("times", "found"), [(REQUESTS, True), (REQUESTS - 1, False)])
def test_fewer_than_sixteen_of_them_are_no_loop(times: int, found: bool) -> None:
    assert bool(requests(times=times).loops) is found


def test_weights_that_each_round_copies_are_copied_once_for_all_items() -> None:
    assert requests(copied=LARGE).computes == pytest.approx(requests().computes, abs=0.02)
    assert requests(copied=[512, 511]).computes > 0.3


@pytest.mark.parametrize(("pause", "counts"), [(20.0, True), (20.1, False)])
def test_the_time_behind_an_operator_is_spent_freeing_if_it_is_no_longer(pause: float, counts: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.op(0, 20, "aten::cat")
        trace.op(20 + pause, 90, "aten::mm")

    time = cpu_time(Analysis(steps(4, 100, body).build()))
    assert time is not None
    start, end = with_freeing(time, time.operators[::2])
    assert (end - start).tolist() == [20_000 + (20_000 if counts else 0)] * 4
