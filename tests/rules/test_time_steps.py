"""Cells of recurrent layers that are called for one time step after another."""

from __future__ import annotations

import numpy as np
import pytest

from parsers.model import Attribute
from rules.fixes.plan import Promise
from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body


def of_cells(
    cells: int = 20, cell: str = "aten::lstm_cell", *, between: int = 0, before: float = 0.0
) -> list[Promise]:
    """Steps of so many cells of three launches; of ten of them so many are followed by another operator.

    Before the first cell the CPU does something of its own for so long.
    """

    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 1, 5, 20, "void first_kernel")
        at = 40 + before
        for number in range(cells):
            trace.op(at, at + 58, cell)
            for place in range(3):
                trace.kernels(at + 5 + 20 * place, 1, 5, 20, f"void kernel_{place}")
            at += 60
            if number % 10 < between:
                trace.op(at, at + 18, "aten::argmax")
                trace.kernels(at + 5, 1, 5, 20, "void argmax_kernel")
                at += 20
        trace.kernels(at + 5, 1, 5, 20, "void last_kernel")

    length = 60 + before + cells * 60 + cells * between / 10 * 20
    plan = plan_of_body(body, length=length)
    assert plan.crashed == ()
    return [each for each in plan.promises if each.id.startswith("one-layer-for-all-steps")]


@pytest.mark.parametrize(
    ("cells", "cell", "between", "found"),
    [
        (8, "aten::gru_cell", 0, True),
        (7, "aten::gru_cell", 0, False),
        (20, "aten::lstm_cell", 8, True),
        (20, "aten::lstm_cell", 10, False),
        (20, "aten::rnn_relu_cell", 0, True),
        (20, "aten::linear", 0, False),
    ],
)
def test_eight_cells_with_hardly_anything_between_are_one_layer(
    cells: int, cell: str, between: int, found: bool
) -> None:
    assert bool(of_cells(cells, cell, between=between)) is found


def test_a_tenth_of_the_host_time_of_cells_remains_and_all_work_of_the_gpu() -> None:
    (alone,) = of_cells()
    assert "called 20 times in a step, with 60 launches" in alone.proposal.title
    # 60 kernels of 5 us each, one after another without a pause, are longer than a tenth of 1,200 us of calls
    assert alone.expected == pytest.approx(2.0, rel=0.15)
    (behind,) = of_cells(before=2_400)
    assert 1.1 < behind.expected < 1.35


STEP, STATE = [64, 1, 32], [2, 64, 128]
GATES = [[384, 32], [384, 128], [384], [384], [384, 128], [384, 128], [384], [384]]


