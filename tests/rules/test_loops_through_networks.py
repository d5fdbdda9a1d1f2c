"""Loops that send one item after another through a network of convolutions."""

from __future__ import annotations

import pytest

from tests.rules.builder import TinyTrace
from tests.rules.test_item_loops import of_body

CONVOLUTION = "void implicit_convolve_sgemm<float, 128, 5>"
ROUNDS = 10
Layer = tuple[str, list[int], list[int]]  # operator, data, weight

WIDER: Layer = "aten::conv2d", [1, 3, 8, 8], [16, 3, 3, 3]
AS_WIDE: Layer = "aten::conv2d", [1, 16, 8, 8], [16, 16, 3, 3]
SMALLER: Layer = "aten::conv2d", [1, 16, 4, 4], [16, 16, 3, 3]
UNKNOWN: Layer = "aten::conv2d", [1, 16, 8, 8], []
OTHER: Layer = "aten::conv2d", [1, 8, 4, 4], [16, 8, 3, 3]
UP: Layer = "aten::conv_transpose2d", [1, 16, 4, 4], [16, 5, 2, 2]
BACK: Layer = "aten::conv_transpose2d", [1, 16, 4, 4], [16, 3, 2, 2]
SCORES: Layer = "aten::linear", [1, 16], [10, 16]
WITHOUT_BATCH: Layer = "aten::conv2d", [3, 8, 8], [16, 3, 3, 3]


def is_loop(*layers: Layer, kernel: str = CONVOLUTION, gathers: bool = False) -> bool:
    """Whether rounds of such layers are items."""

    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        for _round in range(ROUNDS):
            for name, data, weight in layers:
                trace.shapes(trace.op(at, at + 20, name), [data, weight], ["float", "float"])
                trace.kernels(at + 2, 1, 5, 30, kernel)
                at += 30
            if gathers:
                trace.collective(at + 5, at + 10, at, stream=7, size=1_000)
            for number in range(3):
                trace.kernels(at + 12 + 6 * number, 1, 5, 6, f"void {'abc'[number]}_kernel")
            at += 40
        trace.kernels(at, 1, 5, 10, "void last_kernel")

    return bool(of_body(body, length=400 + ROUNDS * (40 + 30 * len(layers))))


@pytest.mark.parametrize(
    ("layers", "found"),
    [
        ((WIDER, SMALLER), True),
        ((WITHOUT_BATCH, SMALLER), True),
        ((WIDER, UP), True),
        ((WIDER, AS_WIDE, SCORES), True),
        ((WIDER, BACK), False),
        ((AS_WIDE, SMALLER), False),
        ((WIDER, AS_WIDE), False),
        ((WIDER, OTHER), False),
        ((WIDER, UNKNOWN), False),
        ((WIDER,), False),
    ],
    ids=[
        "more channels",
        "a picture without a batch",
        "made larger",
        "scores of classes",
        "a picture of a picture",
        "as many channels",
        "a scale and a shift for each pixel",
        "branches",
        "unknown shapes",
        "one layer",
    ],
)
def test_rounds_that_do_not_take_what_the_one_before_gives_are_items(
    layers: tuple[Layer, ...], found: bool
) -> None:
    assert is_loop(*layers) is found


def test_rounds_that_meet_other_ranks_are_layers() -> None:
    assert not is_loop(WIDER, SMALLER, gathers=True)
