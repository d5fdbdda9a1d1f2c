"""Loops that take one row of a stack after another, multiply it, and read back what comes of it."""

from __future__ import annotations

from typing import Any

import pytest

from rules.fixes.loops.independent_rounds import MIN_ROUNDS
from rules.fixes.plan import Promise
from tests.rules.builder import TinyTrace
from tests.rules.test_item_loops import PRODUCT, of_body

UNBIND = "aten::unbind"
VECTOR = [[[500, 32], [32]]]
TWO_LAYERS = [[[1, 32], [32, 64]], [[1, 64], [64, 32]]]
WITH_A_STATE = [[[1, 32], [32, 64]], [[1, 32], [32, 64]]]


def is_loop(products: list[list[list[int]]], **changed: Any) -> bool:
    """Whether rounds are items that pick a row of 32 numbers, multiply with such shapes, and read a value back."""
    return bool(joined(products, **changed))


def joined(
    products: list[list[list[int]]],
    *,
    rounds: int = 20,
    stack: int = 20,
    picks: str = "aten::select",
    reads: bool = True,
    busy: float = 5.0,
    before: int = 0,
) -> list[Promise]:
    """What is promised of such rounds; a product keeps the GPU busy for so many us.

    ``aten::unbind`` picks all rows, so many other operators before the first round.
    """

    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        if picks == UNBIND:
            trace.shapes(trace.op(1, 4, picks), [[stack, 32], []], ["float", "Scalar"])
            for row in range(2 * rounds):
                begin = 1.1 + row * 2.8 / (2 * rounds)
                trace.op(begin, begin + 0.01, ("aten::select", "aten::as_strided")[row % 2])
            for other in range(before):
                trace.op(4.1 + other * 0.05, 4.12 + other * 0.05, "aten::detach")
        for _round in range(rounds):
            if picks != UNBIND:
                shapes = [[stack, 32], [], []]
                trace.shapes(trace.op(at, at + 2, picks), shapes, ["float", "Scalar", "Scalar"])
            for shapes in products:
                name = "aten::mm" if len(shapes[0]) == len(shapes[1]) else "aten::mv"
                trace.shapes(trace.op(at + 4, at + 24, name), shapes, ["float", "float"])
                trace.kernels(at + 6, 1, busy, 30, PRODUCT)
                at += 26
            for number in range(4):
                trace.kernels(at + 6 * number, 1, 5, 6, f"void {'abcd'[number]}_kernel")
            if reads:
                trace.copy(at + 42, at + 43, "DtoH", at + 30, bytes=8)
                trace.call(at + 40, at + 47, "cudaStreamSynchronize")
            at += 50
        trace.kernels(at, 1, 5, 10, "void last_kernel")

    return of_body(body, length=400 + rounds * (50 + 26 * len(products)))


@pytest.mark.parametrize("picks", ["aten::select", "aten::slice", UNBIND])
@pytest.mark.parametrize("products", [VECTOR, TWO_LAYERS], ids=["a vector", "a network"])
def test_rows_that_go_through_the_same_products_are_items(
    products: list[list[list[int]]], picks: str
) -> None:
    assert is_loop(products, picks=picks)


@pytest.mark.parametrize(("before", "found"), [(60, True), (66, False)])
def test_rows_are_cut_right_in_front_of_the_loop(before: int, found: bool) -> None:
    assert is_loop(VECTOR, picks=UNBIND, before=before) is found


def test_a_matrix_is_read_once_for_all_vectors() -> None:
    """A product of two matrices takes the GPU as long for all rows, as far as anybody knows."""
    (vectors,) = joined(VECTOR, busy=40.0)
    (matrices,) = joined([[[1, 32], [32, 64]]], busy=40.0)
    assert vectors.expected > 1.5 * matrices.expected > 1.5


def test_a_product_of_what_the_round_did_not_make_may_be_of_a_state() -> None:
    assert not is_loop(WITH_A_STATE)


def test_results_that_stay_on_the_gpu_may_be_a_state() -> None:
    assert not is_loop(TWO_LAYERS, reads=False)


@pytest.mark.parametrize(("stack", "found"), [(19, False), (20, True), (64, True)])
def test_a_stack_has_a_row_for_each_round(stack: int, found: bool) -> None:
    assert is_loop(TWO_LAYERS, stack=stack) is found


@pytest.mark.parametrize(("rounds", "found"), [(MIN_ROUNDS, True), (MIN_ROUNDS - 1, False)])
def test_there_are_as_many_rounds_as_no_model_has_layers(rounds: int, found: bool) -> None:
    assert is_loop(TWO_LAYERS, rounds=rounds) is found
