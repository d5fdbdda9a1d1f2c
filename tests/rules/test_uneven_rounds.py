"""Loops over pairs on the CPU whose rounds are not all alike, such as a loss that asks whether labels are the same."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rules.analysis.analysis import Analysis
from rules.analysis.cpu.cpu_time import cpu_time
from rules.losses.cpu_loops import ItemLoops, item_loops
from tests.rules.builder import TinyTrace, steps

GRADIENT = "autograd::engine::evaluate_function: "
PAIR, ROW = ("select", "select"), ("select",)
SAME, OTHER = ("sub", "pow", "sum", "add"), ("sub", "pow", "sum", "rsub", "relu", "add")
LABELS = (
    3,
    1,
    4,
    1,
    5,
    9,
    2,
    6,
    5,
    3,
    5,
    8,
    9,
    7,
    9,
    3,
    2,
    3,
    8,
    4,
    6,
    2,
    6,
    4,
)  # odd ones have more operators


def loops_of(
    rounds: int,
    picked: Sequence[str] = PAIR,
    other: Sequence[str] = OTHER,
    *,
    backward: int = 0,
    own: int = 0,
) -> ItemLoops:
    """Operators of 8 us, 2 us apart, of so many rounds, and functions of so many in the backward pass."""

    def body(trace: TinyTrace, _: int) -> None:
        names = []
        for number in range(rounds):
            names += [f"aten::{each}" for each in (*picked, *(other if LABELS[number] % 2 else SAME))]
        names.append("aten::div")
        for number in range(backward):
            called = reversed(other if LABELS[number] % 2 else SAME)
            names += [f"{GRADIENT}{each.title()}Backward0" for each in (*called, *picked)]
        names += [f"{GRADIENT}torch::autograd::AccumulateGrad"] * own
        for place, name in enumerate(names):
            trace.op(10 * place, 10 * place + 8, name)

    analysis = Analysis(steps(4, 10.0 * ((rounds + backward + 1) * 9 + own), body).build())
    time = cpu_time(analysis)
    assert time is not None
    return item_loops(analysis, time)


@pytest.mark.parametrize(
    ("rounds", "picked", "other", "found"),
    [
        (16, PAIR, OTHER, True),
        (15, PAIR, OTHER, False),
        (24, ROW, OTHER, False),
        (24, PAIR, (*SAME[:1], *"abc"), True),
        (24, PAIR, (*SAME[:1], *"abcd"), False),
        (24, PAIR, ("pow", *SAME), False),
    ],
    ids=["sixteen", "fifteen", "a row each", "half the same", "less the same", "another behind the pair"],
)
def test_rounds_of_pairs_that_are_not_all_alike_are_items(
    rounds: int, picked: Sequence[str], other: Sequence[str], found: bool
) -> None:
    assert {each.times for each in loops_of(rounds, picked, other).loops} == ({rounds} if found else set())


def test_all_rounds_but_one_could_go() -> None:
    loop = loops_of(24).loops[0]
    odd = sum(each % 2 for each in LABELS)
    assert loop.later_ns == pytest.approx((24 * 6 + 2 * odd) * 10_000 * 23 / 24, rel=0.05)


@pytest.mark.parametrize(("backward", "found"), [(24, 2), (23, 2), (0, 1)])
def test_their_gradients_belong_to_them(backward: int, found: int) -> None:
    assert len(loops_of(24, backward=backward).loops) == 4 * found


def test_gradients_alone_are_no_loop() -> None:
    assert not loops_of(2, backward=24).loops


@pytest.mark.parametrize(("own", "found"), [(23, True), (24, False)])
def test_rounds_are_none_where_as_many_weights_get_gradients(own: int, found: bool) -> None:
    """Layers pick queries, keys and values as well."""
    assert bool(loops_of(24, own=own).loops) is found
