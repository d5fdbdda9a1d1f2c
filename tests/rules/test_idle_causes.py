"""Each class of idle time is recognised, named, and told from its neighbours."""

from __future__ import annotations

import numpy as np
import pytest

from parsers.model import EventKind, Trace
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.analysis.idle.causes import Cause
from tests.rules.builder import AUTOGRAD, PREFETCH, TinyTrace, ns, steps


def idle(trace: Trace) -> list[tuple[Cause, str, float]]:
    """(cause, culprit, us) of the idle time, longest first."""
    table = Analysis(trace).idle
    total: dict[tuple[Cause, str], float] = {}
    for row in range(len(table)):
        key = (Cause(table.cause[row]), table.culprit_of(row).text)
        total[key] = total.get(key, 0.0) + (table.end[row] - table.start[row]) / 1000
    return sorted(((*key, us) for key, us in total.items()), key=lambda each: -each[2])


def largest(trace: Trace) -> tuple[Cause, str]:
    return idle(trace)[0][:2]


def share_of(trace: Trace, cause: Cause) -> float:
    rows = idle(trace)
    return sum(us for each, _, us in rows if each is cause) / sum(us for _, _, us in rows)


def between(fill, *, launched: float = 990.0, region: str = "") -> Trace:
    """Kernels at 10-100 and 1000-1100 us; ``fill`` says what the main thread does between them."""
    trace = TinyTrace()
    trace.operation(10, 100, "gemm", 0)
    if region:
        trace.region(20, 980, region)
    fill(trace)
    trace.operation(1000, 1100, "gemm", launched)
    return trace.build()


def nothing(trace: TinyTrace) -> None:
    """No further events."""


@pytest.mark.parametrize(
    "name", ["tokenize_next", "log_metrics", "postprocess", "evaluate", "save_checkpoint", "beam search"]
)
def test_a_region_that_launches_nothing_is_the_host_s_fault(name: str) -> None:
    assert largest(between(nothing, region=name)) == (Cause.HOST, name)


@pytest.mark.parametrize(
    "name",
    [
        "data_loading",
        "load_batch",
        "preprocess",
        "augment",
        "fetch",
        "get next batch",
        "input_pipeline",
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
        "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
    ],
)
def test_a_region_named_like_input_is_waiting_for_data(name: str) -> None:
    assert largest(between(nothing, region=name)) == (Cause.INPUT, name)


def test_a_loader_recorded_as_an_operator_counts_as_well() -> None:
    name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    assert largest(between(lambda trace: trace.op(150, 950, name))) == (Cause.INPUT, name)


def test_python_without_any_region_is_named_as_such() -> None:
    trace = between(lambda trace: trace.op(10, 15, "aten::mm"))
    assert largest(trace) == (Cause.HOST, "Python outside any region")


def test_a_program_without_python_is_not_called_python() -> None:
    assert largest(between(nothing)) == (Cause.HOST, "CPU code outside any region")


def test_with_stacks_the_user_s_own_frame_is_named() -> None:
    def frames(trace: TinyTrace) -> None:
        trace.frame(0, 1100, "train.py(10): main")
        trace.frame(101, 985, "text.py(42): encode")
        trace.frame(110, 980, "/usr/lib/python3.11/site-packages/torch/nn/functional.py(1): relu")
        trace.frame(120, 970, "<built-in method sorted>")

    assert largest(between(frames)) == (Cause.HOST, "text.py(42): encode")


def test_the_innermost_region_is_named_not_the_one_around_it() -> None:
    def inner(trace: TinyTrace) -> None:
        trace.region(5, 990, "train")
        trace.region(110, 980, "collate_text")

    assert largest(between(inner))[1] == "collate_text"


def test_a_short_pause_between_launches_is_the_cost_of_launching() -> None:
    trace = steps(3, 1000, lambda trace, _: trace.kernels(0, 20, 2, 50)).build()
    assert share_of(trace, Cause.LAUNCH) > 0.99


def test_pauses_just_below_and_above_the_limit_differ() -> None:
    def with_pause(pause: float) -> Trace:
        trace = TinyTrace()
        trace.kernels(0, 50, 2, 10)
        trace.kernels(495 + pause, 50, 2, 10)
        return trace.build()

    assert share_of(with_pause(499), Cause.HOST) == 0
    assert share_of(with_pause(506), Cause.HOST) > 0.3


