"""The replay of recordings: it reproduces them, and behaves like a run when something is different."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from parsers.model import EventKind
from rules.analysis.analysis import Analysis
from rules.replay import spans
from rules.replay.critical_path import critical_path_of
from rules.replay.overlay import Overlay
from rules.replay.replay import Replay, replay_of
from rules.replay.slack import slack_of
from tests.opened import analysed
from tests.rules.builder import TinyTrace, steps

# The cases lie on either side of these.
MAX_ERROR = 0.05
MAX_STEPS = 16

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
RECORDINGS = {
    "memory_stack": ["torch/memory_stack.pt.trace.json.gz"],
    "d2h_outputs": ["torch/d2h_outputs.pt.trace.json.gz"],
    "decode_graph": ["torch/decode_graph.pt.trace.json.gz"],
    "loader_slow": ["pairs/loader_slow.pt.trace.json.gz"],
    "sync_params": ["pairs/sync_params.pt.trace.json.gz"],
    "alloc_empty nsys": ["pairs/alloc_empty.sqlite.gz"],
    "sync_params nsys": ["pairs/sync_params.sqlite.gz"],
    "no_overlap": [f"ddp/no_overlap.rank{rank}.pt.trace.json.gz" for rank in range(4)],
}


@cache
def replay(name: str) -> Replay:
    return replay_of(analysed(*(FIXTURES / each for each in RECORDINGS[name])))


@pytest.fixture(params=sorted(RECORDINGS))
def recorded(request: pytest.FixtureRequest) -> Replay:
    return replay(request.param)


def test_a_recording_is_reproduced(recorded: Replay) -> None:
    assert recorded.reason == ""
    assert recorded.error <= MAX_ERROR
    measured = np.mean([(span.end - span.start) / span.count for span in recorded.spans])
    assert recorded.recorded_ns == pytest.approx(measured, rel=0.15) or recorded.recorded_ns > measured
    assert (recorded.typical is recorded.recorded) == (
        recorded.recorded_ns == pytest.approx(recorded.mean_ns)
    )


def of_two_kinds(first: int, length: float) -> TinyTrace:
    """Steps of so many us, followed by 40 of 1 ms."""
    trace = TinyTrace()
    for index in range(first + 40):
        trace.shift = length * min(index, first) + 1_000 * max(index - first, 0)
        trace.step(0, length if index < first else 1_000, f"ProfilerStep#{index + 1}")
        trace.kernels(10, 18, 5, 50)
    trace.shift = 0.0
    return trace


@pytest.mark.parametrize(("length", "steps", "replayed_ms"), [(1_450, 56, 1.129), (1_300, 16, 1.3)])
def test_where_the_first_steps_are_unusually_long_all_are_replayed(
    length: float, steps: int, replayed_ms: float
) -> None:
    made = replay_of(Analysis(of_two_kinds(MAX_STEPS, length).build()))
    (span,) = made.spans
    assert (span.count, span.numbers[0]) == (steps, 0)
    assert (span.end - span.start) / span.count / 1e6 == pytest.approx(replayed_ms, rel=0.01)


def test_where_all_have_too_many_calls_those_are_replayed_that_take_as_long_as_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = Analysis(of_two_kinds(MAX_STEPS, 1_450).build())
    calls = len(made.trace.events.of_kind(EventKind.API)) // 56
    monkeypatch.setattr(spans, "MAX_EVENTS", 20 * calls)
    (span,) = replay_of(made).spans
    assert (span.count, span.numbers[0]) == (20, 10)


@pytest.mark.parametrize(("late", "replayed"), [(0.07, True), (0.077, False)])
def test_operations_held_up_by_nothing_known_are_not_replayed(late: float, replayed: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 24, 5, 40)
        held_up = 1_000 + 2_000 * late
        trace.operation(held_up, held_up + 5, "void late_kernel", 990)
        trace.kernels(1_200, 18, 5, 40)

    made = replay_of(Analysis(steps(6, 2_000, body).build()))
    assert (made.reason == "") is replayed


def test_removing_nothing_changes_nothing(recorded: Replay) -> None:
    assert recorded.gain([]) == 1.0
    assert recorded.gain([lambda overlay: None]) == 1.0


def no_gaps(part: float) -> object:
    def change(overlay: Overlay) -> None:
        overlay.gap *= 1 - part

    return change


def test_the_less_host_time_the_shorter_the_step(recorded: Replay) -> None:
    times = [recorded.time([no_gaps(part)]) for part in (0.0, 0.25, 0.5, 1.0)]  # type: ignore[list-item]
    assert times == sorted(times, reverse=True)


def test_the_shorter_the_operations_the_shorter_the_step(recorded: Replay) -> None:
    def faster(factor: float) -> object:
        def change(overlay: Overlay) -> None:
            overlay.duration *= factor
            overlay.transfer *= factor

        return change

    times = [recorded.time([faster(factor)]) for factor in (1.0, 0.5, 0.0)]  # type: ignore[list-item]
    assert times == sorted(times, reverse=True)


def test_waiting_for_nothing_is_never_slower(recorded: Replay) -> None:
    def free(overlay: Overlay) -> None:
        overlay.waits[:] = False
        overlay.follows[:] = False
        overlay.meets[:] = False

    assert recorded.time([free]) <= recorded.time() * (1 + 1e-9)


def test_a_step_is_never_shorter_than_its_busiest_stream(recorded: Replay) -> None:
    def no_host(overlay: Overlay) -> None:
        overlay.gap[:] = 0
        overlay.cost[:] = 0
        overlay.tail[:] = 0
        overlay.waits[:] = False

    device = recorded.device
    busy = np.bincount(device.stream, recorded.usual.duration).max() / recorded.steps
    assert recorded.time([no_host]) >= busy * (1 - 1e-9)


def test_replayed_as_recorded_a_step_takes_the_mean_of_the_analysed_ones(recorded: Replay) -> None:
    analysis = recorded.analysis
    start, end = analysis.window
    assert recorded.mean_ns * max(analysis.steps_in_window, 1) == pytest.approx(end - start)
    run = recorded.ready.run(recorded.recorded, timeline=False)
    assert recorded.step_of(run, recorded.recorded) == pytest.approx(recorded.mean_ns)
    assert recorded.scale == pytest.approx(1.0, abs=0.1)
    assert recorded.recorded_ns <= recorded.mean_ns * (1 + 1e-9)


def test_the_critical_path_covers_the_steps_without_a_hole(recorded: Replay) -> None:
    path = critical_path_of(recorded.analysis)
    assert np.array_equal(path.start[1:], path.end[:-1])
    assert path.end[-1] - path.start[0] == pytest.approx(recorded.steps * recorded.mean_ns, abs=1)
    assert sum(path.share().values()) == pytest.approx(recorded.mean_ns, abs=len(path.share()))


def one_step(trace: TinyTrace, _: int) -> None:
    trace.kernels(10, 8, 20, 50)
    trace.copy(460, 470, "DtoH", 410, bytes=4)
    trace.call(416, 475, "cudaStreamSynchronize")
    trace.kernels(500, 8, 20, 50)


def tiny(scale: float = 1.0, body: object = one_step, count: int = 6, length: float = 1000) -> Replay:
    trace = steps(count, length, body)
    del scale
    return replay_of(Analysis(trace.build()))


def test_a_wait_costs_what_comes_after_it_as_well() -> None:
    made = tiny()

    def no_wait(overlay: Overlay) -> None:
        overlay.waits[:] = False

    assert made.reason == ""
    assert made.recorded_ns == pytest.approx(1_000_000, rel=0.01)
    assert made.time([no_wait]) < made.usual_ns


def test_twice_the_durations_of_everything_give_twice_the_step() -> None:
    made = tiny()

    def double(overlay: Overlay) -> None:
        for column in (overlay.gap, overlay.cost, overlay.tail, overlay.duration):
            column *= 2

    latencies = made.device.latency.max() * made.steps
    assert made.time([double]) == pytest.approx(2 * made.usual_ns, abs=2 * latencies)


def test_kernels_that_took_turns_on_two_streams_are_not_replayed_at_once() -> None:
    def gain(apart: float) -> float:
        trace = TinyTrace()
        for place in range(30):
            at = place * 100.0
            trace.operation(at + 6, at + 6 + 60, "stencil", at, stream=7 + place % 2)
            trace.call(at + 8, at + apart, "cudaStreamSynchronize")
        made = replay_of(Analysis(trace.build()))

        def never_waits(overlay: Overlay) -> None:
            overlay.waits[:] = False
            overlay.cost[:] = 0.0
            overlay.gap[:] = 0.0

        return made.gain([never_waits])

    assert gain(95.0) == pytest.approx(100 / 60, rel=0.05)


@pytest.mark.parametrize("waits", [True, False])
def test_start_up_and_the_end_of_a_program_are_not_replayed(waits: bool) -> None:
    trace = TinyTrace()
    first = 90_000.0 if waits else 0.0
    trace.operation(first + 20, first + 80, "stencil", 10.0, launch_us=first or 5.0)
    for place in range(1, 40):
        at = first + place * 100.0
        trace.operation(at + 20, at + 80, "stencil", at)
    for place in range(50):
        trace.call(first + 4_100 + place * 1_000, first + 4_100 + place * 1_000 + 900, "cuModuleUnload")
    made = replay_of(Analysis(trace.build()))
    assert made.reason == ""
    assert made.recorded_ns == pytest.approx(4_000_000, rel=0.05)


@pytest.mark.parametrize(("waits_us", "replayed_us"), [(1_900.0, 5_900), (2_100.0, 4_000)])
def test_a_wait_that_goes_on_for_long_when_the_gpu_is_done_is_not_replayed(
    waits_us: float, replayed_us: float
) -> None:
    trace = TinyTrace()
    for place in range(40):
        trace.operation(place * 100.0 + 20, place * 100.0 + 100, "stencil", place * 100.0)
    trace.call(3_960, 4_000 + waits_us, "cudaDeviceSynchronize")
    made = replay_of(Analysis(trace.build()))
    (span,) = made.spans
    assert (span.end - span.start) / 1000 == pytest.approx(replayed_us, rel=0.05)


def test_the_first_copy_is_replayed_although_it_was_staged_before_the_gpu_began() -> None:
    trace = TinyTrace()
    trace.copy(5_000, 9_000, "HtoD", 10, pageable=True, launch_us=8_990)
    for place in range(30):
        trace.operation(9_100 + place * 100, 9_160 + place * 100, "stencil", 9_080 + place * 100)
    made = trace.build()
    device = replay_of(Analysis(made)).device
    assert (made.events.kind[device.event] == EventKind.MEMCPY).sum() == 1


def test_a_synchronisation_that_waited_for_nothing_returns_no_later_than_it_did() -> None:
    """The copy before it took 600 us from pageable memory after the GPU was done, and the same is no cost of a wait."""

    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 10, 20, 40)
        trace.copy(420, 430, "DtoH", 410, pageable=True, launch_us=620)
        trace.call(1_031, 1_034, "cudaStreamSynchronize")

    made = tiny(body=body)
    assert made.reason == ""
    assert made.error < 0.01


def test_a_recording_without_launches_says_why_nothing_is_predicted() -> None:
    trace = TinyTrace()
    for index in range(40):
        trace.operation(index * 10, index * 10 + 5, "kernel")
    made = replay_of(Analysis(trace.build()))
    assert "which call launched" in made.reason


def test_an_operation_that_waits_for_something_unknown_is_no_reproduction() -> None:
    def held(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 10, 20, 40)
        trace.operation(900, 950, "void held_kernel", 420)

    made = tiny(body=held)
    assert "misses the recorded time" in made.reason


def test_a_kernel_that_starts_in_the_last_blocks_of_another_waits_for_room() -> None:
    def side_by_side(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 10, 20, 40)
        trace.operation(500, 900, "void wide_kernel", 420)
        trace.operation(860, 950, "void held_kernel", 430, stream=8)

    made = tiny(body=side_by_side)
    assert made.reason == ""
    wide = made.device.duration > 300_000

    def half(overlay: Overlay) -> None:
        overlay.duration[wide] *= 0.5

    held = made.device.stream == 1
    after_launch = [
        (run.start[held] - run.host[made.device.launch[held]])[0]
        for run in (made.unchanged[1], made.run([half])[1])
    ]
    assert after_launch[0] - after_launch[1] == pytest.approx(180_000, rel=0.02)


@pytest.mark.parametrize(("starts", "held"), [(780, True), (779, False)])
def test_a_collective_that_starts_in_the_last_third_of_a_kernel_had_no_room(
    starts: float, held: bool
) -> None:
    def side_by_side(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 10, 20, 40)
        trace.operation(500, 900, "void wide_kernel", 420)
        trace.collective(starts, 950, 430)

    assert (tiny(body=side_by_side).reason == "") is held


@pytest.mark.parametrize(("before", "known"), [(795, True), (794, False)])
def test_the_first_operation_of_a_stream_may_wait_for_work_from_before_the_steps(
    before: float, known: bool
) -> None:
    """It starts less than 12 us behind what another stream was given before, later right behind its launch."""
    trace = TinyTrace()
    trace.operation(-40, before, "void earlier_kernel", -50, stream=9)

    def body(trace: TinyTrace, index: int) -> None:
        trace.kernels(10, 10, 20, 40)
        begin = 806 if not index else 436
        trace.operation(begin, begin + 50, "void side_kernel", 430, stream=8)

    made = replay_of(Analysis(steps(6, 1000, body, into=trace).build()))
    assert (made.reason == "") is known


def two_ranks(late_us: float, ranks: tuple[int, int] = (0, 1)) -> Replay:
    trace = TinyTrace()
    for place, rank in enumerate(ranks):
        own = late_us if rank == 0 else 0.0

        def body(made: TinyTrace, _: int, own: float = own, place: int = place) -> None:
            made.kernels(10 + own, 8, 20, 50, device=place)
            made.collective(440 + own, 1010, 430 + own, device=place, stream=7)
            made.operation(1010, 1200, "void some_kernel", 450 + own, device=place)
            made.call(460 + own, 1220, "cudaDeviceSynchronize")

        trace.rank = rank
        steps(6, 1230, body, into=trace)
    return replay_of(Analysis(trace.build()))


def test_nobody_waits_at_a_collective_when_the_late_rank_is_mended() -> None:
    made = two_ranks(500)
    assert made.reason == ""
    late = made.host.span_of_thread[made.host.thread] == [span.rank for span in made.spans].index(0)

    def mended(overlay: Overlay) -> None:
        overlay.gap[late & (overlay.gap > 400_000)] = 10_000.0

    run = made.run([])[1]
    meeting = made.device.meeting >= 0
    assert meeting.any()
    ends = run.end[meeting].reshape(2, -1)
    assert np.allclose(ends[0], ends[1])
    assert made.time([mended]) < made.usual_ns


@pytest.mark.parametrize(("recorded", "replayed"), [(16, 16), (20, 16)])
def test_no_more_than_sixteen_steps_are_replayed(recorded: int, replayed: int) -> None:
    assert tiny(count=recorded).steps == replayed


def test_the_order_of_the_ranks_does_not_matter() -> None:
    assert two_ranks(500, (0, 1)).recorded_ns == pytest.approx(two_ranks(500, (1, 0)).recorded_ns)


def test_what_is_on_the_critical_path_has_hardly_any_slack(recorded: Replay) -> None:
    slack, path = slack_of(recorded.analysis), critical_path_of(recorded.analysis)
    assert (slack.ns >= 0).all()
    on_path = np.unique(path.event[path.event >= 0])
    of_path = np.array([slack.of(event) or 0 for event in on_path.tolist()])
    longest = max(span.end - span.start for span in recorded.spans)
    assert np.percentile(of_path, 90) <= 0.02 * longest
    assert slack.of(-1) is None


def test_an_operation_beside_a_longer_one_has_the_difference_as_slack() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for place in range(10):
            trace.operation(20 + place * 90, 110 + place * 90, "void long_kernel", 5 + place * 6)
        trace.operation(80, 180, "void short_kernel", 74, stream=9)
        trace.call(90, 940, "cudaDeviceSynchronize")

    made = tiny(body=body, length=960)
    slack = slack_of(made.analysis)
    trace = made.analysis.trace
    short = [event for event in made.device.event.tolist() if trace.name(event) == "void short_kernel"]
    assert min(slack.of(event) or 0 for event in short) > 500_000


@pytest.mark.parametrize("later_us", [400, 800])
def test_no_step_is_shorter_than_what_the_gpu_does_in_an_average_one(later_us: float) -> None:
    def body(trace: TinyTrace, index: int) -> None:
        trace.operation(8, 10, "fill", 0)
        trace.operation(10, 10 + (400 if index < MAX_STEPS else later_us), "gemm", 5)
        trace.call(20, 990, "cudaDeviceSynchronize")

    replay = replay_of(Analysis(steps(2 * MAX_STEPS, 1000, body).build()))
    assert replay.steps == MAX_STEPS
    assert replay.gpu_work() == pytest.approx((400 + later_us) * 500, rel=0.01)
