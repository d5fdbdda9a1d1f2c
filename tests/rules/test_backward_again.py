"""Several losses that are sent back through the same layers one by one, where one pass of their sum would do."""

from __future__ import annotations

import numpy as np
import pytest

from parsers.model import Attribute, Trace
from parsers.model.late import dataclass
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.analysis.stretches.backward_again import backward_again
from rules.fixes.plan import make_plan
from tests.rules.builder import AUTOGRAD, TinyTrace, steps

FUNCTION = "autograd::engine::evaluate_function: "
STEPS = 6


@dataclass(frozen=True)
class Program:
    """Steps with one forward pass and ``losses`` backward passes through its shared layers."""

    losses: int = 4
    layers: int = 10
    adds: bool = True  # later passes add to the gradients of earlier ones
    gathers: bool = True
    shared: bool = True  # all losses go through the same operators
    update_between: bool = False
    numbered_functions: bool = True
    notes_down: bool = False  # a graph of the first pass
    differentiated: bool = True  # that graph, in the passes after it
    numbered: bool = True
    kernel: float = 50.0  # us of one of the backward pass

    def trace(self) -> Trace:
        return steps(STEPS, 500 + 600 * self.losses, self._step).build()

    def _step(self, trace: TinyTrace, index: int) -> None:
        at, number = 10.0, 1_000 * index
        for layer in range(self.layers * (1 if self.shared else self.losses)):
            self._numbered(trace, trace.op(at, at + 8, "aten::linear"), number + layer, 0)
            trace.operation(at + 6, at + 36, "void gemm", at + 1, launch_us=2)
            at += 40
        for loss in range(self.losses):
            offset = 0 if self.shared else loss * self.layers
            for layer in reversed(range(self.layers)):
                self._function(trace, at, number + offset + layer, loss)
                at += 60
            if self.update_between:
                trace.region(at - 6, at - 2, "Optimizer.step#SGD.step")
        trace.region(at + 10, at + 14, "Optimizer.step#SGD.step")

    def _function(self, trace: TinyTrace, at: float, number: int, loss: int) -> None:
        function = trace.op(at, at + 40, f"{FUNCTION}AddmmBackward0", AUTOGRAD)
        if self.numbered_functions:
            self._numbered(trace, function, number, 1)
        trace.operation(at + 6, at + 6 + self.kernel, "void gemm", at + 2, thread=AUTOGRAD, launch_us=2)
        if self.notes_down and loss == 0:
            self._numbered(trace, trace.op(at + 5, at + 9, "aten::mm", AUTOGRAD), number + 100_000, 0)
        if self.notes_down and self.differentiated and loss:
            again = trace.op(at + 54, at + 58, f"{FUNCTION}MmBackward0", AUTOGRAD)
            self._numbered(trace, again, number + 100_000, 2)
        if self.gathers:
            trace.op(at + 42, at + 52, f"{FUNCTION}torch::autograd::AccumulateGrad", AUTOGRAD)
            trace.op(at + 43, at + 50, "aten::add_" if loss and self.adds else "aten::detach", AUTOGRAD)

    def _numbered(self, trace: TinyTrace, event: int, number: int, thread: int) -> None:
        if self.numbered:
            trace.builder.attribute(Attribute.SEQUENCE, np.array([event]), number)
            trace.builder.attribute(Attribute.FORWARD_THREAD, np.array([event]), thread)


@pytest.mark.parametrize("losses", [2, 4])
def test_all_passes_but_the_first_are_found(losses: int) -> None:
    found = backward_again(Analysis(Program(losses=losses).trace()))
    assert found.passes == losses
    # a function and one that gathers for each of ten layers, in each pass after the first
    assert len(found.functions) == STEPS * (losses - 1) * 10 * 2


@pytest.mark.parametrize(
    "program",
    [
        Program(losses=1),
        Program(shared=False),
        Program(adds=False),
        Program(gathers=False),
        Program(update_between=True),
        Program(notes_down=True, losses=2),
        Program(numbered=False),
        Program(numbered_functions=False),
    ],
    ids=[
        "one loss",
        "each loss has layers of its own",
        "each pass stores gradients of its own",
        "no gradient is gathered, as for a Jacobian",
        "the parameters are updated in between",
        "the gradient is differentiated again",
        "no numbers recorded",
        "functions without numbers",
    ],
)
def test_passes_that_cannot_be_one_are_not_accused(program: Program) -> None:
    assert not len(backward_again(Analysis(program.trace())).functions)


def test_a_graph_that_nobody_differentiates_changes_nothing() -> None:
    found = backward_again(Analysis(Program(notes_down=True, differentiated=False, losses=2).trace()))
    assert len(found.functions) == STEPS * 10 * 2


def test_one_pass_of_the_sum_is_promised_and_named_first() -> None:
    trace = Program().trace()
    made = make_plan(Analysis(trace), reaches={})
    (promise,) = [each for each in made.promises if each.proposal.fix == "add-up-losses"]
    assert (
        promise.proposal.title == "Add up the losses: the backward pass runs 4 times through the same layers"
    )
    assert 2.0 < promise.expected < 3.0
    assert (
        diagnose(trace)
        .findings[0]
        .title.startswith("The backward pass runs 4 times through the same layers: ")
    )


@pytest.mark.parametrize(
    ("layers", "outputs", "found"), [(1, 11, True), (1, 10, False)], ids=["ten functions", "fewer"]
)
def test_gradients_of_several_outputs_can_be_taken_at_once(layers: int, outputs: int, found: bool) -> None:
    made = make_plan(
        Analysis(Program(losses=outputs, gathers=False, layers=layers, kernel=5.0).trace()), reaches={}
    )
    promised = [each for each in made.promises if each.proposal.fix == "gradients-at-once"]
    assert bool(promised) is found
    assert all(each.high > each.expected for each in promised), "or without a backward pass"
    assert not [each for each in made.promises if each.proposal.fix in {"add-up-losses", "join-batches"}]


@pytest.mark.parametrize(("outputs", "gains"), [(4, False), (20, True)])
def test_batched_operators_take_the_cpu_longer(outputs: int, gains: bool) -> None:
    """A pass with all outputs takes four times as long as with one: of four, the CPU gains nothing."""
    made = make_plan(Analysis(Program(losses=outputs, gathers=False, kernel=5.0).trace()), reaches={})
    promised = [each.expected for each in made.promises if each.proposal.fix == "gradients-at-once"]
    assert any(each > 2.0 for each in promised) is gains


def test_gradients_that_are_stored_are_no_outputs() -> None:
    made = make_plan(Analysis(Program(adds=False).trace()), reaches={})
    assert not [each for each in made.promises if each.proposal.fix == "gradients-at-once"]


@pytest.mark.parametrize(("layers", "found"), [(10, True), (9, False)], ids=["ten functions", "a head"])
def test_a_shared_head_of_a_few_layers_is_left_alone(layers: int, found: bool) -> None:
    made = make_plan(Analysis(Program(losses=2, layers=layers).trace()), reaches={})
    assert ("add-up-losses" in {each.proposal.fix for each in made.promises}) is found
