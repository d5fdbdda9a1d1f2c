"""Matrices that are inverted on the GPU to be multiplied by a vector, and what looks like it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rules.fixes.catalog.written_out import SolveInstead
from tests.rules.test_written_forms import PRODUCT, Called, Program, changed

ROWS = [64, 64]
SCALED = Called("aten::mul", (ROWS, []), 5)
INVERTED = [
    Called("aten::inverse", (ROWS,), 1_000, number=1),
    Called("aten::matmul", ([1, 64], ROWS), 5, PRODUCT, number=2),
]
DETERMINANT = Called("aten::logdet", (ROWS,), 600, number=3)
GRADIENTS = [
    Called("LinalgSlogdetBackward0", us=600, number=3, backward=True),
    Called("LinalgInvExBackward0", us=1_000, number=1, backward=True),
]


@pytest.mark.parametrize(
    ("called", "found"),
    [
        (INVERTED, True),
        (changed(INVERTED, 0, name="aten::linalg_inv"), True),
        (changed(INVERTED, 0, name="aten::cholesky_solve"), False),
        (
            changed(INVERTED, 0, shapes=([63, 63],))[:1]
            + changed(INVERTED, 1, shapes=([1, 63], [63, 63]))[1:],
            False,
        ),
        (changed(INVERTED, 1, shapes=([32, 64], ROWS)), True),
        (changed(INVERTED, 1, shapes=([33, 64], ROWS)), False),
        ([INVERTED[0], *[SCALED] * 3, INVERTED[1]], True),
        ([INVERTED[0], *[SCALED] * 4, INVERTED[1]], False),
        (changed(INVERTED, 0, us=60), True),
        (changed(INVERTED, 0, us=15), False),
    ],
    ids=[
        "inverted",
        "by another name",
        "solved",
        "few rows",
        "half as many columns",
        "more columns",
        "scaled before",
        "far behind",
        "enough of the step",
        "too little",
    ],
)
def test_an_inverse_that_only_meets_a_vector(called: Sequence[Called], found: bool) -> None:
    assert (SolveInstead.id in Program(called).promises()) is found
    assert SolveInstead.id not in Program(called, shapes=False).promises()


def gain(called: Sequence[Called]) -> float:
    return Program(called).promises()[SolveInstead.id].expected


@pytest.mark.parametrize(
    ("called", "left_us"),
    [
        (INVERTED, 850),
        ([*INVERTED, DETERMINANT], 850),
        ([*INVERTED, Called("aten::logdet", ([65, 65],), 600)], 1_450),
        ([*INVERTED, DETERMINANT, *GRADIENTS], 1_300),
    ],
    ids=["the inverse", "its determinant", "that of another matrix", "with gradients"],
)
def test_a_factor_leaves_less_than_half_of_an_inverse_and_nothing_of_its_determinant(
    called: Sequence[Called], left_us: float
) -> None:
    whole = 400 + sum(each.us for each in called)
    assert gain(called) == pytest.approx(whole / left_us, rel=0.1)


def test_determinants_are_named_where_they_go_too() -> None:
    alone, both = (
        Program(each).promises()[SolveInstead.id].proposal.title
        for each in (INVERTED, [*INVERTED, DETERMINANT])
    )
    assert alone.endswith("goes to inverses")
    assert both.endswith("goes to inverses and determinants")
