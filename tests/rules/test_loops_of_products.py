"""Rounds that multiply matrices and are items all the same: heads of attention, and a few experts."""

from __future__ import annotations

import pytest

from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body
from tests.rules.test_item_loops import PRODUCT, joins, of_body


@pytest.mark.parametrize(
    ("stack", "found"),
    [((4, 10, 32, 64), True), ((4, 9, 32, 64), False), ((4, 11, 32, 64), False), ((40, 1, 32, 64), False)],
    ids=["a head for each round", "fewer heads", "more heads", "no heads"],
)
def test_heads_that_attend_one_by_one_are_items(stack: tuple[int, ...], found: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        for _head in range(10):
            for left, right, then in (
                ([4, 32, 64], [4, 64, 32], "softmax"),
                ([4, 32, 32], [4, 32, 64], "copy"),
            ):
                chosen = trace.op(at, at + 2, "aten::select")
                trace.shapes(chosen, [list(stack), [], []], ["float", "Scalar", "Scalar"])
                product = trace.op(at + 4, at + 24, "aten::bmm")
                trace.shapes(product, [left, right], ["float", "float"])
                trace.kernels(at + 6, 1, 5, 30, PRODUCT)
                trace.kernels(at + 26, 1, 5, 30, f"void {then}_kernel")
                at += 54
        trace.kernels(at, 1, 5, 10, "void last_kernel")

    plan = plan_of_body(body, length=1200)
    assert bool(joins(plan)) is found
    graphs = [each for each in plan.promises if each.proposal.fix == "replay-cuda-graph"]
    assert bool(graphs) is not found, "launches that are not needed are not replayed"


@pytest.mark.parametrize(
    ("experts", "counts", "found"), [(4, True, True), (3, True, True), (2, True, False), (4, False, False)]
)
def test_a_few_experts_are_items_where_each_counts_its_rows(experts: int, counts: bool, found: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        for _layer in range(4):
            trace.kernels(at, 1, 5, 10, "void layer_norm_kernel")
            at += 10
            for _expert in range(experts):
                if counts:
                    trace.op(at, at + 30, "aten::nonzero")
                    trace.kernels(at + 2, 1, 5, 10, "void count_kernel")
                    trace.copy(at + 20, at + 21, "DtoH", at + 12, bytes=8)
                    trace.call(at + 18, at + 25, "cudaStreamSynchronize")
                at += 32
                for name in ("pick", "scale", "put"):
                    trace.kernels(at, 1, 5, 10, f"void {name}_kernel")
                    at += 10
                trace.kernels(at, 1, 5, 10, PRODUCT)
                at += 10
            trace.kernels(at, 1, 5, 10, "void last_kernel")
            at += 10

    assert bool(of_body(body, length=40 + 4 * (20 + 72 * experts))) is found


@pytest.mark.parametrize(
    ("relations", "sampled", "found"), [(16, False, True), (15, False, False), (16, True, False)]
)
def test_relations_whose_rows_are_picked_multiplied_and_put_back_are_items_from_sixteen_on(
    relations: int, sampled: bool, found: bool
) -> None:
    """A network over a graph has fewer layers, and tokens that follow one another are sampled."""
    names = (
        "void vectorized_gather_kernel<16, long>",
        PRODUCT,
        "void softmax_kernel" if sampled else "void scale_kernel",
        "void indexFuncLargeIndex<float, long>",
    )

    def body(trace: TinyTrace, _: int) -> None:
        for place in range(4 * relations):
            trace.kernels(10 + 30 * place, 1, 5, 30, names[place % 4])
        trace.kernels(10 + 120 * relations, 1, 5, 10, "void last_kernel")

    assert bool(of_body(body, length=40 + 120 * relations)) is found
