"""What ranks on CPUs send too often: gradients of each micro-batch, and small messages one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from rules import Finding, diagnose
from tests.rules.builder import PREFETCH, TinyTrace, steps

RULE = "cpu-communication"
FORWARD = "DistributedDataParallel.forward"


def told(took: float, body: Callable[[TinyTrace, int], None]) -> Finding:
    """What is said of communication in steps of one rank that take so long (us)."""
    built = steps(4, took, body, into=TinyTrace(rank=0)).build()
    return next(each for each in diagnose(built).findings if each.rule == RULE)


def sent(
    trace: TinyTrace, start: float, end: float, sizes: Sequence[int], name: str = "gloo:all_reduce"
) -> None:
    trace.shapes(trace.region(start, end, name, PREFETCH), [list(sizes)], ["float"])


def accumulated(
    *, sends: Sequence[bool], sizes: Sequence[int] = (100_000,), forward: str = FORWARD
) -> Finding:
    """An update after as many passes, each of which may end with a reduction of a third of its time."""

    def body(trace: TinyTrace, _: int) -> None:
        for number, each in enumerate(sends):
            at = 3_000 * number
            trace.region(at, at + 1_000, forward)
            trace.op(at + 10, at + 990, "aten::addmm")
            trace.op(at + 1_010, at + 2_000, "autograd::engine::evaluate_function: AddmmBackward0")
            if each:
                sent(trace, at + 2_000, at + 3_000, sizes)
        trace.region(3_000 * len(sends), 3_000 * len(sends) + 500, "Optimizer.step#SGD.step")
        trace.op(3_000 * len(sends), 3_000 * len(sends) + 490, "aten::add_")

    return told(3_000 * len(sends) + 500, body)


def test_gradients_that_are_reduced_after_each_micro_batch_are_told_so() -> None:
    found = accumulated(sends=[True] * 4)
    assert found.title == "Gradients are reduced after each of 4 backward passes: 32 % of every step"
    assert found.share == pytest.approx(0.32 * 3 / 4, abs=0.01)
    assert "no_sync" in found.advice[0]


@pytest.mark.parametrize(
    "said",
    [
        {"sends": [True, False, True, True]},
        {"sends": [True]},
        {"sends": [True] * 4, "sizes": (255,)},
        {"sends": [True] * 4, "forward": "forward"},
    ],
    ids=["one pass sends nothing", "one pass", "a loss", "without a data-parallel model"],
)
def test_they_are_not_where_something_else_is_sent_or_not_in_each_pass(said: dict[str, object]) -> None:
    assert accumulated(**said).title.startswith("Communication between CPUs is not hidden: ")  # type: ignore[arg-type]


def test_from_so_many_elements_on_they_are_gradients() -> None:
    assert accumulated(sends=[True] * 4, sizes=(256,)).title.startswith("Gradients are reduced")


@pytest.mark.parametrize(
    ("often", "sizes", "small"),
    [(8, [64], True), (7, [64], False), (8, [128, 128], True), (8, [128, 129], False)],
)
def test_many_small_messages_are_told_as_one_to_be(often: int, sizes: Sequence[int], small: bool) -> None:
    """Starting each takes as long as it does."""

    def body(trace: TinyTrace, _: int) -> None:
        trace.op(0, 4_000, "aten::addmm")
        for number in range(often):
            at = 4_000 + 400 * number
            trace.op(at, at + 200, "c10d::allreduce_")
            sent(trace, at + 200, at + 400, sizes)
        trace.op(4_000 + 400 * often, 8_000, "aten::add_")

    found = told(8_000, body)
    if small:
        assert found.title == "8 small messages are sent one by one: 35 % of every step"
        assert found.share == pytest.approx(0.4 * 7 / 8, abs=0.01)
        assert "Reduce them together" in found.advice[0]
        assert (
            "8 of them hold few numbers, and would take about as long as one together." in found.explanation
        )
    else:
        assert found.title.startswith("Communication between CPUs is not hidden: ")


@pytest.mark.parametrize(("took", "small"), [(1_900, True), (2_100, False)])
def test_small_messages_take_most_of_the_time_of_all(took: float, small: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.op(0, 4_000, "aten::addmm")
        for number in range(10):
            sent(trace, 4_000 + 200 * number, 4_200 + 200 * number, [])
        sent(trace, 6_000, 6_000 + took, [1_000_000])
        trace.op(8_200, 9_000, "aten::add_")

    assert told(9_000, body).title.startswith("10 small messages") is small


def test_without_shapes_no_message_is_small() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.op(0, 4_000, "aten::addmm")
        for number in range(10):
            trace.region(4_000 + 200 * number, 4_200 + 200 * number, "gloo:all_reduce", PREFETCH)
        trace.op(6_000, 9_000, "aten::add_")

    assert told(9_000, body).title.startswith("Communication between CPUs is not hidden: ")
