"""Numbers by which an analysis tells what is what, each with a case on either side."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from parsers.model import ResultColumn, ResultTable
from rules.analysis.beside.gpu_metrics import KernelUse, Limit
from rules.analysis.cpu.sampled_stacks import OwnFrame
from rules.analysis.gpu.copies import Copies
from rules.analysis.idle.frames import UserFrames
from rules.analysis.ranks.adapters import _sent
from rules.analysis.ranks.collectives import measured_bus_bandwidth
from rules.analysis.ranks.stages import mostly_passes_on
from rules.analysis.steps.first_use import slow_first_calls
from rules.analysis.steps.marks import cycles_of_loops
from tests.rules.builder import TinyTrace


@pytest.mark.parametrize(
    ("active", "memory", "limit"),
    [
        (90.0, 60.0, Limit.MEMORY),
        (90.0, 59.9, Limit.LATENCY),
        (60.0, 59.9, Limit.LATENCY),
        (59.9, 59.9, Limit.FEW_BLOCKS),
    ],
)
def test_a_kernel_is_near_a_limit_from_sixty_percent_on(active: float, memory: float, limit: Limit) -> None:
    assert KernelUse(0, 1, 0, 5, active, 10.0, 10.0, memory).limit is limit


def copying(**times: Any) -> Copies:
    none = np.empty(0, np.int64)
    usual = {
        "device": 0, "events": none, "exposed": (np.array([0]), np.array([1000])), "bytes": 0, "time_ns": 1000,
        "pageable": none, "pageable_ns": 0, "pinned_ns": 0, "asynchronous_ns": 0, "migrated_ns": 0,
        "computed_ns": 0, "regions": (),
    }  # fmt: skip
    return Copies(**{**usual, **times})


@pytest.mark.parametrize(
    ("asked", "below", "above"),
    [
        (lambda each: each.can_be_hidden, {"computed_ns": 99}, {"computed_ns": 100}),
        (lambda each: each.from_pageable, {"pageable_ns": 9}, {"pageable_ns": 10}),
        (lambda each: each.from_pinned, {"pinned_ns": 989}, {"pinned_ns": 990}),
        (lambda each: each.are_asynchronous, {"asynchronous_ns": 989}, {"asynchronous_ns": 990}),
        (lambda each: each.are_migrations, {"migrated_ns": 499}, {"migrated_ns": 500}),
        (
            lambda each: each.are_prefetched,
            {"migrated_ns": 1000, "bytes": 1_999_999, "events": np.arange(2)},
            {"migrated_ns": 1000, "bytes": 2_000_000, "events": np.arange(2)},
        ),
    ],
    ids=["work to hide them behind", "pageable", "pinned", "asynchronous", "migrations", "prefetched"],
)
def test_copies_are_what_most_or_all_but_a_hundredth_of_them_are(
    asked: Callable[[Copies], bool], below: dict[str, Any], above: dict[str, Any]
) -> None:
    assert not asked(copying(**below))
    assert asked(copying(**above))


@pytest.mark.parametrize(("size", "known"), [(4_000, True), (4_100, False), (250, True), (240, False)])
def test_a_measured_bandwidth_stands_for_four_times_the_size_and_a_quarter(size: int, known: bool) -> None:
    columns = (ResultColumn("size", "B"), ResultColumn("busbw out of place", "GB/s"))
    table = ResultTable("nccl-tests all reduce, 8 ranks", columns, ((1_000.0, 200.0),))
    trace = cast(Any, SimpleNamespace(tables=(table,)))
    assert measured_bus_bandwidth(trace, "allreduce", size) == (200e9 if known else None)


@pytest.mark.parametrize(
    ("samples", "covered", "known"), [(11, 1.0, True), (10, 1.0, False), (40, 0.51, True), (40, 0.49, False)]
)
def test_ten_samples_tell_of_an_adapter_that_cover_half_of_the_time(
    samples: int, covered: float, known: bool
) -> None:
    time = np.linspace(0, covered * 1_000_000, samples).astype(np.int64)
    within = np.array([0]), np.array([1_000_000])
    assert (_sent("mlx5_0", time, np.ones(samples), within) is not None) is known


@pytest.mark.parametrize(("others", "passes"), [(4, True), (5, False)])
def test_half_of_the_messages_make_a_pipeline(others: int, passes: bool) -> None:
    columns = cast(Any, SimpleNamespace(collective=["send", "recv", "send", "recv", *["allreduce"] * others]))
    assert mostly_passes_on(columns, np.ones(4 + others, bool)) is passes


@pytest.mark.parametrize(
    ("first_us", "again_us", "found"),
    [(1_000, 5, 1), (999, 5, 0), (5, 100_000, 1), (5, 99_999, 0), (5, 1_000, 0)],
    ids=["1 ms", "less", "100 ms later on", "less later on", "1 ms later on"],
)
def test_a_call_that_creates_something_takes_long_the_first_time(
    first_us: float, again_us: float, found: int
) -> None:
    trace = TinyTrace()
    trace.operation(400_000, 400_010, "gemm", 300_000)
    trace.operation(400_020, 400_030, "gemm", 300_010)
    trace.call(0, first_us, "cudaMalloc")
    trace.call(150_000, 150_000 + again_us, "cudaMalloc")
    assert len(slow_first_calls(trace.build())) == found


@pytest.mark.parametrize(("below_ns", "waits"), [(50, True), (49, False)])
def test_a_function_waits_that_does_so_below_for_half_of_its_time(below_ns: int, waits: bool) -> None:
    frame = OwnFrame("main", "train.py", 3, 100, "wait", below_ns, 0, "threading.py")
    assert frame.waits is waits


@pytest.mark.parametrize(("end", "inside"), [(81.0, True), (79.0, False)])
def test_a_frame_is_around_what_it_shares_four_fifths_of(end: float, inside: bool) -> None:
    trace = TinyTrace()
    frame = trace.frame(0, end, "train.py(3): main")
    built = trace.build()
    rows = ((np.array([frame]), built.events.start[[frame]]),)
    assert UserFrames(built, rows).around(np.array([0]), np.array([100_000])).tolist() == [
        frame if inside else -1
    ]


@pytest.mark.parametrize(("count", "found"), [(3, True), (2, False)])
def test_three_steps_of_an_optimizer_are_cycles(count: int, found: bool) -> None:
    trace = TinyTrace()
    for number in range(count):
        trace.region(1000 * number, 1000 * number + 100, "Optimizer.step#SGD.step")
    built = trace.build()
    assert (cycles_of_loops(built, np.ones(len(built.lanes), bool)) is not None) is found
