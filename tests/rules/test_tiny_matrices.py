"""Many tiny matrices that are factorised in each call, and what looks like that."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest

from parsers.model import Attribute
from rules.fixes.catalog.tiny_matrices import IndependentNormals
from rules.fixes.plan import Promise
from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body

Step = tuple[str, list[int], float]  # an operator, the shape that it is given, and its time (us)
ROWS, MATRICES = [4096, 6], [4096, 6, 6]
DIAGONAL: Step = ("aten::diag_embed", ROWS, 20.0)
COMPARE: list[Step] = [
    ("aten::isclose", MATRICES, 60.0),
    ("aten::all", MATRICES, 10.0),
    ("aten::is_nonzero", [], 10.0),
]
TRIED: list[Step] = [("aten::linalg_cholesky_ex", MATRICES, 100.0), ("aten::eq", [4096], 5.0)]
FACTOR: Step = ("aten::linalg_cholesky", MATRICES, 100.0)
DRAW: list[Step] = [
    ("aten::normal_", ROWS, 20.0),
    ("aten::matmul", MATRICES, 100.0),
    ("aten::add", ROWS, 20.0),
]
NORMAL = [DIAGONAL, *COMPARE, FACTOR, *DRAW]
OTHER: Step = ("aten::mul", ROWS, 2.0)
PRODUCT: Step = ("aten::mm", [64, 64], 200.0)


def promised(called: Sequence[Step]) -> dict[str, Promise]:
    def body(trace: TinyTrace, _: int) -> None:
        at, on_gpu = 10.0, 20.0
        for name, shape, us in [PRODUCT, PRODUCT, *called]:
            event = np.array([trace.op(at, at + 9, name)])
            text = trace.builder.string(json.dumps([shape, []]))
            trace.builder.attribute(Attribute.INPUT_DIMS, event, text)
            begin = max(on_gpu, at + 6)
            trace.operation(begin, begin + us, f"void {name[6:]}_kernel", at + 1)
            on_gpu = begin + us
            at += 12
        trace.call(at, max(at + 10, on_gpu + 5), "cudaDeviceSynchronize")

    length = 440 + max(sum(each[-1] for each in called), 12.0 * len(called) - 300)
    made = plan_of_body(body, length=length)
    assert made.crashed == ()
    return {each.proposal.fix: each for each in made.promises}


def of(rows: int, side: int) -> list[Step]:
    """The same of so many matrices of so many rows."""
    sizes = {tuple(ROWS): [rows, side], tuple(MATRICES): [rows, side, side]}
    return [(name, sizes.get(tuple(shape), shape), us) for name, shape, us in NORMAL]


@pytest.mark.parametrize(
    ("called", "found"),
    [
        (NORMAL, True),
        ([DIAGONAL, FACTOR, *DRAW], True),
        ([*COMPARE, FACTOR, *DRAW], True),
        ([*TRIED, FACTOR, *DRAW], True),
        ([FACTOR, *DRAW], False),
        ([DIAGONAL, *DRAW], False),
        ([DIAGONAL, *[OTHER] * 3, FACTOR, *DRAW], True),
        ([DIAGONAL, *[OTHER] * 4, FACTOR, *DRAW], False),
        ([*COMPARE, *[OTHER] * 14, FACTOR, *[OTHER] * 20], True),
        ([*COMPARE, *[OTHER] * 15, FACTOR, *[OTHER] * 20], False),
        (of(64, 6), True),
        (of(63, 6), False),
        (of(4096, 32), True),
        (of(4096, 33), False),
    ],
    ids=[
        "diagonal and checked",
        "diagonal",
        "compared with their transposes",
        "factorised to see whether that works",
        "factors of full matrices",
        "diagonal matrices without a factor",
        "three operators behind the diagonal",
        "four",
        "the matrices are checked 16 operators before",
        "17 operators before",
        "64 matrices",
        "63",
        "32 rows",
        "33",
    ],
)
def test_tiny_matrices_that_are_factorised(called: Sequence[Step], found: bool) -> None:
    assert (IndependentNormals.id in promised(called)) is found


def test_of_diagonal_matrices_all_goes_and_of_others_the_checks() -> None:
    diagonal, full = (promised(called)[IndependentNormals.id] for called in (NORMAL, NORMAL[1:]))
    assert diagonal.expected == pytest.approx((440 + 340) / (440 + 40), rel=0.05)
    assert full.expected == pytest.approx((440 + 320) / (440 + 240), rel=0.05)
    added = promised([DIAGONAL, ("aten::add", MATRICES, 20.0), *NORMAL[1:]])[IndependentNormals.id]
    assert added.expected == pytest.approx((440 + 360) / (440 + 280), rel=0.05)
    assert diagonal.proposal.title.startswith(
        "Use independent normal distributions: 4,096 matrices of 6 x 6 are"
    )
    assert full.proposal.title.startswith("Factorise tiny matrices once, and unchecked: 4,096 matrices")
