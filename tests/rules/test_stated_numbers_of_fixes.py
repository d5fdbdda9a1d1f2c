"""What fixes leave of the time of kernels and calls, and from which numbers on they are proposed."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from parsers.model import CopyKind
from parsers.model.names.calls import Call
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.fixes.base import Proposal, fixes
from rules.fixes.catalog.mend_late_ranks import part_of_all_ranks
from rules.fixes.catalog.once_for_requests import _from_kept
from rules.fixes.catalog.slow_steps import _slow_steps
from rules.fixes.copies_in_a_row import copies_in_a_row
from rules.fixes.forms.converted_weights import of_weights
from rules.fixes.plan import Promise
from rules.replay.replay import Change, Replay, replay_of
from tests.rules.builder import TinyTrace, steps

Body = Callable[[TinyTrace, int], None]
Kernels = tuple[tuple[str, float], ...]  # names, and us of a step


def proposed(
    fix: str, body: Body, into: TinyTrace | None = None, times: int = 5
) -> tuple[Replay, list[Proposal]]:
    """What one fix proposes where each of some steps of 4 ms does the same."""
    analysis = Analysis(steps(times, 4_000.0, body, into=into).build())
    replay = replay_of(analysis)
    (wanted,) = [each for each in fixes() if each.id == fix]
    return replay, list(wanted.proposals(analysis, replay))


def running(*kernels: tuple[str, float], operator: str = "aten::mm") -> Body:
    """A step that runs these one after the other, and twenty others of 50 us."""

    def body(trace: TinyTrace, _: int) -> None:
        trace.op(0, 5, operator)
        at = 10.0
        for number, (name, us) in enumerate((*kernels, *[("void some_other_kernel", 50.0)] * 20)):
            trace.operation(at, at + us, name, 2.0 + 6 * number)
            at += us

    return body


def left(replay: Replay, change: Change, name: str) -> float:
    """The part that a change leaves of the time of kernels with this in their names."""
    mine = named(replay.analysis.trace, replay.device.event, lambda each: name in each)
    overlay = replay.overlay([change])
    return float(overlay.duration[mine].sum() / replay.usual.duration[mine].sum())


LAYOUT = ("void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>", 200.0)
NORM = "void at::native::batch_norm_collect_statistics_kernel<float>"
DOUBLE = "void at::native::vectorized_elementwise_kernel<4, MulFunctor<double>, array<char*, 2> >"
DGEMM = "cutlass_80_tensorop_d884gemm_64x64_16x4_nt_align1"
SGEMM = "ampere_sgemm_128x64_tn"
MOVING = "void at::native::vectorized_elementwise_kernel<4, MulFunctor<float>, array<char*, 2> >"


@pytest.mark.parametrize(
    ("fix", "kernels", "name", "part"),
    [
        ("write-in-place", (("void at::native::CatArrayBatchedCopy<float>", 500.0),), "CatArray", 0.1),
        ("pad-transforms", (("void regular_bluestein_fft<512u>", 500.0),), "bluestein", 1 / 3),
        ("pad-transforms", (("void regular_bluestein_fft<512u>", 500.0),), "some_other", 1.0),
        ("use-channels-last", (LAYOUT,), "nchwToNhwc", 0.0),
        ("use-channels-last", (LAYOUT, (NORM, 100.0)), "batch_norm", 0.7),
        ("use-channels-last", (LAYOUT, ("upsample_nearest2d_out_frame", 100.0)), "upsample", 0.7),
        ("use-single-precision", ((DOUBLE, 500.0),), "double", 1 / 2),
        ("use-single-precision", ((DGEMM, 500.0),), "gemm", 1 / 1.5),
        ("use-tensor-cores", ((SGEMM, 500.0), (MOVING, 100.0)), "elementwise", 1 / 2),
    ],
)
def test_a_fix_leaves_a_part_of_the_time_of_its_kernels(
    fix: str, kernels: Kernels, name: str, part: float
) -> None:
    replay, (only,) = proposed(fix, running(*kernels))
    assert left(replay, only.expected, name) == pytest.approx(part, rel=0.01)


def test_a_direct_transform_is_2_to_4_6_times_as_fast() -> None:
    replay, (only,) = proposed("pad-transforms", running(("void regular_bluestein_fft<512u>", 500.0)))
    assert only.low is not None
    assert only.high is not None
    assert left(replay, only.low, "bluestein") == pytest.approx(1 / 2, rel=0.01)
    assert left(replay, only.high, "bluestein") == pytest.approx(1 / 4.6, rel=0.01)


@pytest.mark.parametrize(("capability", "part"), [(None, 1 / (8.0 * 2 * 0.8)), ((9, 0), 1 / (7.4 * 2 * 0.8))])
def test_products_become_faster_by_the_rates_of_the_gpu_or_eight_times(
    capability: tuple[int, int] | None, part: float
) -> None:
    replay, (only,) = proposed(
        "use-tensor-cores", running((SGEMM, 500.0)), into=TinyTrace(capability=capability)
    )
    assert left(replay, only.expected, "sgemm") == pytest.approx(part, rel=0.01)


@pytest.mark.parametrize(("moved_us", "told"), [(85.0, True), (75.0, False)])
def test_kernels_that_move_memory_are_told_from_a_twentieth_of_the_gpus_time_on(
    moved_us: float, told: bool
) -> None:
    """Of 1,600 us."""
    _, (only,) = proposed("use-tensor-cores", running((SGEMM, 600.0 - moved_us), (MOVING, moved_us)))
    assert ("16 bits halve" in only.title) is told


@pytest.mark.parametrize(("product_us", "network"), [(165.0, True), (155.0, False)])
def test_16_bits_are_for_networks_whose_layers_take_a_tenth_of_the_gpus_time(
    product_us: float, network: bool
) -> None:
    """Of 1,600 us: numbers of a simulation are not kept in 16 bits."""
    replay, (only,) = proposed("use-tensor-cores", running((SGEMM, product_us), (MOVING, 600.0 - product_us)))
    assert left(replay, only.expected, "elementwise") == pytest.approx(1 / 2 if network else 1.0, rel=0.01)
    assert only.title.startswith("Compute in 16 bits" if network else "Use the tensor cores")


@pytest.mark.parametrize(("before", "after", "part"), [(8.0, 8.0, 1 / 2), (5.0, 5.0, 0.8), (3.9, 3.9, 1.0)])
def test_no_kernel_becomes_shorter_than_4_us(before: float, after: float, part: float) -> None:
    many = [(DOUBLE, before)] * 30
    replay, (only,) = proposed("use-single-precision", running(*many, (DGEMM, 300.0)))
    assert left(replay, only.expected, "double") == pytest.approx(part, rel=0.01)


def optimizer(launches: int) -> Body:
    def body(trace: TinyTrace, _: int) -> None:
        trace.op(0, 5, "aten::mm")
        trace.region(10, 20 + 10 * launches, "Optimizer.step#AdamW.step")
        for number in range(launches):
            trace.operation(20 + 10 * number, 25 + 10 * number, "multiply", 12 + 10 * number)

    return body


@pytest.mark.parametrize(("launches", "found"), [(100, True), (99, False)])
def test_an_optimizer_of_a_hundred_launches_is_fused(launches: int, found: bool) -> None:
    replay, made = proposed("fuse-optimizer", optimizer(launches))
    assert bool(made) is found
    if found:
        overlay = replay.overlay([made[0].expected])
        assert left(replay, made[0].expected, "multiply") == pytest.approx(0.4)
        assert overlay.cost.sum() == pytest.approx(0.1 * replay.usual.cost.sum())


def blocking(kernels: int, us: float, returns_us: float) -> Body:
    """So many launches of a step that return so long after their kernel."""

    def body(trace: TinyTrace, _: int) -> None:
        trace.op(0, 5, "aten::mm")
        for number in range(kernels):
            at = 10 + number * 700.0
            trace.operation(at + 8, at + 8 + us, "gemm", at, launch_us=8 + us + returns_us)
        trace.kernels(3_700, 5, 4, 20)

    return body


@pytest.mark.parametrize(
    ("kernels", "us", "returns_us", "found"),
    [
        (4, 20.0, 5.0, True),  # 20 in five steps
        (3, 20.0, 5.0, False),
        (5, 19.9, 5.0, False),
        (5, 200.0, 99.0, True),
        (5, 200.0, 101.0, False),
    ],
)
def test_twenty_launches_of_20_us_that_return_within_100_us_block(
    kernels: int, us: float, returns_us: float, found: bool
) -> None:
    replay, made = proposed("launch-ahead", blocking(kernels, us, returns_us))
    assert bool(made) is found
    if found:
        launches = replay.host.call == Call.LAUNCH
        assert replay.overlay([made[0].expected]).cost[launches].max() == pytest.approx(6_000.0)


@pytest.mark.parametrize(
    ("size", "count", "found"), [(65_536, 16, True), (65_537, 16, False), (65_536, 15, False)]
)
def test_sixteen_copies_of_64_kib_in_a_row_could_be_one(size: int, count: int, found: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.op(0, 5, "aten::copy_")
        for number in range(count):
            at = 10.0 + 20 * number
            trace.copy(at + 8, at + 12, "HtoD", at, bytes=size)
        trace.operation(2_000, 3_000, "gemm", 1_990)

    replay = replay_of(Analysis(steps(5, 4_000.0, body).build()))
    assert bool(copies_in_a_row(replay, CopyKind.H2D).any()) is found


@pytest.mark.parametrize(
    ("calls", "part"),
    [
        ((61, 40, 40), 40 / 61),
        ((60, 40, 40), 1.0),  # one and a half times as many
        ((29, 9, 9), 9 / 29),
        ((28, 9, 9), 1.0),  # 19 more
    ],
)
def test_a_rank_does_more_that_makes_half_as_many_calls_again(calls: tuple[int, ...], part: float) -> None:
    """Of each rank so many launches, and one of the collective in which all meet."""
    span = np.repeat(np.arange(3), np.array(calls) + 1)
    last = np.cumsum(np.array(calls) + 1) - 1
    host = SimpleNamespace(
        thread=span, span_of_thread=np.arange(3), start=np.arange(len(span)),
        step=np.zeros(len(span), np.int64), call=np.full(len(span), int(Call.LAUNCH)),
    )  # fmt: skip

    class Host(SimpleNamespace):
        def __len__(self) -> int:
            return len(self.start)

    device = SimpleNamespace(launch=last, meeting=np.zeros(3, np.int64))
    replay = cast(Any, SimpleNamespace(host=Host(**vars(host)), device=device, spans=[0, 1, 2]))
    assert part_of_all_ranks(replay)[0] == pytest.approx(part)


@pytest.mark.parametrize(("high", "vague"), [(1.81, True), (1.79, False)])
def test_a_band_is_vague_whose_ends_are_four_fifths_apart(high: float, vague: bool) -> None:
    assert Promise("acme-1", cast(Any, None), 1.0, 1.4, high, 1.0).vague is vague


SORT = "void at_cuda_detail::cub::DeviceRadixSortOnesweepKernel<float>"
SCAN = "void at::native::tensor_kernel_scan_innermost_dim<float>"


@pytest.mark.parametrize(("us", "found"), [(56.0, True), (55.0, False)])
def test_candidates_are_selected_first_where_sorting_takes_a_tenth(us: float, found: bool) -> None:
    """Twice that of 1,000 us and twice that, and nothing else behind it."""

    def body(trace: TinyTrace, _: int) -> None:
        trace.op(0, 5, "aten::sort")
        for number in range(20):
            trace.operation(10 + 50 * number, 60 + 50 * number, "sm90_xmma_gemm_bf16", 2.0 + 6 * number)
        trace.operation(1_010, 1_010 + us, SORT, 130)
        trace.operation(1_010 + us, 1_010 + 2 * us, SCAN, 140)

    replay, made = proposed("select-before-sorting", body)
    assert bool(made) is found
    if found:
        assert left(replay, made[0].expected, "Sort") == pytest.approx(0.1)
        assert left(replay, cast(Change, made[0].low), "scan") == pytest.approx(0.3)


@pytest.mark.parametrize(("reads_us", "found"), [(9.9, True), (10.1, False)])
def test_rows_are_picked_where_a_twentieth_of_what_sorting_takes_reads_them(
    reads_us: float, found: bool
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.op(0, 20, "aten::sort")
        trace.operation(10, 210, SORT, 2)
        trace.op(30, 32, "aten::slice")
        trace.op(33, 60, "aten::add")
        trace.operation(210, 210 + reads_us, "elementwise", 40)
        trace.operation(300, 700, "void some_other_kernel", 50)

    replay, made = proposed("pick-without-sorting", body, times=10)
    assert bool(made) is found
    if found:
        assert left(replay, made[0].expected, "Sort") == pytest.approx(0.1)


@pytest.mark.parametrize(("launches", "found"), [(20, True), (19, False)])
def test_twenty_launches_are_worth_a_graph(launches: int, found: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.op(0, 5, "aten::mm")
        for number in range(launches):
            trace.operation(10 + 10 * number, 15 + 10 * number, f"kernel_{number % 4}", 2 + 10 * number)
        trace.call(10 + 10 * launches, 900, "cudaDeviceSynchronize")

    replay, made = proposed("replay-cuda-graph", body)
    assert bool(made) is found
    if found:
        overlay = replay.overlay([made[0].expected])
        launching = replay.host.call == Call.LAUNCH
        assert overlay.cost[launching].reshape(5, -1)[2].sum() == pytest.approx(
            replay.usual.cost[launching].reshape(5, -1)[2, 0] + 10_000 + 500 * launches, rel=0.3
        )
        assert overlay.cost[launching].max() >= 10_000 + 500 * launches


@pytest.mark.parametrize(("dispatches", "found"), [(10, True), (9, False)])
def test_ten_functions_that_jax_dispatches_are_compiled_into_one(dispatches: int, found: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for number in range(dispatches):
            at = 100.0 * number
            trace.region(at, at + 80, "PjitFunction(add)")
            trace.operation(at + 20, at + 60, "loop_add_fusion", at + 5)

    replay, made = proposed("compile-step-with-jit", body)
    assert bool(made) is found
    if found:
        cost = replay.overlay([made[0].expected]).cost
        assert set(np.round(cost[cost > 0]).tolist()) == {100_000.0}


@pytest.mark.parametrize(("silent_us", "kept"), [(910.0, True), (890.0, False)])
def test_a_millisecond_of_python_between_dispatches_may_stay(silent_us: float, kept: bool) -> None:
    """From a launch on, 95 us before it."""

    def body(trace: TinyTrace, _: int) -> None:
        for number in range(30):
            at = 100.0 * number + (silent_us if number > 5 else 0)
            trace.region(at, at + 100, "PjitFunction(add)")
            trace.operation(at + 20, at + 60, "loop_add_fusion", at)

    _, (only,) = proposed("compile-step-with-jit", body)
    assert (only.low is not None) is kept


Tensor = tuple[int, ...]


@pytest.mark.parametrize(
    ("table", "asked", "before_ns", "found"),
    [
        ((1000, 1000), (10, 1000), 10.0, True),
        ((999, 1000), (10, 1000), 10.0, False),  # fewer than a million values
        ((1000, 1000), (10, 1000), 100_001.0, False),  # what ran before may have made it
        ((1000, 1000), (10, 1000), 99_999.0, True),
        ((1000, 1600), (99, 1000), 10.0, True),
        ((1000, 1600), (100, 1000), 10.0, False),  # a sixteenth of it is the request's
    ],
)
def test_a_kept_table_has_a_million_values_and_sixteen_times_those_of_a_request(
    table: Tensor, asked: Tensor, before_ns: float, found: bool
) -> None:
    names = ["aten::linear", "aten::sum", "aten::mm"]
    shapes: list[list[Tensor]] = [[asked], [table], [asked, table]]
    made, kept = _from_kept(names, shapes, [before_ns, 10.0, 10.0])
    assert bool(made.any()) is found
    assert kept == (table if found else ())


@pytest.mark.parametrize(("others", "found"), [(7, True), (8, False)])
def test_weights_are_converted_at_most_eight_operators_before_their_product(others: int, found: bool) -> None:
    trace = TinyTrace()
    weights, data = [512, 256], [64, 256]
    rows = [trace.op(0, 5, "aten::to")]
    trace.shapes(rows[0], [weights], ["float"])
    for number in range(others):
        rows.append(trace.op(10 + 10 * number, 15 + 10 * number, "aten::to"))
        trace.shapes(rows[-1], [[7, 7]], ["float"])
    rows.append(trace.op(100, 105, "aten::linear"))
    trace.shapes(rows[-1], [data, weights], ["half", "half"])
    assert bool(len(of_weights(trace.build(), np.array(rows)))) is found


@pytest.mark.parametrize(("extra_us", "found"), [(2_100, True), (1_900, False)])
def test_steps_are_slow_that_take_half_as_long_again_and_do_more(extra_us: float, found: bool) -> None:
    trace = TinyTrace()
    at = 0.0
    for number in range(9):
        longer = extra_us if number == 4 else 0.0
        trace.shift = at
        trace.step(0, 4_000 + longer, f"ProfilerStep#{number}")
        trace.op(0, 3_900 + longer, "aten::mm")
        trace.kernels(10, 20 + (8 if longer else 0), 20, 100)
        trace.operation(3_900 + longer, 3_950 + longer, "last", 3_890 + longer)
        at += 4_000 + longer
    trace.shift = 0.0
    analysis = Analysis(trace.build())
    assert bool(_slow_steps(analysis, replay_of(analysis)).any()) is found
