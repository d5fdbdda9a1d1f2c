"""How far promises reach, in which order they are told and what they are named for: cases on either side."""

from __future__ import annotations

import numpy as np
import pytest

from parsers.model import Progress
from rules.analysis.analysis import Analysis
from rules.analysis.idle.causes import Cause
from rules.findings.category import Category
from rules.fixes.base import Proposal
from rules.fixes.plan import Plan, Promise, _in_order
from rules.fixes.simulation import idle_by_cause
from rules.losses.kernel_findings import _caution
from rules.losses.lost_time import between_nodes
from rules.remedies.communication import JOIN_MESSAGES, hidden_communication
from rules.remedies.remedy import Remedy
from rules.replay.overlay import Overlay
from rules.replay.replay import Replay, replay_of
from tests.rules.builder import TinyTrace, steps
from tests.rules.kernel_profiles import kernel
from tests.rules.test_fixes import plan_of_body
from tests.rules.test_sides_of_fixes import promise, small_collectives


def small() -> Replay:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 10, 20, 40)

    return replay_of(Analysis(steps(4, 500, body).build()))


def nothing(_: Overlay) -> None:
    """Changes nothing."""


def in_order(*gains: tuple[float, float], broad: int = -1) -> list[str]:
    """The order of promises of such least and expected gains, of which one changes much of the program."""
    promises = []
    for number, (low, expected) in enumerate(gains):
        proposal = Proposal("Change it", (Category.HOST_BOUND,), Remedy(), nothing, broad=number == broad)
        promises.append(Promise(str(number), proposal, low, expected, 2 * expected, expected))
    return [each.id for each in _in_order(small(), promises, Progress())]


def test_what_changes_much_of_a_program_counts_for_less_in_the_order() -> None:
    assert in_order((2.0, 2.2), (1.85, 1.85), broad=0)[0] == "1"
    assert in_order((2.0, 2.2), (1.75, 1.75), broad=0)[0] == "0"


@pytest.mark.parametrize(("promises", "all_of_them"), [(10, True), (20, False)])
def test_the_largest_gains_are_told(promises: int, all_of_them: bool) -> None:
    told = in_order(*((1.1 + number / 10, 1.1 + number / 10) for number in range(promises)))
    assert (len(told) == promises) is all_of_them
    assert str(promises - 1) in told


def mostly_recorded(collects: float) -> Plan:
    """Steps of 30 launches with 14 short operators before each, and so many us of something else."""

    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        for _launch in range(30):
            for _operator in range(14):
                trace.op(at, at + 1, "aten::view")
                at += 8
            trace.kernels(at, 1, 2, 5)
            at += 8
        if collects:
            trace.region(at, at + collects, "Python GC")
        trace.kernels(at + collects + 10, 2, 5, 10)

    return plan_of_body(body, count=3, length=3_640 + collects)


@pytest.mark.parametrize(("collects", "reaches"), [(0.0, True), (300.0, False)])
def test_where_the_recorder_may_take_less_a_fix_may_give_what_it_gives_with_it(
    collects: float, reaches: bool
) -> None:
    plan = mostly_recorded(collects)
    made = promise(plan, "replay-cuda-graph")
    assert (made.high >= plan.replay.gain_recorded([made.proposal.expected])) is reaches


@pytest.mark.parametrize(("works", "known"), [(690.0, True), (640.0, False)])
def test_a_gpu_that_idles_more_than_a_third_of_the_time_leaves_the_step_unsure(
    works: float, known: bool
) -> None:
    """Its work is what a step takes at least; where the CPU decides how long that was, a fifth less."""

    def body(trace: TinyTrace, _: int) -> None:
        for place in range(10):
            trace.operation(10 + place * works / 10, 10 + (place + 1) * works / 10, "gemm", 4 + place * 6)
        trace.call(70, 20 + works, "cudaDeviceSynchronize")
        trace.region(30 + works, 990, "Python GC")

    plan = plan_of_body(body, length=1_000)
    made = promise(plan, "collect-garbage-seldom")
    assert plan.most(made) == pytest.approx(1_000 / works * (1.0 if known else 1.2), rel=0.02)


