"""What TorchScript compiles in its first calls is told as that, comes once, and is promised to nobody."""

from __future__ import annotations

import pytest

from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.analysis.stretches.script_compiling import script_compiling
from rules.findings.base import Category, Finding, Severity, severity_of_once
from rules.fixes.plan import make_plan
from rules.verdict.verdict import verdict
from tests.rules.builder import TinyTrace, ns

KERNELS, EACH_US = 30, 100.0


def called(
    slow: tuple[int, ...],
    calls: int = 10,
    pause: float = 400_000,
    *,
    name: str = "<forward op>",
    kernel: str = "gemm",
    steps: bool = False,
    python: bool = False,
) -> TinyTrace:
    """Calls of scripted code, each of 30 kernels; the ``slow`` ones pause before the first."""
    trace, at = TinyTrace(), 0.0
    for number in range(calls):
        begin, at = at, at + 50
        if number in slow:
            if python:
                trace.frame(at, at + pause - 1, "load.py(3): read")
            at += pause
        began = at + 6
        for place in range(KERNELS):
            trace.op(at, at + 18, f"aten::op{place % 7}")
            start = began + place * EACH_US
            trace.operation(start, start + EACH_US, f"{kernel}_{place % 7}", at + 3)
            at += 20
        trace.op(begin + 5, at + 5, name)
        at += KERNELS * EACH_US
        if steps:
            trace.step(begin, at, f"ProfilerStep#{number + 3}")
    return trace


def compiled(trace: TinyTrace) -> float:
    analysis = Analysis(trace.build())
    start, end = script_compiling(analysis, analysis.threads.drivers(0)[1])
    return int((end - start).sum()) / ns(1.0)


def warm_up(trace: TinyTrace) -> Finding | None:
    return next(
        (each for each in diagnose(trace.build()).findings if each.category is Category.WARM_UP), None
    )


@pytest.mark.parametrize("name", ["<forward op>", "forward", "torch::jit::fuser::FusionExecutor"])
def test_the_second_step_in_which_scripted_code_compiles_is_warm_up(name: str) -> None:
    trace = called((1,), name=name, steps=True)
    analysis = Analysis(trace.build())
    assert [each.steady for each in analysis.steps] == [False, False] + [True] * 8
    diagnosis = diagnose(analysis.trace)
    assert verdict(analysis, diagnosis).startswith("Warm-up is in the recording")
    finding = next(each for each in diagnosis.findings if each.category is Category.WARM_UP)
    assert "compilation by TorchScript" in finding.explanation
    assert not any(each.proposal.fix == "spread-slow-steps" for each in make_plan(analysis).promises)


@pytest.mark.parametrize(("slow", "name"), [((3,), "<forward op>"), ((1,), "train_batch")])
def test_a_later_slow_step_and_one_of_other_code_are_no_warm_up(slow: tuple[int, ...], name: str) -> None:
    analysis = Analysis(called(slow, name=name, steps=True).build())
    assert all(each.steady for each in analysis.steps)


@pytest.mark.parametrize(("pause", "found"), [(9_900.0, 0.0), (10_100.0, 10_150.0)])
def test_a_pause_between_operators_of_scripted_code_is_long(pause: float, found: float) -> None:
    assert compiled(called((1,), pause=pause)) == pytest.approx(found, abs=60)


@pytest.mark.parametrize(
    ("slow", "calls", "name", "kernel", "found"),
    [
        ((0, 1, 2), 10, "<forward op>", "gemm", 3),
        ((3,), 10, "<forward op>", "gemm", 0),
        ((1,), 10, "forward", "gemm", 1),
        ((1,), 2, "forward", "gemm", 0),
        ((1,), 2, "forward", "fused_add_mul", 1),
        ((1,), 2, "forward", "void CudaCodeGen::kernel1", 1),
        ((1,), 2, "<forward op>", "gemm", 1),
        ((1, 9), 10, "forward", "gemm", 0),
    ],
)
def test_it_compiles_in_first_calls_that_later_ones_are_not_like(
    slow: tuple[int, ...], calls: int, name: str, kernel: str, found: int
) -> None:
    assert compiled(called(slow, calls, name=name, kernel=kernel)) == pytest.approx(found * 400_050, abs=100)


def test_python_inside_of_such_a_range_is_no_compiling() -> None:
    assert compiled(called((1,), name="forward", python=True)) == 0


def test_where_it_is_most_of_a_short_recording_it_is_told_as_start_up_without_a_speed_up() -> None:
    analysis = Analysis(called((1,), calls=3, name="forward").build())
    diagnosis = diagnose(analysis.trace)
    assert verdict(analysis, diagnosis).startswith("TorchScript compiles in its first calls")
    finding = diagnosis.findings[0]
    assert (finding.severity, finding.of_recording, finding.fix) == (Severity.HIGH, True, "")
    assert "two or three times" in finding.advice[0]
    assert "does not come again" in finding.explanation
    assert "torch.jit.freeze" in finding.code
    assert not any("extra work" in each.proposal.title for each in make_plan(analysis).promises)


@pytest.mark.parametrize(
    ("share", "severity"),
    [
        (0.51, Severity.HIGH),
        (0.5, Severity.MEDIUM),
        (0.16, Severity.MEDIUM),
        (0.04, Severity.LOW),
        (0.001, Severity.INFO),
    ],
)
def test_what_comes_once_is_high_only_where_it_is_most_of_the_recording(
    share: float, severity: Severity
) -> None:
    assert severity_of_once(1000 * share, 1000) is severity


@pytest.mark.parametrize(("pause", "severity"), [(20_000.0, Severity.MEDIUM), (45_000.0, Severity.HIGH)])
def test_warm_up_that_is_less_than_half_of_a_recording_is_not_high(pause: float, severity: Severity) -> None:
    found = warm_up(called((0,), pause=pause, steps=True))
    assert found is not None
    assert found.severity is severity
