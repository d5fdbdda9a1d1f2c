"""Convolutions that try all algorithms for each new shape, and what is left of them without."""

from __future__ import annotations

import pytest

from rules.findings.category import Category
from rules.fixes.plan import Promise
from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body

CONVOLUTION = "aten::cudnn_convolution"


def of_steps(
    tried: int = 4, *, operator: str = CONVOLUTION, in_steps: int = 6, prepare: float = 400
) -> list[Promise]:
    """Steps of a convolution that prepares, tries algorithms of 100 us twice each, and runs the chosen one."""

    def body(trace: TinyTrace, number: int) -> None:
        trace.kernels(5, 1, 5, 100, "void fill_kernel")
        at = 40 + prepare
        for _ in range(tried if number < in_steps else 0):
            trace.operation(at + 10, at + 110, "void conv_kernel", at)
            trace.call(at + 10, at + 112, "cudaDeviceSynchronize")
            trace.operation(at + 125, at + 225, "void conv_kernel", at + 115)
            trace.call(at + 125, at + 227, "cudaEventSynchronize")
            at += 230
        trace.operation(at + 10, at + 110, "void conv_kernel", at)
        trace.op(30, at + 20, operator)
        trace.call(at + 30, at + 112, "cudaDeviceSynchronize")

    plan = plan_of_body(body, length=40 + prepare + 4 * 230 + 130)
    return [each for each in plan.promises if each.proposal.fix == "keep-algorithms"]


@pytest.mark.parametrize(
    ("tried", "operator", "in_steps", "found"),
    [
        (4, CONVOLUTION, 6, True),
        (2, CONVOLUTION, 6, True),
        (1, CONVOLUTION, 6, False),
        (4, "aten::miopen_convolution", 6, True),
        (4, "aten::mm", 6, False),
        (4, CONVOLUTION, 2, True),
        (4, CONVOLUTION, 1, False),
    ],
)
def test_two_timed_runs_of_a_convolution_in_two_steps_are_trials(
    tried: int, operator: str, in_steps: int, found: bool
) -> None:
    assert bool(of_steps(tried, operator=operator, in_steps=in_steps)) is found


def test_the_chosen_run_stays_and_half_of_what_one_algorithm_takes_to_prepare() -> None:
    (promise,) = of_steps(prepare=8_000)
    assert "4 for a convolution, 4 in a step" in promise.proposal.title
    # 9,090 us, of which the fill, an eighth of 8,000 us, the chosen run of 100 us and some calls remain
    assert promise.expected == pytest.approx(9_090 / 1_200, rel=0.1)


def test_the_gradients_of_a_convolution_keep_two_runs() -> None:
    (forward,), (backward,) = of_steps(), of_steps(operator="aten::convolution_backward")
    assert forward.expected > 1.15 * backward.expected


def test_at_most_nothing_is_prepared() -> None:
    """As where shapes are padded to a few: an eighth of 8,000 us is gone as well."""
    (promise,) = of_steps(prepare=8_000)
    assert promise.high > 2.5 * promise.expected


@pytest.mark.parametrize("inside", [True, False], ids=["by the search", "by the program"])
def test_memory_that_a_search_gives_back_is_not_allocated_anew(inside: bool) -> None:
    def body(trace: TinyTrace, number: int) -> None:
        trace.kernels(5, 1, 5, 100, "void fill_kernel")
        for at in (40, 270):
            trace.operation(at + 10, at + 110, "void conv_kernel", at)
            trace.call(at + 10, at + 112, "cudaEventSynchronize")
        trace.call(400, 800, "cudaFree")
        trace.operation(815, 915, "void conv_kernel", 805)
        trace.op(30, 812 if inside else 398, CONVOLUTION)
        trace.call(920, 1_320, "cudaMalloc")
        trace.kernels(1_330, 1, 5, 100, "void next_kernel")

    plan = plan_of_body(body, length=1_500)
    (promise,) = [each for each in plan.promises if each.proposal.fix == "keep-algorithms"]
    assert (Category.ALLOCATOR in promise.proposal.categories) is inside
    assert (plan.replay.gain([promise.proposal.expected]) > 2.0) is inside
