"""A wait that is nearly all of the waiting, in a recording without steps, is told as one that may not come again."""

from __future__ import annotations

import pytest

from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.diagnosis import diagnosis_of
from rules.findings.base import Category, Severity
from rules.ranking import weight
from rules.verdict.verdict import beside_the_verdict, verdict
from tests.rules.builder import TinyTrace, found, steps

# The cases lie on either side of these.
NEARLY_ALL = 0.9  # of the waiting
HIGH, LOW = 0.15, 0.01  # of the time
LONG_CALL_US = 1_000.0


def waiting(*waits_us: float, work_us: float = 20.0, kernels: int = 120, alike: bool = True) -> TinyTrace:
    """Kernels one behind the other, all launched early, between waits in which the CPU launches nothing.

    Those behind a wait are the same as before it, or all others, so that nothing repeats.
    """
    trace = TinyTrace()
    at = 100.0
    for part, wait in enumerate((*waits_us, 0.0)):
        launched, kind = at - 90.0, "" if alike else f"{'abcdefgh'[part]}_"
        for number in range(kernels):
            trace.operation(at, at + work_us, f"{kind}kernel_{number % 7}", launched + number * 10.0)
            at += work_us
        at += wait
    return trace


@pytest.mark.parametrize(
    ("waits_us", "once", "severity"),
    [
        ((3_000.0,), True, Severity.MEDIUM),
        ((3_000.0, 3_000.0 * (1 - NEARLY_ALL) * 0.9), True, Severity.MEDIUM),
        ((3_000.0, 3_000.0 * (1 - NEARLY_ALL) * 1.6), False, Severity.MEDIUM),
        ((3_000.0, 3_000.0), False, Severity.HIGH),
    ],
)
def test_one_wait_is_told_as_one(waits_us: tuple[float, ...], once: bool, severity: Severity) -> None:
    finding = found(waiting(*waits_us).build(), Category.HOST_BOUND)
    assert ("waits once for" in finding.title) is once
    assert ("It is one wait" in finding.explanation) is once
    assert finding.severity is severity


@pytest.mark.parametrize(
    ("waits_us", "verdict_of_it"),
    [
        ((4_700.0,), "The GPU computes 51 % of the time"),
        ((4_900.0,), "The GPU waits once for the CPU: 47 %"),  # 4.81 ms, and it computes for 4.8 ms
        ((3_000.0, 3_000.0), "The GPU waits for the CPU: 40 %"),
        ((3_000.0, 1_050.0, 1_050.0), "The GPU computes 65 % of the time"),
        (
            (3_000.0, 950.0, 950.0, 950.0),
            "The GPU waits for the CPU: ",
        ),  # a tenth of the time without the one
    ],
)
def test_one_wait_shorter_than_what_the_gpu_computes_is_told_after_it(
    waits_us: tuple[float, ...], verdict_of_it: str
) -> None:
    analysis = Analysis(waiting(*waits_us, alike=False).build())
    diagnosis = diagnosis_of(analysis)
    assert verdict(analysis, diagnosis).startswith(verdict_of_it)
    beside = beside_the_verdict(analysis, diagnosis)
    assert ("The largest other cost: the GPU waits once for" in beside) is (waits_us == (4_700.0,))


@pytest.mark.parametrize(
    ("waits_us", "part"),
    [
        ((3_000.0, 1_050.0), 0.75),
        ((3_000.0, 1_070.0), 0.0),  # the GPU waits 90 us less: three times the next longest
        ((3_000.0, 1_050.0, 1_050.0, 1_050.0), 0.5),
        ((3_000.0, 1_070.0, 1_050.0, 1_050.0), 0.0),
        ((3_000.0, 1_050.0, 1_050.0, 1_050.0, 200.0), 0.0),  # less than half of the waiting
    ],
)
def test_what_is_one_wait_like_no_other_counts_less_than_the_rest(
    waits_us: tuple[float, ...], part: float
) -> None:
    finding = found(waiting(*waits_us, alike=False).build(), Category.HOST_BOUND)
    assert finding.once == pytest.approx(part, abs=0.02)
    assert ("like no other in this recording: it may not come again" in finding.explanation) is (part > 0)
    assert finding.severity is (Severity.MEDIUM if part else Severity.HIGH)
    assert weight(finding) == pytest.approx(finding.share * (1 - finding.once))


def test_one_short_wait_is_not_made_more_of() -> None:
    finding = found(waiting(150.0).build(), Category.HOST_BOUND)
    assert "waits once for" in finding.title
    assert LOW < finding.share < HIGH
    assert finding.severity is Severity.LOW


def test_a_wait_of_every_step_is_none_that_comes_once() -> None:
    def body(trace: TinyTrace, at: float) -> None:
        trace.region(at, at + 700, "tokenize_next")
        trace.operation(at + 710, at + 1_000, "gemm", at + 700)

    (finding,) = (
        each
        for each in diagnose(steps(5, 1_000, body).build()).findings
        if each.category is Category.HOST_BOUND
    )
    assert "once" not in finding.title
    assert finding.severity is Severity.HIGH


@pytest.mark.parametrize(("launched_before", "once"), [(False, True), (True, False)])
def test_beside_a_call_that_is_slow_the_first_time_one_wait_is_one(launched_before: bool, once: bool) -> None:
    """One launch takes long, of a kernel that ran before or not, and later the CPU launches nothing for a while."""
    trace = TinyTrace()
    at, slow_us = 100.0, LONG_CALL_US * 1.5
    for wait in (0.0, 3_000.0):
        for number in range(120):
            trace.operation(at, at + 20, f"kernel_{number % 7}", at - 15)
            at += 20
        at += wait
        if not wait:
            name = "kernel_0" if launched_before else "another_kernel"
            trace.operation(at + slow_us + 4, at + slow_us + 24, name, at + 2, launch_us=slow_us)
            at += slow_us + 24
    for _ in range(120):
        trace.operation(at, at + 20, "kernel_0", at - 15)
        at += 20
    finding = found(trace.build(), Category.HOST_BOUND)
    assert ("waits once for" in finding.title) is once
    assert ("neither may come again" in finding.explanation) is once
    assert finding.severity is (Severity.MEDIUM if once else Severity.HIGH)


def bursts(*work_us: float, wait_us: float = 3_000.0) -> TinyTrace:
    """Bursts of kernels that run one behind the other, with a wait of the CPU before and behind each."""
    trace = TinyTrace()
    trace.copy(10, 12, "HtoD", 1, bytes=4)
    at = 12.0
    for work in work_us:
        at += wait_us
        for number in range(60):
            trace.operation(at, at + work / 60, f"kernel_{number % 7}", at - 10)
            at += work / 60
    trace.copy(at + wait_us, at + wait_us + 2, "HtoD", at + wait_us - 8, bytes=4)
    return trace


@pytest.mark.parametrize(
    ("work_us", "start_up"),
    [
        ((280.0,), True),
        ((360.0,), False),  # SHORT of the time
        ((400.0, 35.0), True),
        ((400.0, 55.0), False),  # NEARLY_ALL of the work
        ((280.0, 280.0, 280.0), False),
    ],
)
def test_waits_around_one_short_burst_of_work_are_start_up(
    work_us: tuple[float, ...], start_up: bool
) -> None:
    """Tiny copies that come before and behind it are no work that repeats."""
    finding = found(bursts(*work_us).build(), Category.HOST_BOUND)
    assert ("works once, and waits" in finding.title) is start_up
    assert ("it is start-up" in finding.explanation) is start_up
    assert (finding.severity is Severity.MEDIUM) is start_up
    assert any("several steps" in each for each in finding.advice) is start_up
