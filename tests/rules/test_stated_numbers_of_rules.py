"""From which numbers on rules say a thing about what they found: caches, small products, read-backs, clocks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.analysis.logs.clocks import ClockFacts
from rules.catalog.cpu_recording import _are_held_up, _largest, _of_the_profiler
from rules.catalog.interrupted_steps import _without_cache
from rules.catalog.matrix_products import _image
from rules.kernels.moved_bytes import rows_read
from rules.remedies.kernels import has_tf32
from tests.rules.builder import TinyTrace, steps


@pytest.mark.parametrize(
    ("asks", "frees", "off"),
    [(50, 50, True), (49, 49, False), (100, 75, True), (100, 74, False), (100, 126, False)],
)
def test_a_cache_is_off_where_fifty_calls_ask_for_memory_and_about_as_many_free_it(
    asks: int, frees: int, off: bool
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.op(0, 5, "aten::mm")
        trace.operation(10, 3_900, "gemm", 6)
        for number in range(asks + frees):
            name = "cudaMalloc" if number < asks else "cudaFree"
            trace.call(20 + 10 * number, 25 + 10 * number, name)

    analysis = Analysis(steps(4, 4_000.0, body).build())
    assert _without_cache(analysis, cast(Any, SimpleNamespace(device=0))) is off


@pytest.mark.parametrize(
    ("us", "count", "told"),
    [(105.0, 1, True), (95.0, 1, False), (10.0, 12, True), (9.9, 12, False)],
    ids=["a tenth of the step", "less", "10 us each", "shorter ones"],
)
def test_small_products_of_10_us_are_told_that_take_a_tenth_of_a_step(
    us: float, count: int, told: bool
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.op(0, 5, "aten::mm")
        for number in range(count):
            at = 10 + us * number
            trace.operation(at, at + us, "nvjet_tst_64x64", 2.0 + 6 * number, grid=65, block=128)
        trace.operation(10 + us * count, 1_000, "some_other_kernel", 300)

    found = [
        each for each in diagnose(steps(4, 1_000.0, body).build()).findings if "less than half" in each.title
    ]
    assert bool(found) is told


@pytest.mark.parametrize(
    ("height", "width", "odd"),
    [(28, 28, False), (20, 22, False), (30, 30, True)],
    ids=["16 divides it", "8 divides it", "4 divides it"],
)
def test_an_image_is_awkward_whose_size_eight_does_not_divide(height: int, width: int, odd: bool) -> None:
    trace = TinyTrace()
    trace.shapes(trace.op(0, 10, "aten::conv2d"), [[8, 64, height, width], [64, 64, 3, 3]], ["half", "half"])
    trace.operation(20, 100, "cutlass_80_tensorop_f16_s16816fprop_align2", 2)
    built = trace.build()
    image = _image(Analysis(built), int(built.gpu_operations[0]))
    assert image == ((height, width) if odd else None)


@pytest.mark.parametrize(("part", "slow"), [(0.969, True), (0.971, False)])
def test_memory_is_slow_below_97_percent_of_its_clock(part: float, slow: bool) -> None:
    facts = SimpleNamespace(memory_clock=1_000 * part, highest_memory_clock=1_000.0)
    assert ClockFacts.memory_is_slow.fget(facts) is slow  # type: ignore[attr-defined]


@pytest.mark.parametrize(("capability", "has"), [((8, 0), True), ((7, 5), False), (None, True)])
def test_tf32_comes_with_capability_8(capability: tuple[int, int] | None, has: bool) -> None:
    trace = TinyTrace(capability=capability)
    trace.operation(0, 10, "gemm")
    assert has_tf32(trace.build(), 0) is has


def test_a_row_is_read_and_written_and_its_index_of_eight_bytes_is_read() -> None:
    tensors = {0: [((1000, 64), 4)], 1: [((10,), 8)]}
    work = rows_read(cast(Any, SimpleNamespace(tensors=tensors.__getitem__)))
    assert work is not None
    assert work.moved == 10 * (8 + 2 * 64 * 4)


@pytest.mark.parametrize(("reads", "told"), [(10, True), (9, False)])
def test_values_are_read_one_at_a_time_where_a_quarter_of_forty_operators_read_them(
    reads: int, told: bool
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for number in range(40):
            name = "aten::item" if number % 4 == 0 and number < 4 * reads else "aten::add"
            trace.op(25 * number, 25 * number + 10, name)

    findings = diagnose(steps(4, 1_000.0, body).build()).findings
    (found,) = [each for each in findings if each.rule == "cpu-small-operators"]
    assert ("Values are read one at a time" in found.title) is told


@pytest.mark.parametrize(("loads", "told"), [(2, True), (1, False)])
def test_two_batches_show_that_loading_comes_again(loads: int, told: bool) -> None:
    def body(trace: TinyTrace, step: int) -> None:
        if step < loads:
            trace.op(0, 900, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")
        for number in range(4):
            trace.op(900 + 25 * number, 920 + 25 * number, "aten::add")

    found = {each.rule for each in diagnose(steps(2, 1_000.0, body).build()).findings}
    assert ("cpu-loading" in found) is told


@pytest.mark.parametrize(
    ("each_ns", "per_second", "held_up"),
    [(100_000, 0.9e9, True), (99_000, 0.9e9, False), (100_000, 1.1e9, False)],
)
def test_products_are_held_up_that_take_a_tenth_of_a_millisecond_below_a_gigaflop(
    each_ns: int, per_second: float, held_up: bool
) -> None:
    products = SimpleNamespace(ns=10 * each_ns, calls=10, per_second=per_second)
    assert _are_held_up(cast(Any, products)) is held_up


@pytest.mark.parametrize(("ns", "told"), [(200, True), (199, False)])
def test_what_is_longest_is_named_in_a_title_from_a_fifth_of_the_time_on(ns: int, told: bool) -> None:
    trace = TinyTrace()
    event = trace.op(0, 10, "aten::mm")
    analysis = SimpleNamespace(window_ns=1000)
    assert bool(_largest(trace.build(), [(event, ns)], cast(Any, analysis))) is told


@pytest.mark.parametrize(("share", "told"), [(0.031, True), (0.029, False)])
def test_the_profiler_is_told_from_three_percent_of_the_time_on(share: float, told: bool) -> None:
    analysis = SimpleNamespace(steps_in_window=4, window_ns=4_000_000)
    time = SimpleNamespace(recorder_share=share)
    assert bool(_of_the_profiler(cast(Any, analysis), cast(Any, time))) is told
