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


@pytest.mark.parametrize(
    ("whole", "piece", "behind", "found"),
    [
        ([20, 64, 32], [2, 64, 32], "cat", True),
        ([19, 64, 32], [2, 64, 32], "cat", True),
        ([18, 64, 32], [2, 64, 32], "cat", False),
        ([22, 64, 32], [2, 64, 32], "cat", True),
        ([23, 64, 32], [2, 64, 32], "cat", False),
        ([10, 64, 32], [1, 64, 32], "cat", False),
        ([64, 20, 32], [64, 2, 32], "cat", False),
        ([20, 64, 32], [2, 64, 32], "add", False),
    ],
    ids=[
        "as many",
        "last one short",
        "one chunk less",
        "one more",
        "too many",
        "single rows",
        "columns",
        "not put together",
    ],
)
def test_layers_that_take_chunks_of_one_tensor_are_items(
    whole: list[int], piece: list[int], behind: str, found: bool
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        cut = trace.op(6, 8, "aten::split")
        trace.shapes(cut, [whole, [], []], ["float", "Scalar", "Scalar"])
        at = 10.0
        for _round in range(ROUNDS):
            layer = trace.op(at, at + 20, "aten::linear")
            trace.shapes(layer, [piece, [32, 32]], ["float", "float"])
            trace.kernels(at + 2, 1, 5, 30, PRODUCT)
            trace.kernels(at + 22, 1, 5, 30, "void flash_fwd_kernel")
            trace.kernels(at + 42, 1, 5, 30, "void scale_kernel")
            at += 60
        trace.op(at - 5, at + 5, f"aten::{behind}")
        trace.kernels(at, 1, 5, 10, "void last_kernel")

    assert bool(of_body(body, length=100 + ROUNDS * 60)) is found


@pytest.mark.parametrize(("layers", "found"), [(9, True), (10, False)])
def test_as_many_layers_as_chunks_leave_open_which_are_items(layers: int, found: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        for _layer in range(layers):
            layer = trace.op(at, at + 20, "aten::linear")
            trace.shapes(layer, [[20, 64, 32], [32, 32]], ["float", "float"])
            trace.kernels(at + 2, 1, 5, 30, PRODUCT)
            trace.kernels(at + 22, 1, 5, 30, "void layer_norm_kernel")
            trace.kernels(at + 42, 1, 5, 30, "void gelu_kernel")
            at += 60
        cut = trace.op(at, at + 2, "aten::split")
        trace.shapes(cut, [[20, 64, 32], [], []], ["float", "Scalar", "Scalar"])
        trace.kernels(at + 4, 1, 5, 10, "void first_kernel")
        at += 10
        for _round in range(ROUNDS):
            layer = trace.op(at, at + 20, "aten::linear")
            trace.shapes(layer, [[2, 64, 32], [32, 32]], ["float", "float"])
            trace.kernels(at + 2, 1, 5, 30, PRODUCT)
            trace.kernels(at + 22, 1, 5, 30, "void flash_fwd_kernel")
            trace.kernels(at + 42, 1, 5, 30, "void scale_kernel")
            at += 60
        trace.op(at - 5, at + 5, "aten::cat")
        trace.kernels(at, 1, 5, 10, "void last_kernel")

    assert bool(of_body(body, length=120 + (layers + ROUNDS) * 60)) is found
