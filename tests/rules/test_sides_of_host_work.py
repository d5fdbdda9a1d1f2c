"""Which host work is one phase, one round trip or one loop, and how much of it is left: cases on either side."""

from __future__ import annotations

import pytest

from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import Proposal
from rules.fixes.catalog.mend_late_ranks import MendLateRanks
from rules.fixes.plan import Plan, Promise, make_plan
from rules.fixes.removal import Removal
from rules.replay.replay import replay_of
from tests.rules.builder import TinyTrace, steps
from tests.rules.test_fixes import plan_of_body
from tests.rules.test_item_loops import rounds_with_pauses
from tests.rules.test_sides_of_fixes import is_told, promise


def compiling(each: tuple[float, ...]) -> Plan:
    """Steps in which a compiler runs for so many us."""

    def body(trace: TinyTrace, index: int) -> None:
        trace.kernels(10, 15, 20, 40)
        if each[index]:
            trace.region(700, 700 + each[index], "torch/_dynamo/convert_frame.py: compile")
        trace.kernels(2_500, 15, 20, 40)

    return plan_of_body(body, count=len(each), length=3_200)


@pytest.mark.parametrize(
    ("each", "found"),
    [((1_100.0,) * 6, True), ((900.0,) * 6, False), ((0.0, 1_100.0, 1_100.0), True), ((0.0, 1_100.0), False)],
    ids=["a millisecond", "less", "two of three steps", "one of two"],
)
def test_a_compiler_that_runs_again(each: tuple[float, ...], found: bool) -> None:
    plan = compiling(each)
    assert is_told(plan, "compile-once") is found
    assert not plan.once, "nor is it told as what came once"


def phases(plan: Plan) -> list[Promise]:
    assert plan.crashed == ()
    return [each for each in plan.promises if each.proposal.fix == "move-host-phase"]


def test_a_twentieth_of_what_operators_take_on_the_cpu_is_left_for_the_gpu() -> None:
    def left(work: float) -> float:
        def body(trace: TinyTrace, _: int) -> None:
            trace.op(5, 5 + work, "aten::stft")
            trace.kernels(20 + work, 15, 20, 30)

        plan = plan_of_body(body, length=480 + work)
        (found,) = phases(plan)
        return plan.replay.usual_ns / found.expected / 1_000

    assert left(20_000) - left(10_000) == pytest.approx(500, rel=0.05)


@pytest.mark.parametrize(("operators", "found"), [(7, False), (13, True)])
def test_operators_that_launch_nothing_for_a_millisecond_calculate(operators: int, found: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 15, 20, 40)
        for place in range(operators):
            trace.op(620 + place * 100, 715 + place * 100, "aten::add")
        trace.kernels(630 + operators * 100, 15, 20, 40)

    assert bool(phases(plan_of_body(body, length=1_260 + operators * 100))) is found


@pytest.mark.parametrize(("silent", "whole"), [(324, True), (252, False)])
def test_where_a_third_of_a_gap_is_silent_all_of_it_is_work(silent: float, whole: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 15, 20, 40)
        at = 590 + silent
        while at < 1_490:
            trace.op(at, at + 2, "aten::detach")
            at += 100
        trace.kernels(1_500, 15, 20, 40)

    (found,) = phases(plan_of_body(body, length=2_110))
    assert (found.expected > 1.45) is whole


@pytest.mark.parametrize(("records", "found"), [(10, False), (12, True)])
def test_a_millisecond_in_which_nothing_is_launched_is_work_though_operators_part_it(
    records: int, found: bool
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 15, 20, 40)
        for place in range(records):
            trace.op(620 + place * 100, 622 + place * 100, "aten::lift_fresh")
        trace.kernels(590 + records * 100, 15, 20, 40)

    assert bool(phases(plan_of_body(body, length=1_200 + records * 100))) is found


