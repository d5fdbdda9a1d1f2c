"""Loops that carry a state from round to round: no item is taken out of anything, so nothing is done at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rules.fixes.plan import Plan
from tests.opened import planned
from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body, promised

ROUNDS = 10
# The cases lie on either side of these.
MIN_CHAIN = 8
MIN_STENCIL = 3
MIN_MORE_SIZES = 2

Taken = Callable[[TinyTrace, int, float], None]


def simulated(
    *,
    calls: int = MIN_CHAIN,
    begins: Taken | None = None,
    between: str = "",
    places: int = 0,
    around: tuple[str, ...] = (),
    operators: bool = True,
    sizes: int = 1,
) -> Plan:
    """Ten rounds of a formula, its kernels different ones; what is ``around`` comes before and behind them."""

    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        for number in range(ROUNDS):
            if begins is not None:
                begins(trace, number, at)
                at += 30
            if not number and around:
                trace.op(at - 4, at - 2, f"aten::{around[0]}")
            for place in range(calls):
                for part in range(2 if place < places else 0):
                    trace.op(at + part, at + part + 0.5, between)
                if operators:
                    trace.op(at + 2, at + 20, f"aten::mul{place}")
                trace.kernels(at + 4, 1, 3, 20, f"void part{'x' * place}_kernel", grid=10 + number % sizes)
                at += 24
        for each in around[1:]:
            trace.op(at, at + 10, f"aten::{each}")
        trace.kernels(at + 4, 1, 5, 10, "void last_kernel")

    return plan_of_body(body, length=400 + ROUNDS * (30 + 24 * calls))


def taking(name: str) -> Taken:
    return lambda trace, _, at: (trace.op(at, at + 2, f"aten::{name}"), None)[1]


def sending(trace: TinyTrace, _: int, at: float) -> None:
    trace.copy(at + 8, at + 9, "HtoD", at, bytes=64)


def joined(plan: Plan) -> bool:
    return "join-loop" in promised(plan)


def test_rounds_that_only_compute_the_next_state_are_compiled_and_not_done_at_once() -> None:
    plan = simulated(calls=12)
    assert not joined(plan)
    assert "replay-cuda-graph" in promised(plan)


@pytest.mark.parametrize(
    "begins",
    [*(taking(name) for name in ("select", "index", "slice", "eq")), sending],
    ids=["select", "index", "slice", "eq", "sending"],
)
def test_rounds_that_take_an_item_are_done_at_once(begins: Taken) -> None:
    assert joined(simulated(begins=begins))


def test_an_operator_that_takes_nothing_shows_no_item() -> None:
    assert not joined(simulated(begins=taking("roll")))


@pytest.mark.parametrize(
    ("around", "found"),
    [(("unbind",), True), (("", "stack"), True), (("", "cat"), True), (("transpose", "clone"), False)],
)
def test_items_are_cut_before_or_put_together_behind(around: tuple[str, ...], found: bool) -> None:
    assert joined(simulated(around=around)) is found


@pytest.mark.parametrize(("calls", "found"), [(MIN_CHAIN - 1, True), (MIN_CHAIN, False)])
def test_short_rounds_may_be_of_a_list_of_tensors(calls: int, found: bool) -> None:
    assert joined(simulated(calls=calls)) is found


def test_without_operators_nobody_knows_what_a_round_takes() -> None:
    assert joined(simulated(operators=False))


@pytest.mark.parametrize("sizes", [1, MIN_MORE_SIZES, MIN_MORE_SIZES + 1])
def test_no_state_changes_its_size(sizes: int) -> None:
    assert joined(simulated(sizes=sizes)) is (sizes > MIN_MORE_SIZES)


@pytest.mark.parametrize(
    ("between", "places", "found"),
    [
        ("aten::slice", MIN_STENCIL, False),
        ("aten::slice", MIN_STENCIL - 1, True),
        ("aten::narrow", MIN_STENCIL, True),
    ],
)
def test_slices_between_many_calls_are_neighbours_of_the_same_cells(
    between: str, places: int, found: bool
) -> None:
    assert joined(simulated(between=between, places=places)) is found
    assert joined(simulated(calls=MIN_CHAIN - 1, between=between, places=places)) is found


def test_a_pressure_solved_by_jacobi_rounds_is_compiled(fixtures: Path) -> None:
    plan = planned(fixtures / "programs" / "fluid.pt.trace.json.gz")
    assert not joined(plan)
    compiled = next(each for each in plan.promises if each.proposal.fix == "compile-model")
    assert compiled.low < 2.76 < compiled.high


def test_metrics_that_are_read_back_for_each_class_are_items(fixtures: Path) -> None:
    assert joined(planned(fixtures / "programs" / "handmade.pt.trace.json.gz"))
