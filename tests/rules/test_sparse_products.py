"""Sparse matrices that products sort again and again."""

from __future__ import annotations

import pytest

from rules.fixes.plan import Plan
from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body


def products(
    times: int = 4,
    *,
    product: str = "aten::_sparse_mm",
    sorts: str = "aten::_coalesce",
    sizes: tuple[int, ...] = (1000,),
    sorting_us: float = 300.0,
    shapes: bool = True,
) -> Plan:
    """Steps with so many products of 100 us, each of which sorts one of some matrices first, and 200 us of others."""

    def body(trace: TinyTrace, _: int) -> None:
        on_gpu = 20.0
        for place in range(times):
            at = 10.0 + 40 * place
            size = sizes[place % len(sizes)]
            whole = trace.op(at, at + 30, product)
            inner = trace.op(at + 1, at + 15, sorts)
            if shapes:
                trace.shapes(whole, [[size, size], [size, 32]], ["float", "float"])
                trace.shapes(inner, [[size, size]], ["float"])
            for name, us, launched in (("MergeSortKernel", sorting_us, 2), ("csrmm_kernel", 100.0, 20)):
                trace.operation(on_gpu, on_gpu + us, name, at + launched)
                on_gpu += us
        for place in range(4):
            at = 10.0 + 40 * (times + place)
            trace.op(at, at + 9, "aten::relu")
            trace.operation(on_gpu, on_gpu + 50, "void vectorized_elementwise_kernel<4>", at + 2)
            on_gpu += 50
        trace.call(10.0 + 40 * (times + 4), on_gpu + 5, "cudaDeviceSynchronize")

    made = plan_of_body(body, length=max(20 + times * (sorting_us + 100) + 250, 500))
    assert made.crashed == ()
    return made


def is_found(plan: Plan) -> bool:
    return any(each.proposal.fix == "coalesce-once" for each in plan.promises)


def test_sorting_goes_and_products_take_half() -> None:
    plan = products()
    (made,) = (each for each in plan.promises if each.proposal.fix == "coalesce-once")
    assert "4 times in a step" in made.proposal.title
    assert made.expected == pytest.approx(1_815 / (1_815 - 1_200 - 200), rel=0.04)
    assert made.proposal.low is not None
    assert plan.replay.gain([made.proposal.low]) == pytest.approx(1_815 / (1_815 - 900), rel=0.04)


@pytest.mark.parametrize(
    ("plan", "found"),
    [
        (lambda: products(2), True),
        (lambda: products(1), False),
        (lambda: products(shapes=False), True),
        (lambda: products(product="aten::addmm"), True),
        (lambda: products(product="aten::coalesce"), False),
        (lambda: products(sorts="aten::sort"), False),
        (lambda: products(sizes=(1000, 2000)), True),
        (lambda: products(sizes=(1000, 2000, 3000, 4000)), False),
        (lambda: products(sorting_us=9.0), True),
        (lambda: products(sorting_us=7.0), False),
    ],
    ids=[
        "two in a step",
        "one in a step",
        "no shapes",
        "a product with something added",
        "sorted on its own, as gradients are",
        "another sort",
        "two matrices in turn",
        "another matrix each time",
        "a twentieth of the GPU's time",
        "less than that",
    ],
)
def test_matrices_that_products_sort(plan: object, found: bool) -> None:
    assert callable(plan)
    assert is_found(plan()) is found
