"""A loss that lies in a few of the steps is told as such, and so is what usually lies in a few."""

from __future__ import annotations

import pytest

from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.findings.base import Category, Finding
from rules.terms import quoted
from tests.rules.builder import TinyTrace, steps


def with_pauses(every: int, region: str, count: int = 12) -> list[Finding]:
    """Steps of 2 ms with a pause of 1.4 ms inside a region in every so-manieth of them."""

    def body(trace: TinyTrace, index: int) -> None:
        trace.op(1, 8, "aten::mm")
        trace.kernels(0, 10, 40, 50)
        late = index % every == every - 1
        if late:
            trace.region(510, 1910, region)
        trace.kernels(1920 if late else 510, 1, 1500 if not late else 60, 50)

    trace = steps(count, 2000, body)
    of_the_host = (Category.HOST_BOUND, Category.RECOMPILATION)
    return [each for each in diagnose(trace.build()).findings if each.category in of_the_host]


def test_a_pause_in_every_step_is_told_for_one_step() -> None:
    (found,) = with_pauses(1, "tokenize")
    assert found.title.endswith("of every step")
    assert "of the 2.00 ms of a step" in found.explanation


def test_a_pause_in_two_of_twelve_steps_is_told_for_all_of_them() -> None:
    (found,) = with_pauses(6, "tokenize")
    assert found.title.endswith("% of the time, in 2 of 12 steps")
    assert "of the 24.0 ms of all steps" in found.explanation


@pytest.mark.parametrize(("every", "few"), [(2, True), (1, False)])
def test_half_of_the_steps_are_few_and_all_are_not(every: int, few: bool) -> None:
    (found,) = with_pauses(every, "tokenize")
    assert ("in 6 of 12 steps" in found.title) is few
    assert any("Garbage collection" in advice for advice in found.advice) is few


@pytest.mark.parametrize(
    ("region", "advised"),
    [
        ("save_checkpoint", "async_save"),
        ("trainer/checkpoint", "async_save"),
        ("inductor_compile (dynamo_timed)", "TORCH_LOGS=recompiles"),
        ("DeepSpeedCPUAdam", "fits"),
        ("evaluate", "Evaluate less often"),
        ("log_metrics", "Log less often"),
    ],
)
def test_work_that_names_itself_gets_advice_of_its_own(region: str, advised: str) -> None:
    (found,) = with_pauses(6, region)
    assert found.culprit.text == region
    assert advised in found.advice[0]
    assert not any("Garbage collection" in advice for advice in found.advice)
    assert (found.category is Category.RECOMPILATION) is ("compile" in region)


@pytest.mark.parametrize(
    "region", ["tokenize", "saveable", "catalog", "logits", "retest_queue", "evaluator2"]
)
def test_other_names_get_the_usual_advice(region: str) -> None:
    (found,) = with_pauses(1, region)
    assert found.advice[0].startswith(f"Move {quoted(region)} off the critical path")


def test_copies_of_a_checkpoint_are_counted_where_they_are() -> None:
    def body(trace: TinyTrace, index: int) -> None:
        trace.kernels(0, 10, 40, 50)
        if index % 5 == 4:
            trace.region(520, 1990, "save_checkpoint")
            for number in range(4):
                trace.copy(560 + 300 * number, 850 + 300 * number, "DtoH", 540 + 300 * number, pageable=True)

    found = next(
        each
        for each in diagnose(steps(10, 2000, body).build()).findings
        if each.category is Category.COPY_D2H
    )
    assert "in 2 of 10 steps" in found.title
    assert found.explanation.startswith("8 copies from GPU to host, 46.4 MB in all")
    assert "async_save" in found.advice[0]


@pytest.mark.parametrize(("size", "offloading"), [(200_000_000, False), (300_000_000, True)])
def test_more_than_a_batch_is_called_offloading(size: int, offloading: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.copy(10, 8000, "HtoD", 0, bytes=size, launch_us=8010)
        trace.kernels(8100, 10, 140, 150)

    found = next(
        each
        for each in diagnose(steps(5, 10_000, body).build()).findings
        if each.category is Category.COPY_H2D
    )
    assert any("offloading" in advice for advice in found.advice) is offloading
    assert any("next batch" in advice for advice in found.advice) is not offloading


@pytest.mark.parametrize("operator_in_it", [False, True])
def test_a_single_step_without_an_operator_is_what_was_left_behind_the_work(operator_in_it: bool) -> None:
    """profiler.step() was called once, and the loop ended behind it."""
    trace = TinyTrace()
    trace.region(0, 5_900, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")
    trace.op(6_000, 9_900, "aten::mm")
    trace.step(9_950, 10_000, "ProfilerStep#1")
    if operator_in_it:
        trace.op(9_960, 9_990, "aten::item")
    analysis = Analysis(trace.build())
    assert (len(analysis.steps) == 1) is operator_in_it
    assert (analysis.window_ns > 9_000_000) is not operator_in_it


@pytest.mark.parametrize("operator_in_them", [False, True])
def test_steps_without_an_operator_mark_the_calls_of_a_profiler_alone(operator_in_them: bool) -> None:
    trace = TinyTrace()
    for number in range(4):
        begin = 1_000 * number
        trace.op(begin, begin + 800, "aten::mm")
        trace.step(begin + 900, begin + 920, f"ProfilerStep#{number}")
        if operator_in_them:
            trace.op(begin + 905, begin + 910, "aten::add")
    found = {each.name for each in Analysis(trace.build()).steady_steps}
    assert any(name.startswith("ProfilerStep") for name in found) is operator_in_them
