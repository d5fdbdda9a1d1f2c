"""Products of all positions of which a few are read, and what looks like them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.rules.test_fixes import plan_of_body
from tests.rules.test_written_forms import PRODUCT, Called, Program, changed

HIDDEN, TABLE, ALL = [4, 128, 64], [1000, 64], [4, 128, 1000]
NONE = Called("aten::relu", ([64, 64],))
SCORED = [
    Called("aten::linear", (HIDDEN, TABLE, []), 200, PRODUCT),
    Called("aten::to", (ALL, [], [], [], []), 100),
    Called("aten::select", (ALL, [], [])),
    Called("aten::topk", ([4, 1000], [], [], [], []), 20),
]
SLICED = [
    *SCORED[:2],
    Called("aten::slice", (ALL, [], [], [], [])),
    Called("aten::slice", (ALL, [], [], [], [])),
    Called("aten::slice", ([4, 1, 1000], [], [], [], [])),
    Called("aten::softmax", ([4, 1, 1000], [], []), 20),
]


def is_found(called: Sequence[Called]) -> bool:
    return "multiply-what-is-read" in Program(called).promises()


@pytest.mark.parametrize(
    ("called", "found"),
    [
        (SCORED, True),
        (SLICED, True),
        (changed(SCORED, 0, name="aten::matmul", shapes=(HIDDEN, [64, 1000])), True),
        (changed(SCORED, 0, name="aten::addmm", shapes=([1000], [512, 64], [64, 1000], [], [])), True),
        (changed(SCORED, 2, name="aten::index", shapes=(ALL, [])), True),
        ([*SCORED, Called("aten::sum", (ALL, [], []), 20)], False),
        ([*SCORED, Called("aten::cat", ([ALL, ALL], []), 20)], False),
        (changed(SCORED, 1, name="aten::argmax"), False),
        ([SCORED[0], SCORED[3]], False),
        (changed(SCORED, 2, name="aten::transpose"), False),
        (changed(SCORED, 3, shapes=([4, 500], [], [], [], [])), False),
        (changed(SCORED, 0, shapes=(HIDDEN, [4, 1000, 64], [])), False),
        ([*SCORED[:3], *[NONE] * 3, SCORED[3]], True),
        ([*SCORED[:3], *[NONE] * 4, SCORED[3]], False),
    ],
    ids=[
        "the last position",
        "slices",
        "a product without a bias",
        "rows of one matrix",
        "a mask",
        "all are read later",
        "all are kept",
        "all are read before",
        "none is picked",
        "turned",
        "a part of each row",
        "no matrix of weights",
        "read four operators later",
        "read too far behind",
    ],
)
def test_scores_of_all_positions(called: Sequence[Called], found: bool) -> None:
    assert is_found(called) is found


@pytest.mark.parametrize(("rows", "found"), [(256, True), (260, False)])
def test_half_of_the_rows_are_read_at_most(rows: int, found: bool) -> None:
    assert is_found(changed(SCORED, 3, shapes=([rows, 1000], [], [], [], []))) is found


def test_every_position_picked_in_turn_is_read() -> None:
    picked = [each for _ in range(64) for each in SCORED[2:]]
    assert is_found([*SCORED[:2], *picked])
    assert not is_found([*SCORED[:2], *picked, *SCORED[2:]])


@pytest.mark.parametrize(("product", "found"), [(14.6, True), (13.6, False)])
def test_products_take_a_fiftieth_of_the_gpus_time(product: float, found: bool) -> None:
    assert is_found([*changed(SCORED, 0, us=product), Called("aten::relu", ([64, 64],), 180)]) is found


@pytest.mark.parametrize(("us", "found"), [(13.6, True), (12.0, False)])
def test_products_and_what_follows_take_a_twentieth(us: float, found: bool) -> None:
    called = [replace(each, us=us if at < 2 else 0) for at, each in enumerate(SCORED)]
    assert is_found([*called, Called("aten::relu", ([64, 64],), 100)]) is found


def left_us(called: Sequence[Called], only: str = "") -> float:
    """What remains of the time of the operators in a step, of which some take another time."""
    program = Program(called)
    plan = plan_of_body(program.body, length=program.length_us)
    (made,) = (each.proposal for each in plan.promises if each.proposal.fix == "multiply-what-is-read")
    assert only in made.title
    return float(plan.replay.overlay([made.expected]).duration.sum() / plan.replay.steps / 1_000)


def test_the_part_that_is_read_remains() -> None:
    quarter = changed(SCORED, 3, shapes=([128, 1000], [], [], [], []))
    assert left_us(quarter, "25 % are read") == pytest.approx(400 + 20 + 300 / 4, rel=0.01)


def test_a_product_of_few_rows_still_reads_its_weights() -> None:
    """40 MB, at half of 3.35 TB/s; where the type is not known, numbers of a byte."""
    wide = changed(SCORED, 0, shapes=([4, 128, 40_000], [1000, 40_000], []))
    assert left_us(wide) == pytest.approx(400 + 20 + 40e6 / 3.35e6 * 2 + 100 / 128, rel=0.01)


def test_gradients_are_of_all_positions() -> None:
    backward = Called("ReluBackward0", (HIDDEN,), 30, number=7, backward=True)
    assert not is_found([*SCORED, backward])
