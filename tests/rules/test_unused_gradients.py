"""Gradients that only add up from step to step belong to no optimizer: they are computed for nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from parsers.model import Attribute, Trace
from parsers.model.late import dataclass
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.analysis.stretches.unneeded_gradients import unneeded_gradients
from rules.fixes.plan import make_plan
from tests.opened import diagnosed, planned
from tests.rules.builder import AUTOGRAD, MAIN, TinyTrace, steps

LAYERS = 3
FUNCTION = "autograd::engine::evaluate_function: "
STUDENT, TEACHER = "student", "teacher"


@dataclass(frozen=True)
class Program:
    """Steps in which two networks run, one after the other, and gradients flow back through both."""

    order: tuple[str, ...] = (TEACHER, STUDENT)
    adds: tuple[str, ...] = (TEACHER,)  # whose gradients are added to those of the step before
    passes: int = 1
    steps: int = 3
    updates: bool = True
    numbered: bool = True
    threads: tuple[int, int] = (MAIN, MAIN)  # of the teacher's forward pass, and of the backward pass
    rare: bool = False  # a layer of the teacher's takes part in the second step alone
    backward_us: float = 40.0  # of one of the teacher's layers
    kernel_us: float = 0.0
    length_us: float = 2_000

    def trace(self) -> Trace:
        return steps(self.steps, self.length_us, self._step).build()

    def _step(self, trace: TinyTrace, index: int) -> None:
        at = 10.0
        for number in range(self.passes):
            at = self._pass(trace, index, 1_000 * index + 100 * number, at)
        if self.updates:
            trace.region(at, at + 20, "Optimizer.step#SGD.step")

    def _pass(self, trace: TinyTrace, index: int, number: int, at: float) -> float:
        done = []
        for network in self.order:
            for _ in range(LAYERS + (self.rare and index == 1 and network == TEACHER)):
                number += 1
                thread = self.threads[0] if network == TEACHER else MAIN
                self._operator(trace, at, at + 8, "aten::linear", thread, number)
                done.append((network, number))
                at += 10
        backward = self.threads[1]
        for network, number in reversed(done):
            took = self.backward_us if network == TEACHER else 40.0
            self._operator(trace, at, at + took, f"{FUNCTION}AddmmBackward0", backward, number)
            if self.kernel_us:
                trace.operation(
                    at + 6, at + 6 + self.kernel_us, "void gemm", at + 1, thread=backward, launch_us=2
                )
            at += took + 1
            trace.op(at, at + 8, f"{FUNCTION}torch::autograd::AccumulateGrad", backward)
            trace.op(at + 1, at + 7, "aten::add_" if network in self.adds else "aten::detach", backward)
            at += 10
        return at

    def _operator(
        self, trace: TinyTrace, start: float, end: float, name: str, thread: int, number: int
    ) -> None:
        event = trace.op(start, end, name, thread)
        if self.numbered:
            trace.builder.attribute(Attribute.SEQUENCE, np.array([event]), number)


@pytest.mark.parametrize(
    "program",
    [Program(), Program(steps=2), Program(threads=(MAIN, AUTOGRAD))],
    ids=["one thread", "two steps", "a thread for the backward pass"],
)
def test_the_backward_pass_of_a_network_that_nobody_trains_is_found(program: Program) -> None:
    trace = program.trace()
    found = unneeded_gradients(Analysis(trace))
    assert found.parameters == LAYERS
    # a function and one that gathers, for each layer of the teacher, which come last in each step
    assert len(found.functions) == program.steps * 2 * LAYERS
    named = [each for each in range(len(trace.events)) if trace.name(each).startswith(FUNCTION)]
    of_first_step = sorted(named, key=lambda each: trace.events.start[each])[: 4 * LAYERS]
    assert found.functions[: 2 * LAYERS].tolist() == of_first_step[2 * LAYERS :]


@pytest.mark.parametrize(
    "program",
    [
        Program(adds=()),
        Program(adds=(TEACHER, STUDENT)),
        Program(order=(STUDENT, TEACHER)),
        Program(steps=1),
        Program(updates=False),
        Program(passes=2),
        Program(rare=True),
        Program(numbered=False),
        Program(threads=(AUTOGRAD + 50, AUTOGRAD)),
    ],
    ids=[
        "all are stored anew",
        "all add up, as over several batches",
        "what adds up comes after what is trained, as a discriminator does",
        "a single step",
        "no optimizer in a step",
        "two passes in a step",
        "not equally many in each step",
        "no numbers recorded",
        "two threads, each with numbers of its own",
    ],
)
def test_gradients_that_may_be_used_are_not_accused(program: Program) -> None:
    assert not len(unneeded_gradients(Analysis(program.trace())).functions)


@pytest.mark.parametrize(("backward", "found"), [(40.0, True), (2.5, False)], ids=["much", "a little"])
def test_a_program_on_the_cpu_is_told_about_what_costs_time(backward: float, found: bool) -> None:
    told = {each.rule for each in diagnose(Program(backward_us=backward).trace()).findings}
    assert ("cpu-unused-gradients" in told) is found


def test_on_a_gpu_the_functions_vanish_with_their_kernels() -> None:
    program = Program(threads=(MAIN, AUTOGRAD), steps=6, kernel_us=30.0, length_us=420)
    made = make_plan(Analysis(program.trace()))
    (promise,) = [each for each in made.promises if each.proposal.fix == "skip-unused-gradients"]
    assert promise.proposal.title == (
        "Do not compute gradients for 3 parameters that no optimizer updates: 50 % of the GPU's time"
    )
    assert 1.2 < promise.expected < 1.7


@pytest.mark.parametrize(("length_us", "told"), [(420, True), (9_000, False)], ids=["much", "a little"])
def test_on_a_gpu_they_are_a_finding_where_they_cost_time(length_us: float, told: bool) -> None:
    program = Program(threads=(MAIN, AUTOGRAD), steps=6, kernel_us=30.0, length_us=length_us)
    findings = diagnose(program.trace()).findings
    of_gradients = [each for each in findings if each.rule == "skip-unused-gradients"]
    assert bool(of_gradients) is told
    for each in of_gradients:
        assert each.title.startswith("Gradients are computed that nobody uses: ")
        assert each.leads
        assert len(each.evidence) == 6 * LAYERS  # the kernels of all steps


@pytest.mark.parametrize("program", [Program(adds=(), kernel_us=30.0), Program(steps=1, kernel_us=30.0)])
def test_nothing_is_promised_for_gradients_that_may_be_used(program: Program) -> None:
    made = make_plan(Analysis(program.trace()))
    assert "skip-unused-gradients" not in {each.proposal.fix for each in made.promises}


def test_a_teacher_that_runs_with_gradients_is_named_first(fixtures: Path) -> None:
    """Its mending was timed: 1.92 to 1.97 times as fast."""
    path = fixtures / "causes" / "teacher.pt.trace.json.gz"
    made = planned(path)
    first = made.promises[0]
    finding = diagnosed(path).findings[0]
    assert finding.title == "Gradients are computed that nobody uses: 36 % of every step"
    assert finding.share == pytest.approx(1 - 1 / first.expected)
    assert first.proposal.fix == "skip-unused-gradients"
    assert "54 parameters" in first.proposal.title
    assert first.low <= 1.92
    assert first.high >= 1.97
