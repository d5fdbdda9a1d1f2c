"""Columns of a table that go through modules of their own: of several types, and back to their gradients."""

from __future__ import annotations

import pytest

from rules.fixes.plan import Promise
from tests.rules.builder import TinyTrace
from tests.rules.test_item_loops import PRODUCT, of_body

ROWS, WIDTH, COLUMNS = 256, 64, 20


def columns(
    gathered: tuple[int, int] = (COLUMNS, WIDTH), come: int = 1, looked_up: int = 0, between: int = 0
) -> list[Promise]:
    """Each column is multiplied by weights; a gradient of so many elements is gathered so often behind all of them.

    As many columns are ``looked_up`` before, and so many other kernels run ``between``.
    """

    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        for _column in range(looked_up):
            trace.op(at, at + 2, "aten::select")
            trace.kernels(at + 3, 1, 5, 10, "void index_elementwise_kernel")
            at += 15
        for _other in range(between):
            trace.kernels(at, 1, 5, 10, "void other_kernel")
            at += 15
        for _column in range(COLUMNS):
            product = trace.op(at, at + 20, "aten::addmm")
            trace.shapes(product, [[WIDTH], [ROWS, come], [come, WIDTH]], ["float"] * 3)
            trace.kernels(at + 2, 1, 5, 10, PRODUCT)
            trace.kernels(at + 22, 1, 5, 10, "void cast_kernel")
            at += 40
        trace.op(at, at + 5, "aten::stack")
        trace.kernels(at, 1, 5, 10, "void last_kernel")
        for _ in range(gathered[0]):
            at += 10
            gathers = trace.op(at, at + 5, "torch::autograd::AccumulateGrad")
            trace.shapes(gathers, [[gathered[1]]], ["float"])

    return of_body(body, length=3_000)


@pytest.mark.parametrize(
    ("gathered", "come", "found"),
    [
        ((COLUMNS, WIDTH), 1, True),
        ((COLUMNS // 2, WIDTH), 1, False),
        ((COLUMNS, WIDTH + 1), 1, False),
        ((COLUMNS, WIDTH * WIDTH), WIDTH, False),
    ],
    ids=["weights of their own", "half of them share weights", "gradients of something else", "layers"],
)
def test_one_product_in_a_round_with_weights_of_its_own_is_an_item(
    gathered: tuple[int, int], come: int, found: bool
) -> None:
    assert bool(columns(gathered, come)) is found


@pytest.mark.parametrize(("between", "together"), [(0, True), (1, False)])
def test_loops_with_no_call_between_them_go_over_one_list(between: int, together: bool) -> None:
    titles = [each.proposal.title for each in columns(looked_up=30, between=between)]
    assert any("loops of 20 to 30 iterations" in each for each in titles) is together
    assert len(titles) == (1 if together else 2)
