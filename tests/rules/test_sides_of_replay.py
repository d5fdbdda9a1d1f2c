"""What a replay takes a call or an operation to have waited for, and what it can replay: cases on either side."""

from __future__ import annotations

import numpy as np
import pytest

from rules.analysis.analysis import Analysis
from rules.replay.device import _latency, _messages, device_nodes
from rules.replay.host import host_nodes
from rules.replay.loops import loops_of
from rules.replay.overlay import Overlay
from rules.replay.program import NoOrder, keys_in_order
from rules.replay.replay import Replay, replay_of
from rules.replay.spans import spans_of
from rules.replay.waits import Waits, waits_of
from tests.rules.builder import PREFETCH, TinyTrace, ns, steps


@pytest.mark.parametrize(("slow_steps", "usual_us"), [((1, 3), 2_000), ((1, 1, 3), 1_000)])
def test_of_two_steps_none_is_slow_by_chance_and_of_three_one(
    slow_steps: tuple[int, ...], usual_us: float
) -> None:
    trace = TinyTrace()
    for slow in slow_steps:
        trace.step(0, 1_000 * slow, f"ProfilerStep#{slow}")
        trace.kernels(10, 24, 5, 40 * slow)
        trace.shift += 1_000 * slow
    assert replay_of(Analysis(trace.build())).recorded_ns == pytest.approx(ns(usual_us), rel=0.05)


def latencies(us: list[float], returned: float = 0.0, free: float | None = None) -> list[float]:
    """Of launches onto idle streams, the last one's call returns late, and its stream may be busy until ``free``."""
    count = len(us)
    launched = np.arange(count, dtype=np.int64) * 1_000_000
    start = launched + np.array([ns(each) for each in us], np.int64)
    back, reach = launched.copy(), launched.astype(np.float64) - 1
    back[-1] += ns(returned)
    reach[-1] = start[-1] - ns(free) if free is not None else reach[-1]
    found: list[float] = (_latency(launched, back, start, reach, np.zeros(count, np.int64)) / 1_000).tolist()
    return found


def test_a_launch_takes_as_long_as_the_quick_ones_onto_an_idle_stream() -> None:
    assert max(latencies([float(each) for each in range(1, 22)])) == 3.0  # 2 of 21 are quicker


@pytest.mark.parametrize(("launches", "us"), [(10, 9.0), (9, 7.0)])
def test_of_few_launches_the_latency_is_a_usual_one(launches: int, us: float) -> None:
    assert max(latencies([9.0] * launches)) == us


@pytest.mark.parametrize(("free", "us"), [(1.9, 1.0), (2.1, 2.6)])
def test_an_operation_that_starts_soon_behind_another_waited_for_that(free: float, us: float) -> None:
    assert latencies([1.0] * 12 + [2.6], returned=2.0, free=free)[-1] == us


@pytest.mark.parametrize(("apart", "known"), [(25.0, True), (60.0, False)])
def test_what_was_held_for_long_may_start_later_behind_what_held_it(apart: float, known: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 14, 5, 40)
        trace.operation(590, 1_000 - apart, "void long_kernel", 580)
        trace.operation(1_000, 1_010, "void held_kernel", 600, stream=8)
        trace.kernels(1_200, 18, 5, 40)

    assert (replay_of(Analysis(steps(6, 2_000, body).build())).reason == "") is known


def paired(end_us: float, between: int = 0) -> bool:
    """Whether a send and a receive that ends so much later are one message, with others between them."""
    kinds = ("send", *["send"] * between, "recv")
    size = np.array([100, *range(1, between + 1), 100], np.int64)
    device = np.array([0, *[0] * between, 1], np.int64)
    end = np.array([0, *range(1, between + 1), ns(end_us)], np.int64)
    return len(_messages(kinds, size, device, end)) == 1


@pytest.mark.parametrize(
    ("end_us", "between", "one"), [(199.0, 0, True), (201.0, 0, False), (50.0, 15, True), (50.0, 16, False)]
)
def test_a_send_and_a_receive_that_end_together_are_one_message(
    end_us: float, between: int, one: bool
) -> None:
    assert paired(end_us, between) is one


@pytest.mark.parametrize(("overlaps", "threads"), [((4.0,), 1), ((4.0, 2.0), 2)])
def test_threads_that_hardly_overlap_take_turns(overlaps: tuple[float, ...], threads: int) -> None:
    trace = TinyTrace()
    for place in range(20):
        at = 100.0 * place
        trace.operation(at + 6, at + 8, "void kernel", at)
        beside = at + 5 - overlaps[place] if place < len(overlaps) else at + 50
        trace.operation(beside + 20, beside + 22, "void kernel", beside, thread=PREFETCH, stream=8)
    analysis = Analysis(trace.build())
    assert host_nodes(analysis, spans_of(analysis)).threads == threads