def test_a_program_whose_launches_are_far_apart_has_a_wider_limit() -> None:
    def with_pause(pause: float) -> Trace:
        trace = TinyTrace()
        trace.kernels(0, 50, 2, 200)
        trace.kernels(50 * 200 + pause, 50, 2, 200)
        return trace.build()

    assert share_of(with_pause(1500), Cause.HOST) == 0
    assert share_of(with_pause(2500), Cause.HOST) > 0.1


def test_a_blocking_call_is_charged_with_the_idle_time_after_the_awaited_work() -> None:
    def blocks(trace: TinyTrace) -> None:
        trace.call(20, 900, "cudaDeviceSynchronize")

    cause, culprit, us = idle(between(blocks, launched=905))[0]
    assert (cause, culprit) == (Cause.SYNCHRONIZATION, "cudaDeviceSynchronize")
    assert us == pytest.approx(800 + 80, abs=1)  # inside the call, and 80 us that the host had been ahead


def test_a_blocking_call_while_the_gpu_is_busy_costs_nothing() -> None:
    trace = TinyTrace()
    trace.operation(10, 1000, "gemm", 0)
    trace.call(20, 900, "cudaStreamSynchronize")
    trace.operation(1000, 1100, "gemm", 905)
    assert idle(trace.build()) == []


@pytest.mark.parametrize(
    "call",
    ["cudaStreamSynchronize", "cudaEventSynchronize_v3020", "cuCtxSynchronize", "hipDeviceSynchronize"],
)
def test_blocking_calls_of_all_kinds_are_known(call: str) -> None:
    trace = between(lambda trace: trace.call(150, 980, call))
    assert largest(trace)[0] is Cause.SYNCHRONIZATION


@pytest.mark.parametrize(
    "operator", ["aten::item", "aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero"]
)
def test_reading_a_value_back_is_synchronisation_and_says_where(operator: str) -> None:
    def reads(trace: TinyTrace) -> None:
        trace.region(105, 990, "log_metrics")
        trace.op(110, 985, operator)

    assert largest(between(reads)) == (Cause.SYNCHRONIZATION, f"{operator} in log_metrics")


def test_a_named_region_after_a_synchronisation_keeps_its_own_time() -> None:
    def blocks(trace: TinyTrace) -> None:
        trace.call(20, 110, "cudaStreamSynchronize")
        trace.region(115, 985, "tokenize")

    rows = {each[:2]: each[2] for each in idle(between(blocks))}
    assert rows[Cause.HOST, "tokenize"] == pytest.approx(870, abs=1)
    assert rows[Cause.SYNCHRONIZATION, "cudaStreamSynchronize"] < 100


@pytest.mark.parametrize(
    "call", ["cudaMalloc", "cudaFree_v3020", "cudaHostAlloc", "cuMemMap", "hipMalloc", "cudaFreeHost"]
)
def test_allocation_is_a_cause_of_its_own(call: str) -> None:
    trace = between(lambda trace: trace.call(150, 980, call))
    assert largest(trace)[0] is Cause.ALLOCATOR


def test_work_that_was_already_queued_waited_for_something_on_the_gpu() -> None:
    trace = TinyTrace()
    trace.operation(10, 100, "gemm", 0)
    trace.operation(1000, 1100, "gemm", 20)
    assert largest(trace.build())[0] is Cause.DEPENDENCY


def test_a_kernel_without_a_launch_record_is_not_blamed_on_the_host() -> None:
    trace = TinyTrace()
    trace.operation(10, 100, "gemm", 0)
    trace.region(100, 990, "tokenize")
    trace.operation(1000, 1100, "gemm")
    assert largest(trace.build()) == (Cause.UNKNOWN, "the operation has no launch record")


def test_without_any_launch_record_the_cause_is_unknown_and_says_why() -> None:
    trace = TinyTrace()
    trace.operation(10, 100, "gemm")
    trace.operation(1000, 1100, "gemm")
    assert largest(trace.build()) == (Cause.UNKNOWN, "no call was linked to a GPU operation")


@pytest.mark.parametrize(
    ("apart_us", "told"),
    [(999.0, "between the kernels of a CUDA graph"), (1_000.0, "a wait in the launch of a CUDA graph")],
)
def test_gaps_inside_a_cuda_graph_are_dependencies(apart_us: float, told: str) -> None:
    trace = TinyTrace()
    first = trace.operation(10, 20, "a", 0, call="cudaGraphLaunch", graph_node=1)
    second = trace.operation(20 + apart_us, 40 + apart_us, "b", graph_node=2)
    trace.builder.link(np.array([second]), np.array([first + 1]))
    assert largest(trace.build()) == (Cause.DEPENDENCY, told)


