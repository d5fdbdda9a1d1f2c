"""What came once in a recording without steps is no gain of a step; what comes all the time is."""

from __future__ import annotations

import numpy as np
import pytest

from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.fixes.plan import FEW, Plan, comes_once, make_plan
from rules.replay.overlay import Overlay
from rules.verdict.promises import about_replay, first_step
from tests.rules.builder import TinyTrace, steps

KERNELS, KINDS = 60, 20


def waiting(places: int, gap_us: float = 3_000.0) -> TinyTrace:
    """Kernels of 20 kinds, launched one right after the other but for some long waits for the CPU."""
    trace = TinyTrace()
    at = 0.0
    for number in range(KERNELS):
        if (
            number
            and number % (KERNELS // (places + 1)) == 0
            and number // (KERNELS // (places + 1)) <= places
        ):
            at += gap_us
        trace.op(at, at + 9, "aten::add")
        trace.operation(at + 8, at + 30, f"void kernel_{number * number // 7 % KINDS}(float*)", at + 1)
        at += 25
    return trace


def planned(trace: TinyTrace) -> Plan:
    return make_plan(Analysis(trace.build()))


@pytest.mark.parametrize(("places", "once"), [(1, True), (FEW, True), (FEW + 2, False)])
def test_waits_at_a_few_places_of_a_recording_without_steps_are_promised_nothing(
    places: int, once: bool
) -> None:
    plan = planned(waiting(places))
    assert any(each.fix == "move-host-phase" for each in plan.once) is once
    assert any(each.id.startswith("move-host-phase") for each in plan.promises) is not once
    assert ("may not make later steps faster" in about_replay(plan)) is once


def test_nothing_is_to_be_done_first_about_what_came_once() -> None:
    trace = waiting(1).build()
    analysis = Analysis(trace)
    assert "move-host-phase" not in first_step(make_plan(analysis), diagnose(trace))
    assert all("faster" not in each.title for each in diagnose(trace).findings)


@pytest.mark.parametrize(("gpus", "once"), [(1, False), (4, True)])
def test_what_happens_once_happens_to_each_gpu_of_a_program(gpus: int, once: bool) -> None:
    trace = TinyTrace()
    for number in range(KERNELS):
        for gpu in range(gpus):
            at = 60.0 * number + gpu
            name = f"void kernel_{number * number // 7 % KINDS}(float*)"
            trace.operation(at + 20, at + 40, name, at, device=gpu, stream=7 + gpu)
    replay = planned(trace).replay
    longest = np.arange(2 * FEW)

    def moved(overlay: Overlay) -> None:
        overlay.gap[longest] = np.maximum(overlay.gap[longest] - 1.0, -1.0)

    assert comes_once(replay, moved) is once


@pytest.mark.parametrize(("count", "places", "once"), [(2, 1, True), (2, 2, False), (3, 1, False)])
def test_of_two_steps_both_must_have_it(count: int, places: int, once: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 30, 30, 30)
        trace.kernels(9_500, 30, 30, 30)

    replay = planned(steps(count, 12_000, body)).replay
    longest = np.argsort(-replay.usual.gap)[:places]

    def moved(overlay: Overlay) -> None:
        overlay.gap[longest] = 0.0

    assert comes_once(replay, moved) is once


def test_a_wait_that_a_change_ends_has_no_place() -> None:
    plan = planned(waiting(1))

    def nothing(_: object) -> None:
        return

    assert not comes_once(plan.replay, nothing)


@pytest.mark.parametrize(("kinds", "found"), [(1, False), (2, False), (3, True)])
def test_one_call_that_is_measured_over_and_over_is_no_graph(kinds: int, found: bool) -> None:
    trace = TinyTrace()
    for number in range(KERNELS):
        at = 60.0 * number
        trace.op(at, at + 20, "aten::addmm")
        trace.operation(at + 20, at + 24, f"void gemv_{number * number // 7 % kinds}(float*)", at + 10)
    plan = planned(trace)
    assert any(each.id.startswith("replay-cuda-graph") for each in plan.promises) is found


@pytest.mark.parametrize(("kinds", "predicted"), [(40, True), (41, False)])
def test_nothing_is_predicted_where_hardly_a_kernel_runs_again(kinds: int, predicted: bool) -> None:
    trace = TinyTrace()
    for number, kind in enumerate(np.random.default_rng(0).permutation(np.arange(120) % kinds).tolist()):
        at = 60.0 * number
        trace.op(at, at + 20, "aten::conv2d")
        trace.operation(at + 20, at + 55, f"void kernel_{kind}(float*)", at + 10)
    plan = planned(trace)
    assert (plan.reason == "") is predicted
    assert plan.reason in ("", "hardly anything in the recording repeats")


@pytest.mark.parametrize("computes", [False, True])
def test_a_program_that_only_copies_is_not_told_to_copy_less(computes: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for place in range(10):
            trace.copy(place * 3_000 + 20, place * 3_000 + 3_000, "HtoD", place * 10 + 2)
        if computes:
            trace.operation(30_000, 45_000, "void kernel(float*)", 110)
            trace.call(115, 45_010, "cudaDeviceSynchronize")

    plan = planned(steps(4, 45_100, body))
    assert any(each.id.startswith("copy-less") for each in plan.promises) is computes


@pytest.mark.parametrize(("at_first_us", "between_us", "gains"), [(500.0, 0.0, False), (0.0, 150.0, True)])
def test_what_the_cpu_does_before_the_gpu_s_work_is_not_hidden_behind_it(
    at_first_us: float, between_us: float, gains: bool
) -> None:
    """A recording without steps ran once: only what the CPU does between read-backs can go on while the GPU works."""
    trace, at = TinyTrace(), 0.0
    for _ in range(20):
        trace.copy(at + 5, at + 6, "HtoD", at)
        at += 20.0 + at_first_us
    for number in range(22):
        trace.operation(at + 8, at + 408, f"void kernel_{number**3 % 17 % 5}(float*)", at)
        trace.copy(at + 410, at + 411, "DtoH", at + 9, pageable=True, bytes=4, launch_us=405.0)
        at += 420.0 + between_us
    plan = planned(trace)
    assert not any(span.numbers for span in plan.replay.spans)
    told = {each.proposal.fix: each.expected for each in plan.promises}
    assert ("remove-read-backs" in told) is gains
    assert told.get("remove-read-backs", 1.3) >= 1.3
