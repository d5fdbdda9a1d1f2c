"""Loops that cut a batch into chunks: told by the sizes of what is cut and of what each round multiplies."""

from __future__ import annotations

import pytest

from tests.rules.builder import TinyTrace
from tests.rules.test_item_loops import PRODUCT, of_body

ROUNDS = 10


def is_loop(cut: list[int], rows: int = 320, pointwise: int = 3) -> bool:
    """Whether rounds are items that slice such a tensor, multiply so many rows, and call so many pointwise kernels."""

    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        for _round in range(ROUNDS):
            trace.shapes(
                trace.op(at, at + 2, "aten::slice"), [cut, [], [], [], []], ["float", *["Scalar"] * 4]
            )
            product = trace.op(at + 4, at + 24, "aten::mm")
            trace.shapes(product, [[rows, 32], [32, 32]], ["float", "float"])
            trace.kernels(at + 6, 1, 5, 30, PRODUCT)
            for number in range(pointwise):
                trace.kernels(
                    at + 26 + 6 * number, 1, 5, 6, f"void {chr(97 + number % 26) * (1 + number // 26)}_kernel"
                )
            at += 40 + 6 * pointwise
        trace.kernels(at, 1, 5, 10, "void last_kernel")

    return bool(of_body(body, length=400 + ROUNDS * (40 + 6 * pointwise)))


@pytest.mark.parametrize(
    ("cut", "rows", "found"),
    [
        ([3200, 32], 320, True),
        ([2881, 32], 320, True),
        ([2880, 32], 320, False),
        ([3520, 32], 320, True),
        ([3521, 32], 320, False),
        ([320, 10, 32], 320, False),
        ([10, 32], 1, False),
    ],
    ids=[
        "as many",
        "last one short",
        "one chunk less",
        "one more",
        "too many",
        "a column of the batch",
        "single rows",
    ],
)
def test_chunks_of_a_batch_are_items(cut: list[int], rows: int, found: bool) -> None:
    assert is_loop(cut, rows) is found


@pytest.mark.parametrize(("calls", "found"), [(160, True), (161, False)])
def test_rounds_are_as_long_as_a_network_of_ten_layers(calls: int, found: bool) -> None:
    assert is_loop([3200, 32], pointwise=calls - 1) is found