def test_of_the_threads_that_launch_the_32_that_launch_most_are_looked_at() -> None:
    trace, at = TinyTrace(), 0.0
    for thread in range(40):
        for _ in range(40 - thread):
            trace.operation(at + 10, at + 12, "gemm", at, thread=200 + thread)
            at += 20
    drivers, _ = Analysis(trace.build()).threads.drivers(0)
    assert len(drivers) == 32


def test_backward_on_its_own_thread_is_not_mistaken_for_python() -> None:
    trace = TinyTrace()
    trace.region(0, 5000, "backward")
    trace.operation(10, 20, "loss", 0)
    for index in range(100):
        trace.op(
            50 + index * 45, 90 + index * 45, "autograd::engine::evaluate_function: AddmmBackward0", AUTOGRAD
        )
        trace.operation(82 + index * 45, 84 + index * 45, "gemm", 70 + index * 45, thread=AUTOGRAD)
    built = trace.build()
    assert share_of(built, Cause.LAUNCH) > 0.99
    assert largest(built) == (Cause.LAUNCH, "backward")


def test_python_on_the_main_thread_before_backward_is_not_lost_behind_the_autograd_thread() -> None:
    trace = TinyTrace()
    trace.operation(10, 20, "loss", 0)
    trace.region(30, 4000, "tokenize")
    trace.operation(4110, 4120, "gemm", 4100, thread=AUTOGRAD)
    assert largest(trace.build()) == (Cause.HOST, "tokenize")


def test_a_prefetch_thread_on_another_stream_does_not_hide_what_the_main_thread_does() -> None:
    trace = TinyTrace()
    trace.operation(10, 20, "gemm", 0)
    trace.region(30, 4000, "tokenize")
    trace.copy(505, 600, "HtoD", 500, stream=9, thread=PREFETCH)
    trace.operation(4110, 4120, "gemm", 4100)
    rows = idle(trace.build())
    assert rows[0][:2] == (Cause.HOST, "tokenize")
    assert rows[0][2] > 3500


def test_a_driver_that_loads_kernels_in_the_launch_call_is_the_host_s_fault() -> None:
    trace = TinyTrace()
    trace.operation(10, 20, "gemm", 0)
    trace.operation(6010, 6020, "conv", 100, launch_us=5900)
    assert largest(trace.build())[0] is Cause.HOST


def test_a_long_copy_call_that_outlives_its_copy_blocks() -> None:
    trace = TinyTrace()
    trace.operation(10, 20, "gemm", 0)
    trace.copy(40, 1000, "DtoH", 30, pageable=True, launch_us=4000)
    trace.operation(4100, 4200, "gemm", 4050)
    assert largest(trace.build())[0] is Cause.SYNCHRONIZATION


def test_causes_that_share_a_gap_share_its_time() -> None:
    def both(trace: TinyTrace) -> None:
        trace.region(110, 500, "load_batch")
        trace.region(500, 990, "tokenize")

    rows = {each[:2]: each[2] for each in idle(between(both))}
    assert rows[Cause.INPUT, "load_batch"] == pytest.approx(390, abs=1)
    assert rows[Cause.HOST, "tokenize"] == pytest.approx(490, abs=1)


def test_rows_cover_exactly_the_idle_time_and_never_overlap() -> None:
    def body(trace: TinyTrace, index: int) -> None:
        trace.region(0, 300, "load_batch")
        trace.kernels(310, 10, 5, 20, stream=7)
        trace.kernels(315, 10, 15, 20, stream=8)
        trace.call(600, 900, "cudaStreamSynchronize")

    trace = steps(5, 1000, body).build()
    analysis = Analysis(trace)
    table = analysis.idle
    assert all(table.start[1:] >= table.end[:-1])
    first, last = analysis.span(0)
    begin, finish = min(first, analysis.window[0]), max(last, analysis.window[1])
    busy = analysis.busy(0)
    assert (table.end - table.start).sum() + (busy[1] - busy[0]).sum() == finish - begin


