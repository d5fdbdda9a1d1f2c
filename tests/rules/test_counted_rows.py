"""Loops that count the rows of each item reach over rounds that are unlike the others, as those over experts do."""

from __future__ import annotations

import pytest

from tests.rules.builder import TinyTrace
from tests.rules.test_item_loops import of_body

PRODUCT = "cutlass_80_tensorop_s16816gemm_f16_128x64"
REGULAR = [False] * 16
# which rounds split their product, as libraries do for few rows: no more than four in a row are alike
MIXED = [number % 5 == 4 for number in range(16)]


def titles_and_gains(split: list[bool], *, between: str = "", counts: bool = True) -> list[tuple[str, float]]:
    """What joining says and gives where these rounds of a step split their product, and ``between`` follows each."""

    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0

        def op(name: str, *kernels: str) -> None:
            nonlocal at
            trace.op(at - 1, at - 2 + 10 * len(kernels), name)
            for each in kernels:
                trace.kernels(at, 1, 2, 10, each)
                at += 10

        for splits in split:
            if counts:
                trace.op(at - 1, at + 28, "aten::nonzero")
                trace.kernels(at, 1, 2, 10, "void count_kernel")
                at += 10
                trace.copy(at + 8, at + 9, "DtoH", at, bytes=8)
                trace.call(at + 6, at + 14, "cudaStreamSynchronize")
                at += 20
            op("aten::index", "void gather_kernel")
            op("aten::mm", PRODUCT, *["void reduce_splits"] * splits)
            op("aten::silu", "void vectorized_elementwise_kernel<4, at::native::Silu>")
            op("aten::mm", PRODUCT)
            op("aten::index_add_", "void scatter_kernel")
            if splits and between:
                op(between, "void another_kernel")
        trace.kernels(at + 40, 1, 5, 10, "void last_kernel")

    length = 200 + len(split) * (60 + 30 * counts) + sum(split) * (10 + 10 * bool(between))
    return [(each.proposal.title, each.expected) for each in of_body(body, length=length)]


def test_rounds_that_split_their_product_are_of_the_same_loop() -> None:
    ((_, regular),) = titles_and_gains(REGULAR)
    ((title, mixed),) = titles_and_gains(MIXED)
    assert "16 items" in title
    assert mixed > 0.8 * regular


def test_a_loop_ends_where_something_else_is_called() -> None:
    found = titles_and_gains(MIXED, between="aten::layer_norm")
    assert not any("16 items" in title for title, _ in found)


@pytest.mark.parametrize(("counts", "found"), [(True, True), (False, False)])
def test_only_rounds_that_count_rows_show_that_items_differ(counts: bool, found: bool) -> None:
    assert any("16 items" in title for title, _ in titles_and_gains(MIXED, counts=counts)) is found
