"""Two networks with an optimizer each: what a backward pass adds to the other one's gradients is cleared unused."""

from __future__ import annotations

import json

import numpy as np
import pytest

from parsers.model import Attribute, Trace
from parsers.model.late import dataclass
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.forms.others_gradients import others_gradients
from rules.fixes.plan import make_plan
from tests.rules.builder import AUTOGRAD, TinyTrace, steps

FUNCTION = "autograd::engine::evaluate_function: "
GATHERS = "torch::autograd::AccumulateGrad"
LAYERS, STEPS, BATCH = 3, 6, 512
JUDGE, MAKER = [1024, 1024], [1024, 512]  # shapes of the parameters of the discriminator and of the generator


@dataclass(frozen=True)
class Program:
    """Steps that train a discriminator, then a generator through it."""

    detached: bool = False  # the discriminator's pass ends before the generator
    frozen: bool = False  # the generator's pass computes no gradients of the discriminator
    clears: tuple[bool, bool] = (True, True)
    updates: tuple[list[int], list[int]] = (JUDGE, MAKER)  # shapes of what each optimizer updates
    layers_updated: int = LAYERS
    both_at_once: bool = False  # both backward passes, then both updates
    lists: bool = True
    numbered: bool = True
    steps: int = STEPS
    alone: bool = False  # only the discriminator is trained, for whose input a gradient is computed

    def trace(self) -> Trace:
        return steps(self.steps, 1_380, self._step).build()

    def _step(self, trace: TinyTrace, index: int) -> None:
        at, number = 10.0, 1_000 * index
        at = self._clear(trace, 0, at)
        at = self._pass(trace, at, number + 100, stores=JUDGE, gathers=True)
        if not self.detached:
            at = self._pass(trace, at, number + 50, stores=None, shape=MAKER, gathers=not self.alone)
        if not self.both_at_once:
            at = self._update(trace, 0, at)
        if self.alone:
            return
        at = self._clear(trace, 1, at)
        at = self._pass(trace, at, number + 300, stores=None, shape=JUDGE, gathers=not self.frozen)
        at = self._pass(trace, at, number + 200, stores=MAKER, gathers=True)
        if self.both_at_once:
            at = self._update(trace, 0, at)
        self._update(trace, 1, at)

    def _clear(self, trace: TinyTrace, which: int, at: float) -> float:
        if self.clears[which]:
            trace.region(at, at + 8, "Optimizer.zero_grad#Adam.zero_grad")
        return at + 10

    def _update(self, trace: TinyTrace, which: int, at: float) -> float:
        trace.region(at, at + 30, "Optimizer.step#Adam.step")
        op = trace.op(at + 1, at + 29, "aten::_fused_adam_")
        if self.lists:
            self._says(trace, op, [self.updates[which]] * self.layers_updated)
        trace.operation(at + 10, at + 20, "void multi_tensor_apply_kernel", at + 2)
        return at + 40

    def _pass(
        self,
        trace: TinyTrace,
        at: float,
        number: int,
        stores: list[int] | None,
        gathers: bool,
        shape: list[int] | None = None,
    ) -> float:
        of = stores or shape or []
        for layer in reversed(range(LAYERS)):
            function = trace.op(at, at + 80, f"{FUNCTION}AddmmBackward0", AUTOGRAD)
            if self.numbered:
                trace.builder.attribute(Attribute.SEQUENCE, np.array([function]), number + layer)
            products = [([BATCH, of[0]], of), ([of[0], BATCH], [BATCH, of[1]])]
            for place, dims in enumerate(products[: 1 + gathers]):
                begun = at + 2 + 38 * place
                op = trace.op(begun, begun + 36, "aten::mm", AUTOGRAD)
                self._says(trace, op, *dims)
                trace.operation(begun + 10, begun + 46, "void gemm", begun + 2, thread=AUTOGRAD)
            at += 82
            if gathers:
                trace.op(at, at + 20, f"{FUNCTION}{GATHERS}", AUTOGRAD)
                self._says(trace, trace.op(at + 1, at + 19, GATHERS, AUTOGRAD), of)
                name = "aten::detach" if stores else "aten::add_"
                trace.op(at + 5, at + 15, name, AUTOGRAD)
                at += 22
        return at

    def _says(self, trace: TinyTrace, event: int, *shapes: object) -> None:
        dims = trace.builder.string(json.dumps(shapes))
        trace.builder.attribute(Attribute.INPUT_DIMS, np.array([event]), dims)


def found(program: Program) -> list[int]:
    """For each step: functions that lead to nothing, those that also compute such a gradient, parameters."""
    each = others_gradients(Analysis(program.trace()))
    return [len(each.leading) // program.steps, len(each.beside) // program.steps, each.parameters]


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        # a function and one that gathers for each of the generator's layers; one that gathers for the other's
        (Program(), [3 * LAYERS, LAYERS, 2 * LAYERS]),
        (Program(detached=True), [LAYERS, LAYERS, LAYERS]),
        (Program(frozen=True), [2 * LAYERS, 0, LAYERS]),
        (Program(steps=2), [3 * LAYERS, LAYERS, 2 * LAYERS]),
    ],
    ids=["both passes", "the generator's alone", "the discriminator's alone", "two steps"],
)
def test_gradients_of_another_optimizers_parameters_are_found(program: Program, expected: list[int]) -> None:
    assert found(program) == expected


@pytest.mark.parametrize(
    "program",
    [
        Program(detached=True, frozen=True),
        Program(clears=(True, False)),
        Program(clears=(False, True)),
        Program(updates=(MAKER, JUDGE)),
        Program(updates=(JUDGE, JUDGE)),
        Program(layers_updated=LAYERS + 1),
        Program(both_at_once=True),
        Program(lists=False),
        Program(numbered=False),
        Program(steps=1),
        Program(alone=True),
    ],
    ids=[
        "neither pass leads into the other network",
        "one optimizer, cleared once for two passes",
        "cleared by something that was not recorded",
        "each optimizer updates what the other pass stored",
        "the second optimizer updates what it adds to",
        "an optimizer also updates what it did not clear",
        "both passes before both updates",
        "nobody knows what an optimizer updates",
        "no numbers of operators",
        "a single step",
        "one optimizer, whose gradients may be wanted for something else",
    ],
)
def test_gradients_that_an_update_may_use_are_not_accused(program: Program) -> None:
    assert found(program) == [0, 0, 0]


def test_on_a_gpu_what_computes_them_vanishes() -> None:
    plan = make_plan(Analysis(Program().trace()))
    assert plan.crashed == ()
    (promise,) = [each for each in plan.promises if each.proposal.fix == "skip-others-gradients"]
    # of 24 products the generator's 6 in the first pass, and 3 of the discriminator's weights in the second
    assert promise.proposal.title == (
        "Do not compute gradients for 6 parameters whose own optimizer clears them unused: 37 % of the GPU's time"
    )
    assert 1.3 < promise.expected < 1.7
    assert Category.RECOMPUTATION in promise.proposal.categories  # by its own optimizer