@pytest.mark.parametrize(("size", "joined"), [(900_000, True), (1_100_000, False)])
def test_small_messages_are_joined_to_shorten_communication(size: int, joined: bool) -> None:
    advised = hidden_communication(small_collectives(10, size=size).replay.analysis, 0).advice
    assert (JOIN_MESSAGES.advice[0] in advised) is joined


@pytest.mark.parametrize(("every", "told"), [(10.0, True), (8.9, False)])
def test_the_time_between_kernels_of_a_graph_is_told_where_it_is_much(every: float, told: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.graph(10, 100, 8, every)

    (_, took) = between_nodes(Analysis(steps(4, 100 * every + 20, body).build()))
    assert (took > 0) is told


@pytest.mark.parametrize(("ns", "short"), [(4_000, True), (7_000, False)])
def test_percentages_of_a_short_launch_mean_little(ns: int, short: bool) -> None:
    assert bool(_caution(kernel({"gpu__time_duration.sum": ns}))) is short


@pytest.mark.parametrize(("updates", "of_optimizer"), [(1_300.0, True), (800.0, False)])
def test_a_round_trip_is_of_an_optimizer_where_that_is_most_of_it(updates: float, of_optimizer: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 20, 5, 40)
        trace.copy(904, 1_100, "DtoH", 900, pageable=True, bytes=2_000_000, launch_us=205)
        trace.op(1_120, 3_120, "aten::_fused_adamw_")
        trace.region(1_110, 1_110 + updates, "Optimizer.step#AdamW.step")
        trace.copy(3_154, 3_350, "HtoD", 3_150, pageable=True, bytes=2_000_000, launch_us=205)

    title = promise(plan_of_body(body, length=3_400), "keep-on-gpu").proposal.title
    assert title.startswith("Update the parameters on the GPU") is of_optimizer


@pytest.mark.parametrize(("operators", "works"), [(132.0, True), (112.0, False)])
def test_short_operators_behind_a_copy_launch_something(operators: float, works: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 10, 5, 20)
        trace.copy(225, 285, "DtoH", 220, pageable=True, bytes=80_000, launch_us=70)
        trace.op(292, 292 + operators, "aten::add")
        trace.kernels(430, 10, 5, 20)

    title = promise(plan_of_body(body, length=645), "copy-less").proposal.title
    assert ("and the CPU works" in title) is works


@pytest.mark.parametrize(("after", "waits"), [(0.7, True), (1.3, False)])
def test_a_gap_belongs_to_the_cpu_where_what_ends_it_is_launched_in_it(after: float, waits: bool) -> None:
    """It begins at 500 us, and 40 us later starts what was launched 6 us before that time or somewhat later."""

    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 10, 5, 20)
        trace.operation(226, 500, "void long_kernel", 220)
        trace.operation(540, 560, "void other_kernel", 494 + after, stream=8)
        trace.kernels(600, 10, 5, 20)

    replay = replay_of(Analysis(steps(4, 1_000, body).build()))
    assert replay.reason == ""
    overlay = replay.recorded
    run = replay.ready.run(overlay)
    mine = replay.host.step[replay.device.launch] == 1
    begin = run.start[mine].min()
    order = np.argsort(run.start[mine])
    busy = tuple(np.rint(each[mine][order] - begin).astype(np.int64) for each in (run.start, run.end))
    idle = idle_by_cause(replay, overlay, run, mine, (busy[0], busy[1]), 1_000_000)
    assert (idle.get(Cause.DEPENDENCY, 0) > 20_000) is waits


@pytest.mark.parametrize("sides", [1254, 1365])
def test_elements_of_no_known_type_have_four_bytes(sides: int) -> None:
    """A picture is made smaller for a copy that takes 1 ms; in its place half as much again or more is sent."""

    def body(trace: TinyTrace, _: int) -> None:
        event = trace.op(5, 1_805, "aten::upsample_bicubic2d")
        trace.shapes(event, [[1, 1, sides, sides], []], ["", ""])
        trace.copy(1_830, 2_830, "HtoD", 1_810, pageable=True, bytes=4 * 1024 * 1024, launch_us=1_030)
        trace.kernels(2_850, 25, 20, 40)

    plan = plan_of_body(body, length=3_870)
    made = promise(plan, "move-host-phase")
    grown = sides**2 / 1024**2 - 1
    assert made.expected == pytest.approx(3_870 / (3_870 - 1_800 + 1_000 * grown), rel=0.05)