@pytest.mark.parametrize(("calls", "found"), [(150, True), (170, False)])
def test_the_rounds_of_a_loop_are_no_longer_than_a_program_writes_them(calls: int, found: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for place in range(calls * 8):
            name = f"void {chr(97 + place % calls % 26)}{chr(97 + place % calls // 26)}_kernel"
            trace.operation(6 + 10 * place, 8 + 10 * place, name, 10 * place)

    assert bool(loops_of(Analysis(steps(1, 80.0 * calls + 10, body).build()))) is found


@pytest.mark.parametrize(("chains", "known"), [(150, True), (300, False)])
def test_what_waits_for_one_another_over_and_over_has_no_order(chains: int, known: bool) -> None:
    """Each chain's first instruction waits for the last one of the chain before."""
    chain = np.repeat(np.arange(chains), 2)
    first, second = np.arange(1, 2 * chains - 1, 2), np.arange(2, 2 * chains, 2)
    none = np.full(2 * chains, -1, np.int64)

    def ordered() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return keys_in_order(np.zeros(2 * chains, np.int64), chain, first, second, none)

    if known:
        assert (np.diff(ordered()) > 0).all()
    else:
        with pytest.raises(NoOrder):
            ordered()


def without_some_launches(unknown: int) -> Replay:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 20 - unknown, 5, 40)
        for place in range(unknown):
            trace.operation(900 + place * 10, 905 + place * 10, "void some_kernel")

    return replay_of(Analysis(steps(6, 1_000, body).build()))


@pytest.mark.parametrize(("unknown", "replayed"), [(1, True), (2, False)])
def test_nearly_all_operations_have_a_launch(unknown: int, replayed: bool) -> None:
    assert (without_some_launches(unknown).reason == "") is replayed


@pytest.mark.parametrize(("operations", "replayed"), [(7, True), (6, False)])
def test_of_few_operations_nothing_is_replayed(operations: int, replayed: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, operations, 5, 40)

    assert (replay_of(Analysis(steps(3, 500, body).build())).reason == "") is replayed


def test_a_step_of_which_nothing_is_left_takes_as_long_as_a_launch_and_a_short_kernel() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 20, 5, 40)

    def nothing(overlay: Overlay) -> None:
        overlay.gap[:] = overlay.cost[:] = overlay.tail[:] = 0.0
        overlay.present[:] = False

    made = replay_of(Analysis(steps(6, 1_000, body).build()))
    assert made.time([nothing]) == pytest.approx(8_000 * made.scale)


@pytest.mark.parametrize(("early", "counts"), [(18.0, True), (22.0, False)])
def test_a_launch_long_before_the_gpu_begins_loads_its_code(early: float, counts: bool) -> None:
    trace = TinyTrace()
    trace.operation(1_000, 1_060, "stencil", 1_000 - early)
    for place in range(1, 30):
        at = 1_000 + place * 100.0
        trace.operation(at + 20, at + 80, "stencil", at)
    (span,) = spans_of(Analysis(trace.build()))
    assert (span.start == 0) is counts


def waited(trace: TinyTrace) -> Waits:
    analysis = Analysis(trace.build())
    spans = spans_of(analysis)
    host = host_nodes(analysis, spans)
    return waits_of(analysis, host, device_nodes(analysis, spans, host))


@pytest.mark.parametrize(("returns", "waits"), [(499.0, True), (498.0, False)])
def test_a_call_may_return_a_little_before_the_end_of_what_it_waited_for(returns: float, waits: bool) -> None:
    trace = TinyTrace()
    trace.operation(10, 500, "void kernel", 0)
    trace.call(100, returns, "cudaStreamSynchronize")
    trace.kernels(600, 5, 5, 40)
    found = waited(trace)
    assert found.bound.any() == waits
    assert not waits or found.cost[found.bound].tolist() == [8_000]


def behind_a_queue(outstanding: int, waits_us: float) -> bool:
    """Whether a launch that takes so long, with so many operations outstanding, waits for the first of them."""
    trace = TinyTrace()
    long = 2.0 * outstanding
    end = long + waits_us - 5
    trace.operation(10, end, "void long_kernel", 0, launch_us=1)
    for place in range(1, outstanding):
        trace.operation(end + place, end + place + 1, "void kernel", 2.0 * place, launch_us=1)
    trace.operation(end + outstanding, end + outstanding + 1, "void kernel", long, launch_us=waits_us)
    return bool(waited(trace).bound.any())


@pytest.mark.parametrize(
    ("outstanding", "waits_us", "waits"),
    [(520, 200, True), (480, 200, False), (520, 60, True), (520, 40, False)],
)
def test_a_long_launch_into_a_full_queue_waits(outstanding: int, waits_us: float, waits: bool) -> None:
    assert behind_a_queue(outstanding, waits_us) is waits


@pytest.mark.parametrize(("streams", "waits"), [(63, True), (65, False)])
def test_only_the_busiest_of_very_many_streams_are_waited_for(streams: int, waits: bool) -> None:
    trace = TinyTrace()
    for stream in range(streams - 1):
        for at in (20.0 * stream, 20.0 * stream + 10):
            trace.operation(at + 6, at + 8, "void kernel", at, stream=100 + stream)
    at = 20.0 * streams
    trace.operation(at + 6, at + 500, "void last_kernel", at, stream=7)
    trace.call(at + 20, at + 510, "cudaDeviceSynchronize")
    assert waited(trace).bound.any() == waits


@pytest.mark.parametrize(("others", "waits"), [(5, True), (6, False)])
def test_waiting_for_an_event_ends_with_what_was_launched_before(others: int, waits: bool) -> None:
    trace = TinyTrace()
    trace.operation(60, 150, "void kernel", 50)
    trace.call(100, 200, "cudaEventSynchronize")
    for place in range(others):
        launch = 105.0 + place * 6
        trace.operation(
            151 + place * 2,
            152 + place * 2,
            "void other_kernel",
            launch,
            thread=PREFETCH,
            stream=8,
            launch_us=3,
        )
    trace.kernels(300, 5, 5, 40)
    assert waited(trace).bound.any() == waits
