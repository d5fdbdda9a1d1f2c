"""Waits in calls that take long because they are made for the first time are start-up where nothing repeats."""

from __future__ import annotations

import numpy as np
import pytest

from parsers.model import Trace
from parsers.model.names.calls import Call
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.findings.base import Category, Finding, Severity
from rules.fixes.plan import comes_once, make_plan
from rules.replay.overlay import Overlay
from rules.verdict.verdict import verdict
from tests.rules.builder import TinyTrace, steps


def loading(load_us: float, checking_us: float, *, call: str = "cuModuleLoadData") -> Trace:
    """Sixty kernels of 20 us each, with code that is loaded and a check of the program's own between two of them."""
    trace, at = TinyTrace(), 0.0
    for number in range(60):
        trace.operation(at + 8, at + 28, f"void kernel_{number * number // 7 % 20}(float*)", at + 1)
        at += 25
        if number == 20:
            trace.call(at + 6, at + 6 + load_us, call)
            at += load_us + 6
        if number == 40:
            trace.op(at + 6, at + 6 + checking_us, "aten::check")
            at += checking_us + 6
    return trace.build()


def waited(trace: Trace) -> Finding:
    return next(each for each in diagnose(trace).findings if each.category is Category.HOST_BOUND)


@pytest.mark.parametrize(("checking_us", "starts"), [(1_900.0, True), (2_100.0, False)])
def test_half_of_the_waiting_in_such_calls_is_start_up(checking_us: float, starts: bool) -> None:
    trace = loading(2_000, checking_us)
    finding = waited(trace)
    assert finding.title.startswith("First calls are slow") is starts
    assert (finding.severity is Severity.INFO) is starts
    assert "because it is the first time" in finding.explanation
    assert ("the rest is one wait" in finding.explanation) is not starts
    assert ("Calls take long" in verdict(Analysis(trace), diagnose(trace))) is False


@pytest.mark.parametrize(("load_us", "starts"), [(1_050.0, True), (950.0, False)])
def test_a_call_of_less_than_a_millisecond_is_no_first_use(load_us: float, starts: bool) -> None:
    assert waited(loading(load_us, 900)).title.startswith("First calls are slow") is starts


def test_the_same_call_in_each_step_is_a_fault() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 30, 30, 30)
        trace.call(1_000, 3_500, "cuModuleLoadData")
        trace.kernels(3_600, 30, 30, 30)

    finding = waited(steps(5, 5_000, body).build())
    assert finding.severity is Severity.HIGH
    assert "the first time" not in finding.title


@pytest.mark.parametrize(("others_us", "once"), [(5.0, True), (200.0, False)])
def test_first_launches_that_a_change_makes_short_are_no_gain_of_a_step(others_us: float, once: bool) -> None:
    trace, at = TinyTrace(), 0.0
    for number in range(120):
        kind = 20 + number % 60 // 10 if number % 10 == 5 else number * number // 7 % 20
        took = 1_050.0 if kind >= 20 and number < 60 else others_us
        trace.op(at, at + took + 3, "aten::add")
        trace.operation(at + took + 4, at + took + 304, f"void kernel_{kind}(float*)", at + 1, launch_us=took)
        at += took + 300
    replay = make_plan(Analysis(trace.build())).replay

    def quick(overlay: Overlay) -> None:
        overlay.cost[:] = np.minimum(overlay.cost, 5_000)

    assert comes_once(replay, quick) is once


@pytest.mark.parametrize(("later_us", "once"), [(10.0, True), (40.0, False)])
def test_work_before_the_first_launch_of_each_kernel_is_no_gain_of_a_step(
    later_us: float, once: bool
) -> None:
    trace, at, seen = TinyTrace(), 0.0, set[int]()
    for number in range(120):
        kind = number * number // 7 % 20
        work = later_us if kind in seen else 300.0
        seen.add(kind)
        trace.op(at, at + work + 12, "aten::add")
        trace.operation(at + work + 10, at + work + 14, f"void kernel_{kind}(float*)", at + work)
        at += work + 14
    replay = make_plan(Analysis(trace.build())).replay

    def moved(overlay: Overlay) -> None:
        overlay.gap[:] = 0.0

    assert comes_once(replay, moved) is once


@pytest.mark.parametrize(("asked", "once"), [(80, True), (110, False)])
def test_of_more_than_half_of_all_calls_nothing_shows_how_long_a_later_pass_takes(
    asked: int, once: bool
) -> None:
    trace, at = TinyTrace(), 0.0
    for number in range(120):
        kind = number * number // 7 % 20
        trace.op(at, at + 320, "aten::add")
        if number < asked:
            trace.call(at + 290, at + 295, "cudaMalloc")
        trace.operation(at + 310, at + 314, f"void kernel_{kind}(float*)", at + 300)
        at += 320
    replay = make_plan(Analysis(trace.build())).replay
    of_allocations = replay.host.call == Call.ALLOCATE

    def moved(overlay: Overlay) -> None:
        overlay.gap[of_allocations] = 0.0

    assert comes_once(replay, moved) is once
