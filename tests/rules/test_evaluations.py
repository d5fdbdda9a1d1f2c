"""Evaluations between the steps of a training: what shows them, and what making them rarer gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from parsers.model import Attribute
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import length
from rules.analysis.stretches.evaluations import evaluations
from rules.fixes.plan import make_plan
from tests.examples import one_of
from tests.opened import opened
from tests.rules.builder import TinyTrace, steps
from tests.rules.test_fixes import plan_of_body, promised

# The cases lie on either side of these.
FEW_AFTER = 16
MIN_LAYERS = 3
NEARLY_ALL = 0.9
LEFT = 0.1
LEFT_AT_MOST = 1 / 3

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
STEP = 10_000.0


def layer(trace: TinyTrace, at: float, name: str = "aten::linear", *, learns: bool) -> None:
    number = trace.op(at, at + 40, name)
    if learns:
        trace.builder.attribute(Attribute.SEQUENCE, np.array([number]), 7)


def trains(trace: TinyTrace, names: tuple[str, ...] = ("aten::linear",) * MIN_LAYERS) -> None:
    """A forward and a backward pass in 0 to 1,000 us, and the optimizer until 2,000 us."""
    for place, name in enumerate(names):
        layer(trace, 100.0 * place, name, learns=True)
    trace.op(800, 900, "autograd::engine::evaluate_function: AddmmBackward0")
    trace.region(1_000, 2_000, "Optimizer.step#AdamW.step")


def evaluated(body, *, name: str = "ProfilerStep#{}") -> float:  # type: ignore[no-untyped-def]
    """us of each step."""
    analysis = Analysis(steps(4, STEP, body, name=name).build())
    return length(evaluations(analysis, 0)) / 4_000


@pytest.mark.parametrize(("count", "found"), [(MIN_LAYERS, True), (MIN_LAYERS - 1, False)])
def test_the_trained_layers_without_gradients_behind_the_optimizer(count: int, found: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trains(trace)
        for place in range(count):
            layer(trace, 3_000.0 + 100 * place, learns=False)

    assert evaluated(body) == (pytest.approx(1_000 + 100 * (count - 1) + 40) if found else 0)


def test_the_same_before_the_backward_pass_may_be_part_of_the_training() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for place in range(MIN_LAYERS):
            layer(trace, 5_000.0 + 100 * place, learns=False)
        trace.shift += 6_000
        trains(trace)
        trace.shift -= 6_000

    assert evaluated(body) == 0


def test_a_forward_pass_with_gradients_behind_the_optimizer_is_a_second_one() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trains(trace)
        for place in range(MIN_LAYERS):
            layer(trace, 3_000.0 + 100 * place, learns=place == 0)

    assert evaluated(body) == 0


@pytest.mark.parametrize(
    ("convolutions", "products", "found"),
    [(3, 6, True), (4, 8, True), (3, 5, True), (3, 4, False), (6, 0, False)],
)
def test_only_all_layers_of_the_trained_model_are_an_evaluation(
    convolutions: int, products: int, found: bool
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trains(trace, ("aten::conv2d", "aten::linear", "aten::linear"))
        names = ["aten::conv2d"] * convolutions + ["aten::linear"] * products
        for place, name in enumerate(names):
            layer(trace, 3_000.0 + 100 * place, name, learns=False)

    assert (evaluated(body) > 0) is found


def test_layers_that_were_not_trained_are_another_model() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trains(trace)
        for place, name in enumerate(("aten::linear",) * MIN_LAYERS + ("aten::conv2d",)):
            layer(trace, 3_000.0 + 100 * place, name, learns=False)

    assert evaluated(body) == 0


def test_what_follows_the_last_layer_ends_with_few_operators() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trains(trace)
        for place in range(MIN_LAYERS):
            layer(trace, 3_000.0 + 100 * place, learns=False)
        for place in range(2 * FEW_AFTER):
            trace.op(4_000 + 100 * place, 4_040 + 100 * place, "aten::add_")

    assert evaluated(body) == pytest.approx(4_000 + 100 * (FEW_AFTER - 1) + 40 - 2_000)


def test_steps_that_nobody_marks_have_no_order() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trains(trace)
        for place in range(MIN_LAYERS):
            layer(trace, 3_000.0 + 100 * place, learns=False)

    trace = TinyTrace()
    for index in range(4):
        trace.shift = index * STEP
        body(trace, index)
    assert length(evaluations(Analysis(trace.build()), 0)) == 0


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("train.py(20): evaluate", True),
        ("train.py(20): validation_step", True),
        ("evaluate/train.py(20): run", False),
        ("train.py(20): reevaluates", False),
        ("train.py(20): revalidate", False),
    ],
)
def test_a_function_is_judged_by_its_own_name(name: str, found: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for place in range(MIN_LAYERS):
            layer(trace, 5_000.0 + 100 * place, learns=False)
        trace.frame(5_000, 6_000, name)
        trace.shift += 6_000
        trains(trace)
        trace.shift -= 6_000

    assert evaluated(body) == (pytest.approx(1_000) if found else 0)


@pytest.mark.parametrize(("part", "found"), [(NEARLY_ALL - 0.01, True), (NEARLY_ALL, False)])
def test_a_range_of_nearly_all_of_the_time_is_the_run_itself(part: float, found: bool) -> None:
    trace = TinyTrace()
    trains(trace)
    for place in range(MIN_LAYERS):
        layer(trace, 2_500 + 100.0 * place, learns=False)
    trace.region(2_000, 2_000 + part * 2 * STEP, "evaluation")
    trace.op(2 * STEP - 10, 2 * STEP, "aten::mm")
    analysis = Analysis(trace.build())
    assert (length(evaluations(analysis, 0)) > 0) is found


def test_an_evaluation_on_the_gpu_is_gone_but_for_a_tenth() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trains(trace)
        for place in range(12):
            trace.operation(20 + 200 * place, 220 + 200 * place, "sm90_gemm", 5 + 10 * place)
        for place in range(MIN_LAYERS):
            layer(trace, 2_200.0 + 50 * place, learns=False)
        for place in range(12):
            at = 2_420 + 620 * place
            trace.operation(at, at + 620, "sm90_gemm", 2_205 + 10 * place)
        trace.call(2_400, 9_900, "cudaDeviceSynchronize")

    first = plan_of_body(body, length=STEP).promises[0]
    assert first.proposal.fix == "evaluate-less-often"
    assert first.expected == pytest.approx(9_840 / (2_400 + LEFT * 7_440), rel=0.05)
    assert first.low <= 9_840 / (2_400 + LEFT_AT_MOST * 7_440)
    assert first.high >= 0.95 * 9_840 / 2_400


def test_a_program_that_validates_often_says_so_first_and_promises_what_it_gave() -> None:
    trace = opened(FIXTURES / "programs" / "validate.pt.trace.json.gz")
    plan = make_plan(Analysis(trace))
    first = plan.promises[0]
    assert first.proposal.fix == "evaluate-less-often"
    assert first.low < 2.17
    assert first.high * 1.05 > 2.39
    assert diagnose(trace).findings[0].rule == "evaluation-between-steps"
    assert "spread-slow-steps" not in promised(plan)


@pytest.mark.parametrize("name", one_of(2, ["selfplay", "contrast", "pupil", "preferences"]))
def test_actors_teachers_and_references_are_no_evaluation(name: str) -> None:
    trace = opened(FIXTURES / "programs" / f"{name}.pt.trace.json.gz")
    assert "evaluation-between-steps" not in {each.rule for each in diagnose(trace).findings}
