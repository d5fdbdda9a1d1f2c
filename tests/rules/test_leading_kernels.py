"""A kernel of the program's own that takes most of the time leads, whatever is small beside it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rules.analysis.analysis import Analysis
from rules.causes import leading
from rules.diagnosis import diagnose
from rules.findings.base import Category, Severity
from rules.verdict.verdict import verdict
from tests.rules.builder import TinyTrace, steps
from tests.rules.test_causes import STEP_US, finding


@pytest.mark.parametrize(
    ("kernel", "until", "copying", "limits"),
    [
        ("advance_cells", 600, 150, True),
        ("advance_cells", 480, 150, False),  # not most of the time
        ("advance_cells", 600, 200, False),  # too much to be small beside it
        ("ampere_bf16_s16816gemm_bf16_128x64_tn", 600, 150, False),  # what it lacks other rules say
    ],
)
def test_a_kernel_of_the_programs_own_that_takes_most_of_the_time_comes_before_what_is_small_beside_it(
    kernel: str, until: float, copying: float, limits: bool
) -> None:
    trace = TinyTrace()
    each = 1_000 - copying
    for number in range(40):
        at = each * number
        trace.operation(at, at + until, kernel, at - 5 if number else 0.0)
        trace.operation(at + until, at + each, f"other_{number}", at)
    trace.copy(40 * each, 40_000, "DtoH", 40 * each - 300, pageable=True)
    built = trace.build()
    said = verdict(Analysis(built), diagnose(built))
    assert said.startswith("Copies from the GPU") is not limits
    assert ("60 % in advance_cells alone" in said) is limits


@pytest.mark.parametrize(("unexplained", "leads"), [(0.29, False), (0.31, True)])
def test_what_nobody_can_explain_comes_after_a_kernel_that_takes_twice_as_long(
    unexplained: float, leads: bool
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.operation(20, 620, "advance_cells", 0)

    ran = Analysis(steps(6, STEP_US, body).build())
    waits = replace(
        finding(Category.UNEXPLAINED_IDLE, 0.0),
        intervals=((0, round(unexplained * 1_000_000)),),
        severity=Severity.INFO,
    )
    assert (leading(ran, [waits]) is waits) is leads


def test_one_kernel_is_all_that_a_gpu_computes_between_its_copies() -> None:
    trace = TinyTrace()
    trace.copy(0, 6_000, "HtoD", -10, pageable=True)
    for number in range(40):
        at = 6_000 + 700 * number
        trace.operation(at, at + 700, "advance_cells", at - 500)
    trace.copy(34_000, 40_000, "DtoH", 33_900, pageable=True)
    built = trace.build()
    said = verdict(Analysis(built), diagnose(built))
    assert said == "The GPU computes 70 % of the time, nearly all of it in advance_cells"


@pytest.mark.parametrize(("late", "told"), [(5, True), (4, False)])
def test_a_few_operations_that_come_late_say_nothing_of_how_fast_a_program_launches(
    late: int, told: bool
) -> None:
    trace = TinyTrace()
    trace.operation(0, 800, "blur_picture", -5)
    for number in range(late):
        at = 840.0 + 50 * number
        trace.operation(at, at + 4, "copy_row", at - 5)
    analysis = Analysis(trace.build())
    diagnosis = diagnose(analysis.trace)
    assert ("launching-too-slowly" in {each.rule for each in diagnosis.findings}) is told
    assert verdict(analysis, diagnosis).endswith("% of the time, nearly all of it in blur_picture")
