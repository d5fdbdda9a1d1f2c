"""Numbers by which a recording is told to be one of a run, each with a case on either side."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from parsers.model import Device, Trace
from parsers.model.quality import BETWEEN_EVENTS, ONE_BY_ONE, Effect
from parsers.ranks.merge import merge
from rules.analysis.analysis import Analysis
from rules.analysis.cpu.cpu_time import CpuTime, cpu_time
from rules.analysis.gpu.launch_sizes import nearly_empty
from rules.analysis.inference.engine_steps import EngineSteps
from rules.analysis.inference.phases import _own_steps
from rules.analysis.logs.device_log import device_logs
from rules.analysis.names.regions import RegionRole, roles_of
from rules.analysis.recording.completeness import completeness_of
from rules.analysis.recording.subject import SubjectKind, subject_of
from rules.analysis.recording.time_units import _evenly, _two_sorts, other_units
from rules.replay.replay import replay_of
from tests.rules.builder import TinyTrace, steps


@pytest.mark.parametrize(("count", "looked_at"), [(100_000, 100_000), (100_001, 50_001)])
def test_every_second_event_of_more_than_100000_tells_their_unit(count: int, looked_at: int) -> None:
    assert len(_evenly(np.arange(count))) == looked_at


@pytest.mark.parametrize(("apart", "decades"), [(3.19, 3), (3.21, 0), (2.81, 3), (2.79, 0)])
def test_durations_of_one_name_are_in_two_units_within_a_fifth_of_a_decade(
    apart: float, decades: int
) -> None:
    took = np.array([1_000, round(1_000 * 10**apart)] * 20, np.int64)
    assert _two_sorts(np.zeros(40, np.int32), took) == decades


@pytest.mark.parametrize(("each_us", "told"), [(0.099, True), (0.1, False)])
def test_no_kernel_is_over_within_a_tenth_of_a_microsecond(each_us: float, told: bool) -> None:
    trace = TinyTrace()
    for number in range(20):
        trace.operation(10 * number, 10 * number + each_us, "gemm")
    assert bool(other_units(trace.build())) is told


@pytest.mark.parametrize(("names", "told"), [(3, True), (2, False)])
def test_a_rank_is_in_another_unit_by_three_names(names: int, told: bool) -> None:
    ranks = []
    for rank, each_us in enumerate((5.0, 5_000.0)):
        trace = TinyTrace(rank=rank)
        for number in range(6):
            trace.operation(6_000 * number, 6_000 * number + each_us, f"kernel_{number % names}")
        ranks.append(trace.build())
    assert bool(other_units(merge(ranks))) is told


@pytest.mark.parametrize(("at_once", "told"), [(10, True), (9, False)])
def test_a_fifth_of_a_stream_s_operations_overlap_eight_others_where_their_unit_differs(
    at_once: int, told: bool
) -> None:
    """Of ten that end together the last two do, of nine the last one."""
    trace = TinyTrace()
    for group in range(10):
        for number in range(at_once):
            trace.operation(1_000 * group + number, 1_000 * group + 500 - number, "gemm")
    assert bool(other_units(trace.build())) is told


def launching(count: int = 21, beside: int = 0, twice: int = 0) -> Trace:
    """Kernels with a launch each, ``beside`` ones without, and ``twice`` with another one of the same launch.

    The first launch lies before the GPU's time and is not counted.
    """
    trace = TinyTrace()
    for number in range(count):
        at = 100.0 * number
        kernel = trace.operation(at + 10, at + 20, "gemm", at)
        if 0 < number <= twice:
            trace.builder.link(np.array([trace.operation(at + 30, at + 40, "gemm")]), np.array([kernel + 1]))
    for number in range(beside):
        trace.operation(100 * number + 50, 100 * number + 60, "gemm")
    return trace.build()


@pytest.mark.parametrize(
    ("trace", "launches"),
    [
        (launching(), 20),
        (launching(beside=2), 20),
        (launching(beside=3), 0),  # 3 of 24
        (launching(twice=1), 20),  # 21 of 20
        (launching(twice=2), 0),
    ],
)
def test_launches_are_counted_where_nearly_every_kernel_has_one_of_its_own(
    trace: Trace, launches: int
) -> None:
    assert completeness_of(trace).launches == launches


def subject(trace: TinyTrace) -> SubjectKind | None:
    found = subject_of(Analysis(trace.build()))
    return None if found is None else found.kind


@pytest.mark.parametrize(
    ("part", "noted", "kind"),
    [
        (0.21, 30, SubjectKind.GRAPH_CAPTURE),
        (0.19, 30, None),
        (0.21, 26, SubjectKind.GRAPH_CAPTURE),  # 26 of 126 launches
        (0.21, 24, None),  # 24 of 124
    ],
)
def test_a_capture_is_what_was_recorded_from_a_fifth_of_time_and_launches_on(
    part: float, noted: int, kind: SubjectKind | None
) -> None:
    trace, end = TinyTrace(), 10_000.0
    for number in range(100):
        at = end / 100 * number
        trace.operation(at + 10, at + 100, f"kernel_{number % 5}", at)
    trace.call(2_000, 2_001, "cudaStreamBeginCapture")
    for number in range(noted):
        trace.call(2_001 + 10 * number, 2_006 + 10 * number, "cudaLaunchKernel")
    trace.call(2_000 + part * (end - 10), 2_001 + part * (end - 10), "cudaStreamEndCapture")
    assert subject(trace) is kind


def kernels(count: int, each_us: float, busy: float) -> TinyTrace:
    """Kernels of different names that fill a part of the time."""
    trace = TinyTrace()
    apart = (count * each_us / busy - each_us) / (count - 1)
    for number in range(count):
        trace.operation(
            apart * number + 20, apart * number + 20 + each_us, f"kernel_{number}", apart * number
        )
    return trace


@pytest.mark.parametrize(
    ("trace", "judged"),
    [
        (kernels(100, 5.0, 0.3), True),
        (kernels(99, 5.0, 0.3), False),
        (kernels(5, 50.0, 0.7), True),
        (kernels(4, 60.0, 0.7), False),
        (kernels(10, 50.0, 0.66), True),
        (kernels(10, 50.0, 0.64), False),
        (kernels(10, 20.0, 0.9), True),
        (kernels(10, 19.9, 0.9), False),
        (kernels(3, 1_100.0, 0.7), True),
        (kernels(2, 1_600.0, 0.7), False),
        (kernels(3, 900.0, 0.7), False),
    ],
    ids=[
        "100 kernels",
        "fewer",
        "5 that fill the time",
        "fewer of them",
        "65 % of the time",
        "less of it",
        "200 us",
        "shorter",
        "3 long ones",
        "2 long ones",
        "3 shorter ones",
    ],
)
def test_kernels_are_enough_to_judge_if_they_are_many_or_fill_some_time(
    trace: TinyTrace, judged: bool
) -> None:
    assert subject(trace) is (None if judged else SubjectKind.TOO_LITTLE)


@pytest.mark.parametrize(("busy", "judged"), [(0.66, True), (0.64, False)])
def test_kernels_that_ran_one_by_one_are_judged_where_they_fill_the_time(busy: float, judged: bool) -> None:
    trace = kernels(120, 50.0, busy)
    trace.builder.quality.note(ONE_BY_ONE, Effect.NOTED, "")
    assert subject(trace) is (None if judged else SubjectKind.ONE_BY_ONE)


@pytest.mark.parametrize(("ahead_us", "judged"), [(1_100, True), (900, False)])
def test_times_that_include_waiting_are_told_unless_the_gpu_works_on_for_a_tenth_of_the_time(
    ahead_us: float, judged: bool
) -> None:
    trace = TinyTrace()
    for number in range(100):
        trace.operation(100 * number, 100 * number + 95, f"kernel_{number % 5}")
    trace.op(0, 9_995 - ahead_us, "aten::mm")
    trace.builder.quality.note(BETWEEN_EVENTS, Effect.NOTED, "")
    assert subject(trace) is (None if judged else SubjectKind.WAITS_INCLUDED)


@pytest.mark.parametrize(("blocks", "little"), [(11, False), (7, True), (8, False)])
def test_a_gpu_of_unknown_size_has_sixteen_multiprocessors(blocks: int, little: bool) -> None:
    """Blocks on fewer than half of them leave most of it empty."""
    trace = TinyTrace()
    trace.builder.device(Device(0, "GPU", None, None, None, (9, 0), None))
    trace.operation(20, 320, "void mine(float*)", 0, grid=blocks, block=1024)
    assert bool(len(nearly_empty(Analysis(trace.build()), 0)[0])) is little


@pytest.mark.parametrize(("after_ns", "own"), [(200_000, 0), (200_001, -1)])
def test_a_first_token_may_be_stated_a_fifth_of_a_millisecond_after_its_step(after_ns: int, own: int) -> None:
    one = np.array([1_000_000])
    step = EngineSteps(one, 2 * one, np.zeros(1, np.int64), one, one, one, np.array([5]))
    first = np.array([2_000_000.0 + after_ns])
    requests = SimpleNamespace(offset_ns=0.0, first=first, event=np.array([-1]))
    assert _own_steps(cast(Any, requests), step).tolist() == [own]


@pytest.mark.parametrize(("readings", "told"), [(100, True), (101, False)])
def test_a_log_tells_of_a_limit_that_held_for_a_hundredth_of_the_time(readings: int, told: bool) -> None:
    trace = TinyTrace()
    for name, values in (
        ("power", [300.0] * readings),
        ("SM clock", [1_900.0] * readings),
        ("software thermal slowdown", [1.0] + [0.0] * (readings - 1)),
    ):
        trace.counter(f"GPU 0 {name}", "", [(1_000.0 * number, value) for number, value in enumerate(values)])
    (log,) = device_logs(trace.build())
    assert (log.limit is not None) is told


@pytest.mark.parametrize(("names", "counts"), [(("chunk_5", "chunk_6"), True), (("chunk_5",), False)])
def test_two_numbered_ranges_of_one_stem_count_steps(names: tuple[str, ...], counts: bool) -> None:
    trace = TinyTrace()
    for number, name in enumerate(names):
        trace.region(10 * number, 10 * number + 5, name)
    built = trace.build()
    assert bool(roles_of(built)[built.strings.index("chunk_5")] == RegionRole.STEP) is counts


def working(body: Any) -> CpuTime:
    found = cpu_time(Analysis(steps(5, 100_000.0, body).build()))
    assert found is not None
    return found


def test_a_tenth_of_operators_tell_what_calling_one_takes() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for number in range(100):
            took = 1 if number < 7 else 2 if number < 15 else 8
            trace.op(500 * number, 500 * number + took, "aten::add")
        trace.op(60_000, 90_000, "aten::mm")

    assert working(body).call_ns == 2_000


def test_writing_down_operators_takes_no_more_than_half_of_what_calling_them_does() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for number in range(1_000):
            trace.op(4 * number, 4 * number + 4, "aten::add")
        trace.op(10_000, 100_000, "aten::mm")

    time = working(body)
    assert time.overhead_ns() == pytest.approx(5 * 1_001 * 2_000 * time.slowed, rel=0.01)


def usual_us(launch_us: float = 20.0, operators: int = 0, rounds: int = 20) -> float:
    """A step of launches 200 us apart without what the recorder took of it."""

    def body(trace: TinyTrace, _: int) -> None:
        for number in range(rounds):
            at = 200.0 * number
            for operator in range(operators):
                trace.op(at + 50 + 10 * operator, at + 55 + 10 * operator, "aten::view")
            trace.operation(at + 195, at + 205, "gemm", at + 150, launch_us=launch_us)

    return replay_of(Analysis(steps(4, 200.0 * rounds, body).build())).usual_ns / 1_000


def test_writing_down_an_operator_takes_six_microseconds() -> None:
    assert usual_us(operators=0) - usual_us(operators=3) == pytest.approx(20 * 3 * 6, rel=0.05)


def test_a_call_that_drives_the_gpu_takes_four_microseconds_longer_where_it_is_recorded() -> None:
    """At most half of a shorter one."""
    assert usual_us(6.0) - usual_us(20.0) == pytest.approx(20 * (4 - 3), abs=1)