@pytest.mark.parametrize(("apart", "found"), [(200.0, True), (140.0, False)])
def test_stretches_without_a_record_are_work(apart: float, found: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 15, 20, 40)
        for place in range(1, 4):
            trace.op(570 + place * apart, 571 + place * apart, "aten::detach")
        trace.kernels(570 + 4 * apart, 15, 20, 40)

    assert bool(phases(plan_of_body(body, length=1_200 + 4 * apart))) is found


@pytest.mark.parametrize(("launches", "names"), [(19, 1), (20, 2)])
def test_twenty_launches_lie_between_two_phases(launches: int, names: int) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.region(5, 995, "tokenise")
        trace.kernels(1_000, launches, 20, 40)
        at = 1_010 + launches * 40
        trace.region(at, at + 990, "score")
        trace.kernels(at + 1_000, 25, 20, 40)

    assert len(phases(plan_of_body(body, length=3_030 + launches * 40))) == names


@pytest.mark.parametrize(("ends", "names"), [(500, 1), (900, 2)])
def test_work_whose_name_changes_is_one_although_steps_end_with_a_little_of_the_next(
    ends: float, names: int
) -> None:
    """Work of 6 ms at the beginning of each step, by turns of two names, and so much of it before that."""

    def body(trace: TinyTrace, index: int) -> None:
        trace.region(5, 5_995, ("tokenise", "score")[index % 2])
        trace.kernels(6_000, 25, 20, 40)

    assert len(phases(plan_of_body(body, length=7_000 + ends))) == names


