"""Anomaly detection on a GPU: the checks of the backward pass and the stacks of the forward pass are one cause."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from parsers.model import Attribute, EventKind
from parsers.model.arrays import distinct_values
from rules.fixes.backward import autograd_functions, noting_ns, noting_ns_for
from rules.fixes.plan import Plan
from tests.rules.builder import AUTOGRAD, MAIN, TinyTrace
from tests.rules.test_fixes import plan_of_body, promised

FUNCTION = "autograd::engine::evaluate_function: MmBackward0"
COUNT = 24


def program(
    silent: float,
    numbered: bool = True,
    checks: bool = True,
    count: int = COUNT,
    constant: float = 0.0,
    frames: int = 0,
) -> Plan:
    """Operators of the forward pass in which nothing is recorded for a while, and their functions with checks.

    Before the first of them one that needs no gradient computes for ``constant`` us, with the number of the next.
    """

    def says(trace: TinyTrace, event: int, number: int, thread: int) -> None:
        trace.builder.attribute(Attribute.SEQUENCE, np.array([event]), number)
        trace.builder.attribute(Attribute.FORWARD_THREAD, np.array([event]), thread)

    def body(trace: TinyTrace, index: int) -> None:
        at, number = 10.0, 100 * (index + 1)
        if constant:
            says(trace, trace.op(at, at + constant, "aten::std"), number, 0)
            at += constant + 5
        for place in range(count):
            event = trace.op(at, at + silent + 20, "aten::mm")
            if numbered:
                says(trace, event, number + place, 0)
            for frame in range(frames):
                trace.frame(at + frame, at + frame + 0.5, "traceback.py(318): line")
            trace.operation(at + silent + 8, at + silent + 18, "void gemm", at + silent)
            at += silent + 25
        for place in reversed(range(count)):
            says(trace, trace.op(at, at + 190, FUNCTION, AUTOGRAD), number + place, 1)
            trace.operation(at + 20, at + 30, "void gemm", at + 10, thread=AUTOGRAD)
            if checks:
                trace.op(at + 60, at + 90, "aten::isnan", AUTOGRAD)
                trace.operation(at + 72, at + 76, "void isnan_kernel", at + 65, thread=AUTOGRAD)
                trace.op(at + 95, at + 180, "aten::item", AUTOGRAD)
                trace.copy(at + 110, at + 112, "DtoH", at + 100, bytes=1, thread=AUTOGRAD, pageable=True)
                trace.call(at + 115, at + 150, "cudaStreamSynchronize", AUTOGRAD)
            at += 195

    return plan_of_body(body, length=30 + constant + count * (silent + 25 + 195))


def title(plan: Plan) -> str:
    return next(each.proposal.title for each in plan.promises if each.proposal.fix == "stop-checking-for-nan")


@pytest.mark.parametrize(("silent", "noted"), [(50.5, True), (49.5, False)], ids=["a stack", "an operator"])
def test_a_stack_is_noted_down_where_an_operator_is_silent_for_long(silent: float, noted: bool) -> None:
    assert ("noting down stacks takes" in title(program(silent))) is noted


def test_the_stacks_are_promised_with_the_checks_and_nowhere_else() -> None:
    """24 operators with stretches of 400 us, of which 10 us remain."""
    plan = program(400.0)
    assert title(plan) == (
        "Turn anomaly detection off: the backward pass checks for NaN 24 times in a step, and noting down stacks "
        "takes 9.36 ms"
    )
    assert promised(plan)["stop-checking-for-nan"] > 3
    assert plan.promises[0].proposal.fix == "stop-checking-for-nan"
    assert "move-host-phase" not in promised(plan)


@pytest.mark.parametrize(
    ("numbered", "checks"), [(False, True), (True, False)], ids=["no function of theirs", "it is off"]
)
def test_other_silent_operators_are_work_of_their_own(numbered: bool, checks: bool) -> None:
    plan = program(400.0, numbered, checks)
    assert "move-host-phase" in promised(plan)
    assert ("stop-checking-for-nan" in promised(plan)) is checks
    if checks:
        assert "noting" not in title(plan)


@pytest.mark.parametrize(("count", "found"), [(20, True), (19, False)])
def test_a_few_functions_that_check_are_no_anomaly_detection(count: int, found: bool) -> None:
    assert ("stop-checking-for-nan" in promised(program(20.0, count=count))) is found


def test_an_operator_that_needs_no_gradient_computes_itself() -> None:
    plan = program(400.0, constant=5_000.0)
    assert title(plan).endswith("takes 9.36 ms")
    assert promised(plan)["move-host-phase"] > 1.3


def test_noting_down_goes_with_the_functions_that_it_is_for() -> None:
    analysis = program(400.0).replay.analysis
    functions = distinct_values(autograd_functions(analysis))[1:]
    place = analysis.trace.attribute(Attribute.SEQUENCE, functions, -1) % 100
    whole, third = noting_ns_for(analysis, functions), noting_ns_for(analysis, functions[place < COUNT // 3])
    assert whole.sum() == noting_ns(analysis).sum() > 0
    assert third.sum() == pytest.approx(whole.sum() / 3, rel=0.01)


@pytest.mark.parametrize(("frames", "noted"), [(185, "9.36 ms"), (195, "1.87 ms")])
def test_of_stacks_whose_frames_are_recorded_a_fifth_is_their_own(frames: int, noted: str) -> None:
    assert title(program(400.0, frames=frames)).endswith(f"takes {noted}")


ASKS = "void vectorized_elementwise_kernel<4, BinaryFunctor<{0}, {0}, bool, CompareEqFunctor<{0}>>>"
JOINS = "void reduce_kernel<512, 1, ReduceOp<bool, func_wrapper_t<bool, or_kernel_cuda(TensorIterator &)>>>"


def native(
    numbers: str = "c10::BFloat16",
    count: int = COUNT,
    thread: int = AUTOGRAD,
    silent: float = 10.0,
    bytes: int = 1,
) -> Plan:
    """Calls of the driver alone, as Nsight Systems records them; of the checks in many blocks, memory is set first."""

    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        for _ in range(COUNT):
            at += silent
            trace.operation(at + 8, at + 18, "void gemm", at)
            at += 20
        for place in range(count):
            trace.operation(at + 8, at + 18, "void gemm", at, thread=AUTOGRAD)
            trace.operation(at + 30, at + 34, ASKS.format(numbers), at + 20, thread=thread)
            if place % 2:
                trace.operation(at + 36, at + 38, "Memset", at + 28, thread=thread, kind=EventKind.MEMSET)
            trace.operation(at + 50, at + 58, JOINS, at + 40, thread=thread)
            trace.copy(at + 70, at + 72, "DtoH", at + 60, bytes=bytes, thread=thread)
            trace.call(at + 68, at + 110, "cudaStreamSynchronize", thread)
            at += 120

    return plan_of_body(body, length=30 + COUNT * (silent + 20) + count * 120)


def test_kernels_alone_show_the_checks_of_the_backward_pass() -> None:
    plan = native()
    assert title(plan) == "Turn anomaly detection off: the backward pass checks for NaN 24 times in a step"
    assert "remove-read-backs" not in promised(plan)


@pytest.mark.parametrize(
    "other",
    [{"numbers": "long"}, {"count": 19}, {"thread": MAIN}, {"bytes": 4}],
    ids=["tokens are compared", "too few", "the program checks itself", "a value is read"],
)
def test_other_questions_are_no_anomaly_detection(other: dict[str, Any]) -> None:
    assert "stop-checking-for-nan" not in promised(native(**other))


@pytest.mark.parametrize(("silent", "noted"), [(20, False), (70, True), (950, True), (1_100, False)])
def test_between_calls_of_the_forward_pass_stacks_are_noted_down(silent: float, noted: bool) -> None:
    """20 us pass from launch to launch beside what is silent, a few of them in the call."""
    assert ("noting down stacks takes" in title(native(silent=silent))) is noted
