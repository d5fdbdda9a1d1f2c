"""Weights that do not change, and are normalised or converted inside of each call."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

from parsers.model import Attribute
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.analysis.recording.training import is_training
from rules.fixes.plan import Promise
from tests.rules.builder import TinyTrace, steps
from tests.rules.test_fixes import plan_of_body

Body = Callable[[TinyTrace, int], None]
NORMALISES = "void at::native::weight_norm_fwd_first_dim_kernel<float, float>"
LAYERS, LONG = 20, 40.0  # us from one layer to the next


def normalising(*, also: str = "some_other_kernel", every: int = 1) -> Body:
    """Each layer normalises its weights and multiplies; the CPU is the limit."""

    def body(trace: TinyTrace, index: int) -> None:
        trace.op(0, 1, "aten::conv1d")
        for layer in range(LAYERS):
            at = 5 + layer * LONG
            if index % every == 0:
                trace.operation(at + 26, at + 28, NORMALISES, at + 20)
            trace.operation(at + 36, at + 38, "sm80_gemm", at + 30)
        trace.operation(LAYERS * LONG + 20, LAYERS * LONG + 22, f"void {also}", LAYERS * LONG + 10)
        trace.call(LAYERS * LONG + 16, LAYERS * LONG + 30, "cudaDeviceSynchronize")

    return body


def promised(body: Body, fix: str, count: int = 6, length: float = LAYERS * LONG + 40) -> list[Promise]:
    plan = plan_of_body(body, count=count, length=length)
    return [each for each in plan.promises if each.proposal.fix == fix]


@pytest.mark.parametrize(
    ("body", "count", "found"),
    [
        (normalising(), 6, True),
        (normalising(also="batch_norm_backward_kernel"), 6, False),
        (normalising(every=2), 6, False),
        (normalising(), 1, False),
    ],
    ids=["in each call", "while training", "in every second step", "of a single step"],
)
def test_weights_that_are_normalised_in_each_call(body: Body, count: int, found: bool) -> None:
    assert bool(promised(body, "fold-weight-norm", count)) is found


def test_the_time_before_their_launches_goes_or_stays() -> None:
    (made,) = promised(normalising(), "fold-weight-norm")
    assert made.low < 1.3 < made.expected
    assert made.proposal.title.endswith(f"{LAYERS} weights are normalised again in a step")
    trace = steps(6, LAYERS * LONG + 40, normalising()).build()
    assert any(each.title.startswith("Weights are normalised again") for each in diagnose(trace).findings)


@pytest.mark.parametrize(
    ("kernel", "trains"),
    [
        ("cudnn::detail::dgrad_engine<float>", False),
        ("cudnn::wgrad_engine<float>", True),
        ("cutlass_tensorop_f16_s16816fprop_optimized_f16_64x64_64x5_nhwc_align8", False),
        ("optimizer_step_kernel", True),
    ],
)
def test_an_optimized_or_transposed_convolution_is_no_training(kernel: str, trains: bool) -> None:
    """Forwards, a transposed one is what gives another convolution its gradient."""

    def body(trace: TinyTrace, _: int) -> None:
        trace.operation(10, 20, f"void {kernel}", 2)

    assert is_training(Analysis(steps(3, 100, body).build())) is trains


WEIGHT, DATA = [128, 64, 3, 3], [8, 64, 32, 32]
LAYER = ("aten::conv2d", [DATA, WEIGHT])
BEFORE = ("aten::relu", [DATA])
MULTIPLY = ("aten::mv", [[128, 576], [576]])
DIVIDE = ("aten::div", [WEIGHT, []])


def making(called: list[tuple[str, list[list[int]]]], *, trains: bool = False) -> Body:
    """Ten times these operators, each of which launches a kernel of 2 us."""

    def body(trace: TinyTrace, _: int) -> None:
        at = 5.0
        for name, shapes in called * 10:
            event = np.array([trace.op(at, at + 9, name)])
            text = trace.builder.string(json.dumps(shapes))
            trace.builder.attribute(Attribute.INPUT_DIMS, event, text)
            trace.operation(at + 6, at + 8, "void a_kernel", at + 1)
            at += 12
        trace.operation(at + 6, at + 8, "void conv_backward" if trains else "void last", at + 1)
        trace.call(at + 8, at + 14, "cudaDeviceSynchronize")

    return body


@pytest.mark.parametrize(
    ("called", "found"),
    [
        ([BEFORE, MULTIPLY, DIVIDE, LAYER], True),
        ([BEFORE, DIVIDE, LAYER], True),
        ([BEFORE, DIVIDE, ("aten::view", [WEIGHT]), LAYER], True),
        ([DIVIDE, BEFORE, LAYER], False),
        ([BEFORE, MULTIPLY, LAYER], False),
        ([BEFORE, ("aten::to", [WEIGHT]), DIVIDE, LAYER], False),
        ([BEFORE, ("aten::mm", [[128, 4], [4, 576]]), DIVIDE, LAYER], False),
        ([BEFORE, DIVIDE, ("aten::conv2d", [WEIGHT, WEIGHT])], False),
    ],
    ids=[
        "spectral_norm",
        "scaled",
        "scaled and seen otherwise",
        "data in between",
        "nothing of their sizes",
        "converted",
        "a low-rank update",
        "data of as many elements",
    ],
)
def test_weights_that_are_computed_of_others_before_each_layer(
    called: list[tuple[str, list[list[int]]]], found: bool
) -> None:
    length = len(called) * 120 + 40
    assert bool(promised(making(called), "fold-weight-norm", length=length)) is found
    assert not promised(making(called, trains=True), "fold-weight-norm", length=length)


def test_what_computes_weights_has_a_name_of_its_own() -> None:
    """All but the layers and what comes before them goes."""
    for before, title in ((MULTIPLY, "parametrisation"), (("aten::dot", [[576], [576]]), "normalisation")):
        called = [BEFORE, before, DIVIDE, LAYER]
        (made,) = promised(making(called), "fold-weight-norm", length=520)
        assert made.proposal.title.startswith(f"Fold the weight {title} into the weights: 10 weights")
        assert made.low < 1.3 < made.expected < 2.2


@pytest.mark.parametrize(
    ("shape", "numbers", "product", "found"),
    [
        (WEIGHT, (7, 7, 7), "aten::conv2d", True),
        (WEIGHT, (7, 7, 8), "aten::conv2d", True),
        (WEIGHT, (7, 8, 8), "aten::conv2d", False),
        (DATA, (7, 7, 7), "aten::conv2d", False),
        (WEIGHT, (7, 7, 7), "aten::relu", False),
    ],
    ids=["frozen", "only its data has a gradient", "its gradient is needed", "data", "no product"],
)
def test_weights_that_autocast_converts_inside_of_a_product(
    shape: list[int], numbers: tuple[int, int, int], product: str, found: bool
) -> None:
    def operator(
        trace: TinyTrace, at: float, end: float, name: str, dims: list[list[int]], number: int
    ) -> None:
        event = trace.op(at, end, name)
        trace.shapes(event, dims, ["float"] * len(dims))
        trace.builder.attribute(Attribute.SEQUENCE, np.array([event]), number)

    def body(trace: TinyTrace, _: int) -> None:
        for layer in range(LAYERS):
            at, first = 5 + layer * LONG, 10 + layer * 50
            operator(trace, at, at + 30, product, [DATA, WEIGHT], numbers[0])
            operator(trace, at + 1, at + 10, "aten::to", [shape], numbers[0])
            operator(trace, at + 2, at + 9, "aten::_to_copy", [shape], numbers[0])
            trace.operation(first, first + 15, "void direct_copy_kernel", at + 3)
            operator(trace, at + 11, at + 14, "aten::to", [[8, 64, 30, 30]], numbers[1])
            operator(trace, at + 15, at + 29, product, [DATA, WEIGHT], numbers[2])
            trace.operation(first + 15, first + 48, "sm80_xmma_fprop", at + 16)
        trace.call(LAYERS * LONG + 8, LAYERS * 50 + 20, "cudaDeviceSynchronize")

    plan = plan_of_body(body, length=LAYERS * 50 + 30)
    assert ("convert-once" in [each.proposal.fix for each in plan.promises]) is found