def layers(
    calls: int = 20,
    *,
    layer: str = "aten::gru",
    step: list[int] = STEP,
    state: object = STATE,
    ahead: tuple[str, ...] = ("aten::slice", "aten::linear"),
    behind: tuple[str, ...] = ("aten::linear", "aten::softplus"),
    stacked: int = 1,
    between: int = 0,
    cut: list[int] | None = None,
    gives: int = 1,
    gpu: str = "Test GPU",
    takes_us: float = 4.0,
    backward: bool = False,
) -> list[Promise]:
    """Steps of so many calls of a layer, each with these operators before and behind, and so many others halfway.

    ``backward``: each call has a gradient that takes as long.
    """
    operators = (*ahead, *[layer] * stacked, *behind)

    def body(trace: TinyTrace, _: int) -> None:
        at = 20.0
        gradients = []
        if cut:
            trace.shapes(trace.op(at, at + 10, "aten::unbind"), [cut, []], ["float", "Scalar"])
            at += 20
        for number in range(calls):
            for place, name in enumerate(operators):
                event = trace.op(at, at + 28, name)
                if name == layer:
                    trace.shapes(event, [step, state, GATES, []], ["float", "float", "TensorList", ""])  # type: ignore[list-item]
                    gradients.append(len(operators) * number + place)
                    trace.builder.attribute(Attribute.SEQUENCE, np.array([event]), gradients[-1])
                elif name == "aten::linear":
                    trace.shapes(event, [[64, 1, 128], [gives, 128], [gives]], ["float", "float", "float"])
                if name not in ("aten::slice", "aten::unsqueeze"):
                    kernel = f"void {name.removeprefix('aten::')}_kernel"
                    busy = takes_us if name == layer else 4.0
                    trace.operation(at + 8, at + 8 + busy, kernel, at + 2, grid=8)
                at += 30
            for other in range(between if number == calls // 2 - 1 else 0):
                trace.op(at, at + 28, "aten::relu")
                trace.kernels(at + 2, 1, 4, 10, f"void other{'abc'[other % 3]}_kernel")
                at += 30
        for sequence in reversed(gradients if backward else ()):
            name = "autograd::engine::evaluate_function: CudnnRnnBackward0"
            event = trace.op(at, at + 28, name)
            trace.builder.attribute(Attribute.SEQUENCE, np.array([event]), sequence)
            trace.operation(at + 8, at + 8 + takes_us, "void rnn_bp_kernel", at + 2, grid=8)
            at += 30
        trace.kernels(at + 5, 1, 5, 20, "void last_kernel")

    length = 80 + calls * 30 * (len(operators) + stacked * backward) + 30 * between + takes_us
    plan = plan_of_body(body, length=length, into=TinyTrace(gpu=gpu))
    assert plan.crashed == ()
    found = [each for each in plan.promises if each.proposal.fix == "one-layer-for-all-steps"]
    assert not found or all(each.proposal.fix != "join-loop" for each in plan.promises)
    return found


SEQUENCE = [64, 20, 32]


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ({}, True),
        ({"calls": 8}, True),
        ({"calls": 7}, False),
        ({"calls": 14, "between": 4}, True),
        ({"calls": 14, "between": 12}, False),
        ({"layer": "aten::lstm", "state": [STATE, STATE]}, True),
        ({"layer": "aten::rnn_tanh"}, True),
        ({"layer": "aten::relu"}, False),
        ({"step": [1, 64, 32]}, True),
        ({"step": [1, 32], "state": [2, 128]}, True),
        ({"step": [64, 2, 32]}, False),
        ({"step": [640, 32], "state": [64]}, False),
        ({"ahead": ("aten::select", "aten::embedding", "aten::dropout")}, True),
        ({"ahead": ("aten::slice", "aten::cat")}, False),
        ({"ahead": ("aten::slice", "aten::mse_loss", "aten::linear")}, False),
        ({"ahead": ("aten::linear",)}, False),
        ({"stacked": 2}, True),
        ({"calls": 2, "stacked": 20}, False),
        ({"ahead": ("aten::unsqueeze",), "cut": SEQUENCE}, True),
        ({"ahead": ("aten::unsqueeze",), "cut": [64, 19, 32]}, False),
        ({"ahead": ("aten::unsqueeze",), "cut": SEQUENCE, "gives": 32}, False),
        ({"ahead": ("aten::unsqueeze", "aten::argmax"), "cut": SEQUENCE}, False),
    ],
    ids=[
        "inputs are taken out of a sequence",
        "eight",
        "seven",
        "a little between two of them",
        "two loops of seven",
        "of two states",
        "a plain one",
        "no layer",
        "time comes first",
        "one sample",
        "two steps at once",
        "packed",
        "tokens",
        "put together with an output",
        "targets are taken",
        "outputs become inputs",
        "two layers in turn",
        "outputs become inputs of a layer",
        "cut before",
        "cut into others",
        "an output as wide as an input",
        "chosen by what it gave",
    ],
)
def test_eight_time_steps_that_are_known_are_one_call(told: dict[str, object], found: bool) -> None:
    assert bool(layers(**told)) is found  # type: ignore[arg-type]


def test_loops_over_time_steps_are_told_once_by_name() -> None:
    (found,) = layers()
    title = "Let one layer go through all time steps: a layer is called 20 times in a step, with 76 launches"
    assert found.proposal.title == title
    assert found.proposal.problem == "A layer is called for each time step"
    assert found.expected > 8


def test_a_layer_reaches_a_quarter_of_the_peak_or_takes_5_us_for_a_step() -> None:
    """Twenty calls of 140 us, in 150 us each, of two layers: 10 us are left, or what 4,096 samples take."""
    assert all(each.expected < 1.1 for each in layers(takes_us=140.0)), "of an unknown GPU nothing is known"
    (few,) = layers(takes_us=140.0, gpu="NVIDIA H200")
    assert 5.5 < few.expected < 9
    many = {"step": [4096, 1, 32], "state": [2, 4096, 128]}  # 1.3 GFLOP at 16.75 TFLOP/s take 78 us
    (most,) = layers(takes_us=140.0, gpu="NVIDIA H200", **many)  # type: ignore[arg-type]
    assert most.expected == pytest.approx(140 / 78, rel=0.1)
    assert most.low < most.expected / 1.4


def test_a_gradient_takes_twice_as_long() -> None:
    (forward,) = layers(takes_us=140.0, gpu="NVIDIA H200", ahead=("aten::slice",), behind=())
    (both,) = layers(takes_us=140.0, gpu="NVIDIA H200", ahead=("aten::slice",), behind=(), backward=True)
    assert 0.55 < both.expected / forward.expected < 0.8