@pytest.mark.parametrize(("reads", "belong"), [(16, True), (17, False)])
def test_a_loop_of_waits_is_no_part_of_a_phase(reads: int, belong: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(5_000, 2, 5, 10)
        at = 5_040
        for _ in range(reads):
            trace.copy(at + 5, at + 15, "DtoH", at, pageable=True, bytes=1_000, launch_us=18)
            at += 30
        trace.kernels(at, 25, 20, 40)

    (found,) = phases(plan_of_body(body, length=6_060 + reads * 30))
    assert (Category.COPY_D2H in found.proposal.categories) is belong


@pytest.mark.parametrize(("calculates", "apart"), [(900, True), (480, False)])
def test_a_little_of_another_kind_is_no_phase_of_its_own(calculates: float, apart: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.copy(6_010, 6_100, "HtoD", 6_000, pageable=True, bytes=1_000_000, launch_us=102)
        end = 6_110 + calculates
        trace.op(6_110, end, "aten::index")
        trace.copy(end + 10, end + 100, "HtoD", end + 5, pageable=True, bytes=1_000_000, launch_us=102)
        trace.kernels(end + 130, 25, 20, 40)

    keys = {each.proposal.key for each in phases(plan_of_body(body, length=7_270 + calculates))}
    assert ("aten::index" in keys) is apart


def test_a_third_of_what_makes_a_batch_moves_at_least() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.copy(6_010, 6_410, "HtoD", 6_000, pageable=True, bytes=4_000_000, launch_us=412)
        trace.kernels(6_430, 25, 20, 40)

    (found,) = phases(plan_of_body(body, length=7_450))
    assert found.low == pytest.approx(7_450 / (7_450 - 400 - 6_000 / 3), rel=0.1)


@pytest.mark.parametrize(("lasts", "belongs"), [(800, True), (1_300, False)])
def test_a_copy_that_takes_longer_than_the_work_behind_it_stays(lasts: float, belongs: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 15, 20, 40)
        trace.copy(620, 620 + lasts, "DtoH", 610, pageable=True, bytes=900_000, launch_us=lasts + 15)
        trace.kernels(1_130 + lasts, 15, 20, 40)

    (found,) = phases(plan_of_body(body, length=1_760 + lasts))
    assert (Category.COPY_D2H in found.proposal.categories) is belongs


@pytest.mark.parametrize(("back", "found"), [(4, True), (3, False)])
def test_four_in_five_bytes_of_a_trip_come_back(back: int, found: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for place in range(5):
            at = 10 + place * 120
            trace.copy(at + 5, at + 105, "HtoD", at, pageable=True, bytes=1_000_000, launch_us=110)
        trace.kernels(620, 10, 4, 20, "nvkernel_solve_F1L204_2")
        for place in range(back):
            at = 830 + place * 120
            trace.copy(at + 5, at + 105, "DtoH", at, pageable=True, bytes=1_000_000, launch_us=110)

    assert is_told(plan_of_body(body, length=1_460), "keep-on-gpu") is found


@pytest.mark.parametrize(("loads", "found"), [(800, True), (1_200, False)])
def test_a_batch_that_is_loaded_behind_results_is_no_round_trip(loads: float, found: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 15, 20, 40)
        trace.copy(640, 840, "DtoH", 620, pageable=True, bytes=2_000_000, launch_us=225)
        trace.op(850, 850 + loads, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")
        trace.op(860 + loads, 10_840, "aten::add")
        trace.copy(10_860, 11_060, "HtoD", 10_850, pageable=True, bytes=2_000_000, launch_us=215)
        trace.kernels(11_080, 15, 20, 40)

    assert is_told(plan_of_body(body, length=11_700), "keep-on-gpu") is found


def offloaded(silent: float = 10_000.0, whole: float = 10_000.0) -> Plan:
    """An optimizer works so long on the CPU, for ``silent`` us in one operator, on what it shares with the GPU."""

    def body(trace: TinyTrace, _: int) -> None:
        trace.copy(10, 110, "HtoD", 5, pageable=True, bytes=2_000_000, launch_us=110)
        trace.kernels(130, 10, 20, 30)
        trace.copy(450, 550, "DtoH", 440, pageable=True, bytes=2_000_000, launch_us=115)
        trace.region(570, 580 + whole, "Optimizer.step#Adam.step")
        trace.op(575, 575 + silent, "aten::_fused_adam_")
        at = 580 + silent
        while at < 500 + whole:
            trace.op(at, at + 80, "aten::add_")
            at += 100
        trace.kernels(600 + whole, 2, 20, 30)

    return plan_of_body(body, length=700 + whole)


def test_a_fiftieth_of_long_work_on_the_cpu_is_left() -> None:
    plans = [offloaded(each, each) for each in (10_000.0, 30_000.0)]
    short, long = (each.replay.usual_ns / promise(each, "keep-on-gpu").expected for each in plans)
    assert long - short == pytest.approx(400_000, rel=0.05)


@pytest.mark.parametrize(("silent", "found"), [(6_000.0, True), (3_500.0, False)])
def test_an_optimizer_works_long_where_half_of_the_time_is_silent(silent: float, found: bool) -> None:
    assert is_told(offloaded(silent), "keep-on-gpu") is found


@pytest.mark.parametrize(("left", "share"), [(0.94, 1.0), (0.96, 0.0)])
def test_an_operation_that_is_hardly_shorter_is_as_it_was(left: float, share: float) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 10, 60, 90)

    replay = replay_of(Analysis(steps(6, 1_000, body).build()))
    after = replay.usual.copy()
    after.duration *= left
    removal = Removal(replay, replay.usual, after)
    operations = replay.analysis.trace.gpu_operations
    assert removal.device_share(replay.analysis.trace.events.spans(operations), 0) == share


def collecting(lasts: float) -> Plan:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 15, 20, 40)
        trace.region(1_000, 1_000 + lasts, "Python GC")
        trace.kernels(1_200 + lasts, 15, 20, 40)

    return plan_of_body(body, length=2_000)


@pytest.mark.parametrize(("lasts", "found"), [(38.0, False), (70.0, True)])
def test_a_gain_of_less_than_three_hundredths_is_not_told(lasts: float, found: bool) -> None:
    assert is_told(collecting(lasts), "collect-garbage-seldom") is found


def late_rank(late: float = 0.0, reads: tuple[int, int] = (0, 0)) -> list[Proposal]:
    """Rank 1 of three works for so long before its launches, and reads back more often than the others."""
    trace = TinyTrace()
    for rank in range(3):
        own = late if rank == 1 else 0.0
        often = reads[rank == 1]

        def body(made: TinyTrace, _: int, own: float = own, rank: int = rank, often: int = often) -> None:
            made.kernels(10 + own, 40, 20, 50, device=rank)
            at = 2_020 + own
            for _ in range(often):
                made.copy(at + 20, at + 22, "DtoH", at, pageable=True, bytes=64, device=rank, launch_us=30)
                at += 50
            end = 2_060 + late + 50 * reads[1]
            made.collective(at + 20, end, at + 10, device=rank, stream=7)
            made.call(at + 20, end + 10, "cudaDeviceSynchronize")

        trace.rank = rank
        steps(6, 2_100 + late + 50 * reads[1], body, into=trace)
    made = make_plan(Analysis(trace.build()), reaches={})
    return list(MendLateRanks().proposals(made.replay.analysis, made.replay))


@pytest.mark.parametrize(("late", "found"), [(330.0, True), (170.0, False)])
def test_a_rank_that_works_a_tenth_longer_is_late(late: float, found: bool) -> None:
    assert bool(late_rank(late)) is found


@pytest.mark.parametrize(("reads", "found"), [((4, 9), True), ((4, 8), False)])
def test_a_rank_that_reads_back_half_as_often_again_is_late(reads: tuple[int, int], found: bool) -> None:
    assert any("reads values back" in each.title for each in late_rank(reads=reads)) is found


def rounds(
    *,
    calls: int = 5,
    waits: bool = False,
    sends: int = 0,
    pause: float = 0.0,
    operator: bool = False,
    slices: int = 0,
) -> bool:
    """Whether a loop of 12 rounds is joined: of so many calls each, with or without a wait, a pause and operators.

    Some of them send a tensor from pageable memory and wait for it.
    """

    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        for _round in range(12):
            for place in range(calls - 2 * waits):
                if place < slices:
                    trace.op(at - 20, at - 18, "aten::slice")
                if operator:
                    trace.op(at - 5, at + 10, "aten::mul")
                if place < sends:
                    trace.copy(at + 8, at + 10, "HtoD", at, bytes=64)
                    trace.call(at + 6, at + 14, "cudaStreamSynchronize")
                else:
                    trace.operation(at + 6, at + 8, f"void {'abcdefghijk'[place]}_kernel", at)
                at += 100
            if waits:
                trace.copy(at + 8, at + 10, "DtoH", at, bytes=64)
                trace.call(at + 6, at + 14, "cudaStreamSynchronize")
                at += 40
            at += pause
        trace.kernels(at, 3, 5, 20, "void last_kernel")

    return is_told(plan_of_body(body, length=100 + 12 * (100 * calls + pause)), "join-loop")


@pytest.mark.parametrize(
    ("round_of", "joined"),
    [
        ({"calls": 3, "waits": True}, True),
        ({"calls": 2, "waits": True}, False),
        ({"calls": 3, "sends": 2}, True),
        ({"calls": 6, "pause": 70.0}, True),
        ({"calls": 3, "pause": 100.0}, False),
        ({"calls": 7, "operator": True}, True),
        ({"calls": 8, "operator": True}, False),
        ({"calls": 7, "operator": True, "slices": 2}, True),
        ({"calls": 7, "operator": True, "slices": 3}, False),
    ],
    ids=[
        "one call for each wait",
        "none",
        "two waits for what is sent",
        "a quarter of the time is silent",
        "more",
        "a short chain",
        "a long one",
        "two slices",
        "a stencil",
    ],
)
def test_rounds_of_loops(round_of: dict[str, int], joined: bool) -> None:
    assert rounds(**round_of) is joined  # type: ignore[arg-type]


@pytest.mark.parametrize(("pause", "found"), [(45.0, True), (20.0, False)])
def test_a_pause_before_a_group_is_three_times_as_long_as_usual(pause: float, found: bool) -> None:
    assert bool(rounds_with_pauses(([pause] + [10.0] * 3) * 5)) is found
