"""Loops in which the CPU works in each round on something that it sends, such as features of one clip after another."""

from __future__ import annotations

import pytest

from rules.terms import NEARLY_ALL
from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body
from tests.rules.test_item_loops import PRODUCT

ROUNDS = 10
CALLS = 6  # of a round besides


def all_rounds_at_once(
    *,
    works: int = ROUNDS,
    lasts: float = 600.0,
    weight: tuple[int, int] = (64, 32),
    sent: int = 4 * 64 * 32,
    reads: bool = False,
) -> bool:
    """Whether at most the rounds are done at once of which so many work for so long and send a weight.

    Each multiplies it with a matrix of 32 rows and 48 columns.
    """

    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        for number in range(ROUNDS):
            at += lasts if number < works else 60.0
            trace.copy(at + 8, at + 20, "HtoD", at, pageable=True, bytes=sent, launch_us=22)
            at += 30
            product = trace.op(at, at + 20, "aten::mm")
            trace.shapes(product, [list(weight), [weight[1], 48]], ["float", "float"])
            trace.kernels(at + 2, 1, 5, 30, PRODUCT)
            trace.op(at + 25, at + 27, "aten::select")
            for place in range(CALLS):
                trace.kernels(at + 40 + 50 * place, 1, 5, 50, f"void {'abcdef'[place]}_kernel")
            at += 40 + 50 * CALLS
            if reads:
                trace.copy(at + 8, at + 10, "DtoH", at, pageable=True, bytes=64, launch_us=14)
                at += 20
        trace.kernels(at, 30, 5, 10, "void last_kernel")

    plan = plan_of_body(body, length=400 + ROUNDS * (90 + lasts + 50 * CALLS))
    found = [each for each in plan.promises if each.proposal.fix == "move-host-phase"]
    assert found
    assert not [each for each in plan.promises if each.proposal.fix == "join-loop"]
    return any("iterations around" in each.proposal.depends_on for each in found)


def test_rounds_that_work_on_what_they_send_may_be_done_at_once() -> None:
    assert all_rounds_at_once()


def test_results_that_are_read_back_may_be_what_the_next_round_works_on() -> None:
    assert not all_rounds_at_once(reads=True)


@pytest.mark.parametrize(("works", "found"), [(NEARLY_ALL * (ROUNDS - 1), True), (ROUNDS - 3, False)])
def test_most_rounds_work(works: float, found: bool) -> None:
    assert all_rounds_at_once(works=round(works + 0.5), lasts=1_000.0) is found


@pytest.mark.parametrize(
    ("weight", "sent", "found"),
    [
        ((64, 32), 4 * 64 * 32, True),
        ((64, 32), 2 * 64 * 32, True),
        ((64, 32), 4 * 64 * 32 + 4, False),
        ((32, 32), 4 * 32 * 32, False),
    ],
    ids=[
        "weights that are sent",
        "of 16 bits",
        "other weights",
        "a state may be as large as what comes of it",
    ],
)
def test_products_of_layers_and_states_stay(weight: tuple[int, int], sent: int, found: bool) -> None:
    assert all_rounds_at_once(weight=weight, sent=sent) is found
