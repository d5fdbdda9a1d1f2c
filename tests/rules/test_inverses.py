"""Matrices that are inverted on the GPU to be multiplied by a vector, and what looks like it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rules.fixes.catalog.written_out import SolveInstead
from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body
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


def gain(called: Sequence[Called], which: str = "expected") -> float:
    program = Program(called)
    replay = plan_of_body(program.body, length=program.length_us).replay
    (made,) = SolveInstead().proposals(replay.analysis, replay)
    return replay.gain([getattr(made, which)])


@pytest.mark.parametrize(
    ("called", "low_us", "left_us", "high_us"),
    [
        (INVERTED, 333, 333, 167),
        ([*INVERTED, DETERMINANT], 333, 167, 167),
        ([*INVERTED, Called("aten::logdet", ([65, 65],), 600)], 933, 933, 767),
        ([*INVERTED, GRADIENTS[1]], 333, 333, 333),
        ([*INVERTED, DETERMINANT, *GRADIENTS], 1_333, 1_167, 1_167),
    ],
    ids=["the inverse", "its determinant", "that of another matrix", "its gradient", "with gradients"],
)
def test_a_factor_takes_a_third_of_an_inverse_and_nothing_of_its_determinant(
    called: Sequence[Called], low_us: float, left_us: float, high_us: float
) -> None:
    others = 494  # us: products, and the ends of a step
    whole = others + sum(each.us for each in called if each is not INVERTED[1])
    for which, us in (("low", low_us), ("expected", left_us), ("high", high_us)):
        assert gain(called, which) == pytest.approx(whole / (others + us), rel=0.01)


def test_what_factorizes_the_matrix_stays_where_it_is_told_apart() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.shapes(trace.op(0, 100, "aten::inverse"), [ROWS], ["float"])
        trace.op(10, 30, "aten::linalg_lu_factor_ex")
        trace.operation(30, 630, "getrf_kernel", 15)
        trace.operation(630, 1_030, "trsm_kernel", 50)
        trace.shapes(trace.op(110, 130, "aten::matmul"), [[1, 64], ROWS], ["float"] * 2)
        trace.operation(1_030, 1_230, PRODUCT, 115)
        trace.call(140, 1_240, "cudaDeviceSynchronize")

    replay = plan_of_body(body, count=10, length=1_300).replay
    (made,) = SolveInstead().proposals(replay.analysis, replay)
    after = replay.overlay([made.expected])
    assert (after.duration / replay.usual.duration)[:3].tolist() == pytest.approx([1, 0, 1])


def test_determinants_are_named_where_they_go_too() -> None:
    alone, both = (
        Program(each).promises()[SolveInstead.id].proposal.title
        for each in (INVERTED, [*INVERTED, DETERMINANT])
    )
    assert alone.endswith("goes to inverses")
    assert both.endswith("goes to inverses and determinants")
