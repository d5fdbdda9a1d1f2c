"""Numbers by which an analysis tells what is what, each with a case on either side."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from parsers.model import ResultColumn, ResultTable
from rules.analysis.analysis import Analysis
from rules.analysis.beside.gpu_metrics import KernelUse, Limit
from rules.analysis.cpu.sampled_stacks import OwnFrame
from rules.analysis.gpu.copies import Copies
from rules.analysis.idle.threads import UserFrames
from rules.analysis.ranks.collectives import measured_bus_bandwidth
from rules.analysis.ranks.groups import mostly_passes_on
from rules.analysis.steps.first_use import slow_first_calls
from rules.analysis.steps.marks import cycles_of_loops
from rules.catalog.copies import LinkUse, link_use
from rules.catalog.exposed_communication import _sent
from rules.kernels import slow_operators as slow_ones
from rules.losses.lost_time import extent
from rules.losses.plan_building import plan_building
from rules.memory import relief
from rules.memory.kinds import Kind
from rules.terms import Culprit, CulpritKind
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
        "both_ways_ns": 0, "pageable_ns": 0, "pinned_ns": 0, "asynchronous_ns": 0, "migrated_ns": 0,
        "compiled_ns": 0, "computed_ns": 0, "regions": (),
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
        (lambda each: each.are_compiled, {"compiled_ns": 499}, {"compiled_ns": 500}),
        (
            lambda each: each.are_prefetched,
            {"migrated_ns": 1000, "bytes": 1_999_999, "events": np.arange(2)},
            {"migrated_ns": 1000, "bytes": 2_000_000, "events": np.arange(2)},
        ),
    ],
    ids=[
        "work to hide them behind",
        "pageable",
        "pinned",
        "asynchronous",
        "migrations",
        "compiled",
        "prefetched",
    ],
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


def operator_row(calls: int, ns: float, share: float) -> Any:
    return SimpleNamespace(
        name="aten::mm", calls=calls, ns=ns, share=share, work=1.0, kernel=0, events=np.array([0])
    )


@pytest.mark.parametrize(
    ("row", "slow"),
    [
        (operator_row(1, 25_000.0, 0.081), True),
        (operator_row(1, 25_000.0, 0.079), False),  # 1,975 ns on the roof: it is limited by its start
        (operator_row(2, 50_000.0, 0.081), True),
        (operator_row(1, 25_000.0, 0.11), False),  # not below a tenth of the roof
    ],
)
def test_an_operator_is_slow_that_would_take_2000_ns_on_its_roof(
    row: Any, slow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def roofs(*_: object, **limits: Any) -> list[Any]:
        asked.update(limits)
        return [row]

    monkeypatch.setattr(slow_ones, "operator_roofs", roofs)
    trace = TinyTrace()
    trace.step(0, 10_000, "ProfilerStep#1")
    trace.operation(0, 10_000, "elementwise", 0)
    found = slow_ones.slow_operators(Analysis(trace.build()), 0)
    assert bool(found.rows) is slow
    assert asked["least_ns"] == 50_000  # half a percent of the window
    assert asked["ask"](operator_row(1, 25_000.0, 0.199)) is True  # twice the share
    assert asked["ask"](operator_row(1, 25_000.0, 0.201)) is False
    assert asked["ask"](operator_row(1, 20_100.0, 0.1)) is True
    assert asked["ask"](operator_row(1, 19_900.0, 0.1)) is False


@pytest.mark.parametrize(("bandwidth", "slow"), [(49.0, True), (51.0, False)])
def test_a_link_is_slow_below_half_of_its_rate(bandwidth: float, slow: bool) -> None:
    assert LinkUse("PCIe 5", bandwidth, 100.0).slow is slow


@pytest.mark.parametrize(("size", "known"), [(1_000_000, True), (999_999, False)])
def test_a_link_is_judged_by_copies_of_a_megabyte(size: int, known: bool) -> None:
    trace = TinyTrace(gpu="NVIDIA H100 80GB HBM3")
    copy = trace.copy(0, 100, "HtoD", bytes=size)
    assert (link_use(trace.build(), copying(events=np.array([copy]))) is not None) is known


@pytest.mark.parametrize(
    ("lost", "few"),
    [
        ([50, 41, 4, 3, 2, 0, 0, 0], 2),  # 91 of 100 in two steps
        ([50, 39, 4, 3, 2, 2, 0, 0], 3),
        ([24, 23, 23, 22, 8, 0, 0, 0], 4),  # half of the steps
        ([20, 19, 18, 17, 17, 9, 0, 0], 0),
    ],
)
def test_a_loss_lies_in_the_few_steps_that_hold_nine_tenths_of_it(lost: list[int], few: int) -> None:
    steps = [SimpleNamespace(rank=None, start=1000 * index, end=1000 * index + 1000) for index in range(8)]
    analysis = cast(Any, SimpleNamespace(trace=SimpleNamespace(devices=()), steady_steps=steps))
    begin = np.arange(8) * 1000
    assert extent(analysis, (begin, begin + np.array(lost)), -1).few == few


@pytest.mark.parametrize(
    ("slow_us", "usual_us", "count", "found"),
    [
        (1_000, 50, 3, True),
        (999, 40, 3, False),
        (1_000, 51, 3, False),  # 19.6 times a usual call
        (1_000, 50, 2, False),
    ],
)
def test_three_calls_that_take_twenty_times_as_long_build_plans(
    slow_us: float, usual_us: float, count: int, found: bool
) -> None:
    trace, name = TinyTrace(), "aten::cudnn_convolution"
    for number in range(20):
        trace.op(2_000 * number, 2_000 * number + (slow_us if number < count else usual_us), name)
    waiting = SimpleNamespace(
        analysis=SimpleNamespace(trace=trace.build()), worst_ns=1, culprit=Culprit(CulpritKind.OPERATOR, name)
    )
    assert (plan_building(cast(Any, waiting)) is not None) is found


@pytest.mark.parametrize(("waited_ns", "found"), [(6_000_000, True), (6_010_000, False)])
def test_plans_are_told_that_are_half_of_the_waiting(waited_ns: int, found: bool) -> None:
    trace, name = TinyTrace(), "aten::cudnn_convolution"
    for number in range(20):
        trace.op(2_000 * number, 2_000 * number + (1_000 if number < 3 else 10), name)
    waiting = SimpleNamespace(
        analysis=SimpleNamespace(trace=trace.build()),
        worst_ns=waited_ns,
        culprit=Culprit(CulpritKind.OPERATOR, name),
    )
    assert (plan_building(cast(Any, waiting)) is not None) is found


@pytest.mark.parametrize(("logits", "told"), [(100, 4), (99, 3)])
def test_memory_is_freed_by_half_of_the_activations_three_quarters_of_the_state_and_large_logits(
    logits: int, told: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relief, "loss_of", lambda _: np.array([False, True]))
    account = SimpleNamespace(
        alive=lambda _: np.array([True, True]),
        kinds_among=lambda mine: {Kind.OPTIMIZER: 400, Kind.ACTIVATIONS: 400 if mine.all() else 300},
        memory=SimpleNamespace(allocations=SimpleNamespace(size=np.array([900, logits]))),
        at=lambda _: 1000,
    )
    found = relief.reliefs(cast(Any, account), 0)
    freed = {each.what.split()[0]: each.freed for each in found}
    assert freed["Checkpoint"] == 150
    assert freed["Use"] == 300
    assert len(found) == told
