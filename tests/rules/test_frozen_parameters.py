"""Gradients of parameters that are cleared in each step, and that the optimizers' kernels are too small to update."""

from __future__ import annotations

import json

import numpy as np
import pytest

from parsers.model import Attribute
from parsers.model.late import dataclass
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.plan import Promise, make_plan
from tests.rules.builder import AUTOGRAD, TinyTrace, steps

FUNCTION = "autograd::engine::evaluate_function: "
KERNEL = "void multi_tensor_apply_kernel"
WIDTH, BATCH = 1024, 512
LAYERS = 4  # parameters of 16 blocks each


@dataclass(frozen=True)
class Program:
    """Steps with a backward pass through layers that an optimizer updates with so many blocks."""

    blocks: int = 8
    kernel: str = KERNEL
    adds: bool = False
    shapes: bool = True
    passes: int = 1
    updates: bool = True
    collective: bool = False
    numbered: bool = True
    convolutions: bool = False
    weights_us: float = 60.0

    def promise(self) -> Promise | None:
        trace = steps(6, 120 + 800 * self.passes, self._step).build()
        made = make_plan(Analysis(trace), reaches={})
        found = [each for each in made.promises if each.proposal.fix == "freeze-parameters"]
        return found[0] if found else None

    @property
    def shape(self) -> list[int]:
        return [WIDTH, WIDTH] + [1, 1] * self.convolutions

    def _step(self, trace: TinyTrace, index: int) -> None:
        at = 10.0
        for number in range(self.passes):
            for layer in reversed(range(LAYERS)):
                self._layer(trace, at, 1_000 * index + 100 * number + layer)
                at += 200
        if self.collective:
            trace.collective(at, at + 10, at - 8)
        if self.updates:
            trace.region(at, at + 40, "Optimizer.step#AdamW.step")
            trace.op(at + 1, at + 30, "aten::_fused_adamw_")
            trace.operation(at + 10, at + 30, self.kernel, at + 2, grid=self.blocks)

    def _layer(self, trace: TinyTrace, at: float, number: int) -> None:
        kind = "ConvolutionBackward0" if self.convolutions else "AddmmBackward0"
        function = trace.op(at, at + 150, f"{FUNCTION}{kind}", AUTOGRAD)
        if self.numbered:
            trace.builder.attribute(Attribute.SEQUENCE, np.array([function]), number)
        if self.convolutions:
            op = trace.op(at + 5, at + 140, "aten::convolution_backward", AUTOGRAD)
            self._says(trace, op, [8, WIDTH, 8, 8], [8, WIDTH, 8, 8], self.shape)
            kernels = ("void dgrad_kernel", "void wgrad_kernel")
        else:
            given = trace.op(at + 5, at + 60, "aten::mm", AUTOGRAD)
            self._says(trace, given, [BATCH, WIDTH], [WIDTH, WIDTH])
            of_weights = trace.op(at + 65, at + 140, "aten::mm", AUTOGRAD)
            self._says(trace, of_weights, [WIDTH, BATCH], [BATCH, WIDTH])
            kernels = ("void gemm", "void gemm")
        for place, name in enumerate(kernels):
            begun = at + 10 + 60 * place
            took = (60.0, self.weights_us)[place]
            trace.operation(begun + 8, begun + 8 + took, name, begun, thread=AUTOGRAD)
        trace.op(at + 152, at + 190, f"{FUNCTION}torch::autograd::AccumulateGrad", AUTOGRAD)
        self._says(
            trace, trace.op(at + 153, at + 188, "torch::autograd::AccumulateGrad", AUTOGRAD), self.shape
        )
        trace.op(at + 160, at + 180, "aten::add_" if self.adds else "aten::detach", AUTOGRAD)

    def _says(self, trace: TinyTrace, event: int, *shapes: list[int]) -> None:
        if self.shapes:
            dims = trace.builder.string(json.dumps(shapes))
            trace.builder.attribute(Attribute.INPUT_DIMS, np.array([event]), dims)


@pytest.mark.parametrize("convolutions", [False, True])
def test_only_what_computes_gradients_of_the_parameters_vanishes(convolutions: bool) -> None:
    promise = Program(convolutions=convolutions).promise()
    assert promise is not None
    assert promise.proposal.title == (
        "Do not compute gradients for 4 parameters that no optimizer updates: 48 % of the GPU's time"
    )
    assert 1.1 < promise.expected < 1.7
    assert Category.RECOMPUTATION not in promise.proposal.categories


@pytest.mark.parametrize(
    ("program", "found"),
    [
        (Program(blocks=31), True),
        (Program(blocks=32), False),
        (Program(kernel="void triton_poi_fused_adam"), False),
        (Program(adds=True), False),
        (Program(shapes=False), False),
        (Program(passes=2), False),
        (Program(updates=False), False),
        (Program(numbered=False), False),
        (Program(collective=True), False),
    ],
    ids=[
        "less than half of the blocks",
        "half of them",
        "another kernel, whose blocks may be of any size",
        "gradients add up",
        "no shapes",
        "two passes store gradients",
        "no optimizer",
        "no numbers recorded",
        "ranks may share the parameters",
    ],
)
def test_what_no_optimizer_can_have_updated(program: Program, found: bool) -> None:
    assert (program.promise() is not None) is found


@pytest.mark.parametrize(("weights_us", "found"), [(30.0, True), (2.0, False)], ids=["much", "a little"])
def test_a_small_part_of_the_gpus_time_is_not_told(weights_us: float, found: bool) -> None:
    assert (Program(weights_us=weights_us).promise() is not None) is found