def test_a_synchronisation_seen_by_the_device_is_not_work() -> None:
    trace = TinyTrace()
    trace.operation(10, 100, "gemm", 0)
    trace.operation(100, 900, "Stream Sync", stream=7, kind=EventKind.GPU_SYNC)
    trace.region(110, 980, "tokenize")
    trace.operation(1000, 1100, "gemm", 990)
    assert largest(trace.build()) == (Cause.HOST, "tokenize")
    assert ns(1) == 1000


def test_a_pause_of_two_milliseconds_is_long_for_any_program() -> None:
    def with_pause(pause: float) -> Trace:
        trace = TinyTrace()
        trace.kernels(0, 30, 2, 400)
        trace.kernels(30 * 400 + pause, 30, 2, 400)
        return trace.build()

    assert share_of(with_pause(1550), Cause.HOST) == 0
    assert share_of(with_pause(1750), Cause.HOST) > 0.05


@pytest.mark.parametrize(("delay", "cause"), [(90, Cause.LAUNCH), (110, Cause.DEPENDENCY)])
def test_an_operation_that_starts_long_after_its_launch_waited_for_something_else(
    delay: float, cause: Cause
) -> None:
    trace = TinyTrace()
    trace.operation(10, 100, "gemm", 0)
    trace.operation(110 + delay, 500, "gemm", 105)
    rows = {each[0]: each[2] for each in idle(trace.build())}
    assert rows.get(cause, 0) >= delay


def test_a_launch_that_blocks_because_the_queue_is_full_accuses_nobody() -> None:
    """The CPU is a thousand kernels ahead: each launch call waits until a kernel is over. That is healthy."""

    trace = TinyTrace()
    at = 100_000.0
    for number in range(200):
        ahead = max(at + 300 * (number - 60), at - 5000 + 10 * number)
        blocked = 295 if number > 60 else 5
        trace.operation(at + 300 * number, at + 300 * number + 298, "gemm", ahead, launch_us=blocked)
    built = trace.build()
    assert {cause for cause, _, _ in idle(built)} == {Cause.DEPENDENCY}
    accused = {finding.category.value for finding in diagnose(built).findings}
    assert not accused & {"launch-bound", "host-bound", "synchronization", "allocator", "input-bound"}
    assert "gpu-bound" in accused


@pytest.mark.parametrize(("us", "cause"), [(95, Cause.LAUNCH), (105, Cause.HOST)])
def test_a_region_that_launches_nothing_is_a_cause_of_its_own_from_a_tenth_of_a_millisecond(
    us: int, cause: Cause
) -> None:
    trace = TinyTrace()
    trace.operation(10, 50, "gemm", 0)
    trace.region(40, 40 + us, "log")
    trace.operation(200, 300, "gemm", 190)
    found = {culprit: each for each, culprit, _ in idle(trace.build())}
    assert found["log"] is cause


@pytest.mark.parametrize(("us", "cause"), [(45, Cause.LAUNCH), (55, Cause.INPUT)])
def test_a_pause_in_an_input_region_that_launches_work_counts_from_50_us(us: int, cause: Cause) -> None:
    trace = TinyTrace()
    trace.region(0, 100 + us, "load_batch")
    trace.operation(25, 30, "augment", 15, launch_us=5)
    trace.operation(30 + us, 200, "augment", 20 + us, launch_us=5)
    assert largest(trace.build())[0] is cause


@pytest.mark.parametrize(("us", "cause"), [(950, Cause.LAUNCH), (1050, Cause.HOST)])
def test_a_launch_that_takes_a_millisecond_does_something_else_as_well(us: int, cause: Cause) -> None:
    trace = TinyTrace()
    trace.operation(10, 50, "gemm", 0)
    trace.operation(110 + us, 3000, "gemm", 100, launch_us=us)
    assert largest(trace.build())[0] is cause


@pytest.mark.parametrize(
    ("name", "blamed"),
    [
        ("execute_context_1(512)_generation_0(0)", "Python inside engine steps"),
        ("step[DECODE bs=8 toks=8]", "Python inside scheduler steps"),
        ("step 5", "Python outside any region"),
    ],
)
def test_what_lies_in_no_region_but_in_a_step_of_an_engine_is_told_so(name: str, blamed: str) -> None:
    trace = TinyTrace()
    trace.op(0, 5, "aten::mm")
    trace.region(0, 990, name)
    trace.operation(5, 100, "gemm", 2)
    trace.operation(900, 1000, "gemm", 890)
    assert largest(trace.build()) == (Cause.HOST, blamed)
