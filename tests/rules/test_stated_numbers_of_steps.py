"""Numbers by which steps, cycles and the analysed time are found, each with a case on either side."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from parsers.model import Trace
from rules.analysis.steps import repetition
from rules.analysis.steps.analysed_time import (
    SetAside,
    _before_the_gpu,
    _behind_older_work,
    _long_wait,
    _start_up,
)
from rules.analysis.steps.marks import cycles_of_regions
from rules.analysis.steps.repetition import (
    _judged,
    _regular_marks,
    _served_side_by_side,
    cycles_in,
    repetitions,
    rounds_of,
)
from rules.analysis.steps.steps import _last_warm, _side_by_side, find_steps
from tests.rules.builder import TinyTrace, ns
from tests.rules.test_unmarked_steps import OPTIMIZER, Program


def first_wait(
    before: float = 10, wait: float = 4_000, after: float = 5_990, blocked: float = 1.0, kernels: int = 1
) -> SetAside | None:
    """What is set aside of some work, a wait of which a part is spent in a call, and the work of some kernels."""
    trace, begin = TinyTrace(), before + wait
    trace.operation(0, before, "fill")
    for number in range(kernels):
        trace.operation(begin + number * after / kernels, begin + (number + 1) * after / kernels, "gemm")
    if blocked:
        trace.call(before, before + blocked * wait, "cudaDeviceSynchronize")
    else:
        trace.call(before, before + 1_100, "cudaLaunchKernel")
    built = trace.build()
    return _long_wait(built, built.gpu_operations, 0, ns(begin + after))


@pytest.mark.parametrize(
    ("made", "known"),
    [
        ({"wait": 2_010, "after": 7_980}, True),
        ({"wait": 1_990, "after": 8_000}, False),
        ({"before": 290, "after": 5_710}, True),
        ({"before": 310, "after": 5_690}, False),
        ({"blocked": 0.81}, True),
        ({"blocked": 0.79}, False),
        ({"blocked": 0.0, "kernels": 20}, True),
        ({"blocked": 0.0, "kernels": 19}, False),
    ],
    ids=[
        "a fifth of the time",
        "a shorter wait",
        "before it a twentieth of the work",
        "more work before it",
        "in a call for four fifths of it",
        "in code of its own for more of it",
        "the first launch, and enough behind it",
        "too little behind it",
    ],
)
def test_a_wait_before_nearly_all_of_the_work_is_set_aside(made: dict[str, Any], known: bool) -> None:
    assert (first_wait(**made) is not None) is known


@pytest.mark.parametrize(("share", "told"), [(0.97, "build"), (0.99, "load")])
def test_a_range_around_all_of_the_time_before_the_gpu_s_work_explains_nothing(
    share: float, told: str
) -> None:
    trace = TinyTrace()
    trace.region(0, 20_000 * share, "build")
    trace.region(100, 10_000, "load")
    trace.operation(20_000, 20_100, "gemm", 19_990)
    built = trace.build()
    found = _before_the_gpu(built, ns(20_000), ns(20_100))
    assert found is not None
    assert built.name(found.call) == told


@pytest.mark.parametrize(("share", "found"), [(0.16, True), (0.14, False)])
def test_first_use_that_takes_a_seventh_of_the_time_is_set_aside(share: float, found: bool) -> None:
    trace, whole = TinyTrace(), 40_000.0
    took = share * whole
    trace.operation(0, 10, "fill")
    trace.call(10, 10 + took, "cudaMalloc")
    each = (whole - took - 10) / 40
    for number in range(40):
        trace.operation(10 + took + number * each, 10 + took + (number + 1) * each, f"kernel_{number % 2}")
    built = trace.build()
    assert (_start_up(built, built.gpu_operations, 0, ns(whole)) is not None) is found


@pytest.mark.parametrize(("took", "counts"), [(1_100, True), (900, False), (300_000, True)])
def test_first_use_begins_with_the_launch_of_the_first_work_where_that_took_a_millisecond(
    took: float, counts: bool
) -> None:
    trace = TinyTrace()
    trace.region(0, 10, "begin")
    trace.operation(300_000, 300_010, "fill", 300_000 - took, launch_us=took)
    trace.call(300_010, 320_000, "cudaMalloc")
    for number in range(40):
        trace.operation(320_000 + number * 500, 320_500 + number * 500, f"kernel_{number % 2}")
    built = trace.build()
    first, last = int(built.events.start[built.gpu_operations].min()), built.duration
    left_out = _start_up(built, built.gpu_operations, first, last)
    assert left_out is not None
    assert left_out.start == (first - ns(took) if counts else first)
    assert built.name(left_out.call) == ("cudaLaunchKernel" if took > 20_000 else "cudaMalloc")


@pytest.mark.parametrize(("queued", "older"), [(1_000, True), (999, False)])
def test_a_first_kernel_queued_for_a_millisecond_was_behind_older_work(queued: float, older: bool) -> None:
    trace = TinyTrace()
    trace.operation(10 + queued, 20 + queued, "gemm", 5)
    built = trace.build()
    assert (_behind_older_work(built, built.gpu_operations, 0)[1] is not None) is older


@pytest.mark.parametrize(("others", "found"), [(1, True), (2, False)])
def test_regions_take_turns_that_are_the_same_a_cycle_later_but_for_a_twentieth(
    others: int, found: bool
) -> None:
    """Each other one differs from the one before it and from the one after it: of 42."""
    trace = TinyTrace()
    for number in range(44):
        name = (
            "forward"
            if number % 2 == 0
            else "look"
            if number % 20 == 11 and number // 20 < others
            else "learn"
        )
        trace.region(100 * number, 100 * number + 90, name)
    built = trace.build()
    assert (cycles_of_regions(built, np.ones(len(built.lanes), bool)) is not None) is found


@pytest.mark.parametrize(("other", "rounds"), [(6_000, 12), (4_000, 6)])
def test_a_wait_of_half_of_the_longest_ends_a_round(other: int, rounds: int) -> None:
    """After every fourth of 48 cycles the GPU waits, every second time not as long."""
    cycle = np.arange(48)
    waits = np.where(cycle % 8 == 3, 10_000, np.where(cycle % 8 == 7, other, 10))
    counts = np.full(48, 10)
    begins = cycle * 10
    starts = np.cumsum(1_000 + waits) - (1_000 + waits)
    assert len(rounds_of(begins, counts, starts, starts + 1_000, trains=False)) == rounds


@pytest.mark.parametrize(("times", "found"), [(3, 3), (2, 0)])
def test_three_times_the_same_are_steps(times: int, found: int) -> None:
    program = Program()
    for _ in range(times):
        program.run("embedding", "gemm_a", "gelu", "gemm_b", OPTIMIZER)
    assert program.counted() == [found]


@pytest.mark.parametrize(("length", "found"), [(150, True), (4_000, False)])
def test_a_cycle_is_found_where_eight_kernels_in_a_row_come_once_in_it(length: int, found: bool) -> None:
    """Of two kernels in no order: four in a row come several times in 150, and eight in a row in 4,000."""
    cycle = np.random.default_rng(5).integers(2, size=length)
    kinds = np.tile(cycle, 5)
    assert (5 in {len(each.begins) for each in cycles_in(kinds, kinds)}) is found


def test_of_the_ways_to_cut_a_sequence_the_48_most_regular_are_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judged: list[int] = []
    monkeypatch.setattr(repetition, "_judged", lambda _, places: judged.append(len(places)))
    at = np.concatenate([np.linspace(0, 1, 3 + kind) for kind in range(120)])
    kinds = np.repeat(np.arange(120), np.arange(3, 123))[np.argsort(at, kind="stable")]
    cycles_in(kinds, kinds)
    assert len(judged) == 48


@pytest.mark.parametrize(("kept", "alike"), [(7, True), (5, False)])
def test_cycles_are_alike_that_have_three_fifths_in_common(kept: int, alike: bool) -> None:
    """Of ten kernels, in every third cycle."""
    cycles = [np.arange(kept if number % 3 == 2 else 10) for number in range(12)]
    begins = np.cumsum([0, *(len(each) for each in cycles[:-1])])
    assert (_judged(np.concatenate(cycles), begins) is not None) is alike


@pytest.mark.parametrize(("kernels", "ways"), [(20, {12, 36}), (11, {12})])
def test_shorter_cycles_explain_two_percent_less_at_most(kernels: int, ways: set[int]) -> None:
    """After every third step something else runs."""
    kinds = np.tile([*range(kernels)] * 3 + [kernels], 12)
    assert {len(each.begins) for each in cycles_in(kinds, kinds)} & {12, 36} == ways


@pytest.mark.parametrize(("variety", "counted"), [(5_000_000, True), (5_000_001, False)])
def test_no_more_than_twenty_million_numbers_are_counted(
    variety: int, counted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Counted(Exception):
        """What is asked for; the table itself would be large."""

    def bincount(*_: object, **__: object) -> None:
        raise Counted

    monkeypatch.setattr(np, "bincount", bincount)
    kinds, begins = np.array([0, variety - 1] * 4), np.arange(4) * 2
    if counted:
        with pytest.raises(Counted):
            _judged(kinds, begins)
    else:
        assert _judged(kinds, begins) is None


@pytest.mark.parametrize(("other", "spread"), [(1, 0.0), (3, 0.5)])
def test_what_comes_evenly_four_times_of_five_is_regular(other: int, spread: float) -> None:
    """Eleven marks ten apart, of which some are fifteen apart."""
    places = np.cumsum([0] + [15] * other + [10] * (10 - other))
    words = np.arange(int(places[-1]) + 1) + 1
    words[places] = 0
    assert {count: found for found, _, at in _regular_marks(words) if (count := len(at)) == 11} == {
        11: spread
    }


@pytest.mark.parametrize(("after", "found"), [(3, 5), (5, 0)])
def test_a_fifth_of_a_step_may_follow_on_the_last_one(after: int, found: int) -> None:
    program = Program()
    for _ in range(5):
        program.run(*(f"kernel_{number}" for number in range(19)))
        program.read_back()
    program.run(*(f"other_{number}" for number in range(after)))
    assert program.counted() == [found]


@pytest.mark.parametrize(("before", "found"), [(3, 5), (5, 0)])
def test_a_fifth_of_a_step_may_come_before_the_first_one(before: int, found: int) -> None:
    program = Program()
    program.run(*(f"other_{number}" for number in range(before)))
    for _ in range(5):
        program.now += 500
        program.run(*(f"kernel_{number}" for number in range(20)))
    assert program.counted() == [found]


def served(first: list[str], second: list[str]) -> bool:
    """Whether two threads that launch these kernels at the same time serve the same requests."""
    program = Program()
    program.run(second[0], thread=201)
    for name in first:
        program.run(name, thread=200)
    for name in second[1:]:
        program.run(name, thread=201)
    built = program.trace.build()
    return _served_side_by_side(built, built.gpu_operations)


@pytest.mark.parametrize(
    ("first", "second", "side_by_side"),
    [
        (["gemm", "gelu"], ["gemm", "gelu"], True),
        (["gemm", "gelu"], ["gemm", "norm"], False),
        (["gemm"] * 89, ["gemm"] * 11, True),
        (["gemm"] * 91, ["gemm"] * 9, False),
    ],
    ids=["the same", "half the same", "a tenth of all", "less"],
)
def test_threads_that_launch_nearly_the_same_and_a_tenth_of_all_serve_side_by_side(
    first: list[str], second: list[str], side_by_side: bool
) -> None:
    assert served(first, second) is side_by_side


def test_the_first_200000_operations_tell_what_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []

    def side_by_side(_: Trace, order: Any) -> bool:
        looked_at.append(len(order))
        return True

    monkeypatch.setattr(repetition, "_of_busiest_device", lambda _, operations: operations)
    monkeypatch.setattr(repetition, "_served_side_by_side", side_by_side)
    assert repetitions(cast(Any, None), np.arange(500_000)) == []
    assert looked_at == [200_000]


@pytest.mark.parametrize(("later", "warm"), [(1_900, 0), (2_100, -1)])
def test_a_first_step_is_no_warm_up_where_a_later_one_takes_half_as_long(later: int, warm: int) -> None:
    assert _last_warm(np.array([4_000, *[1_000] * 6, later]), 1.5) == warm


@pytest.mark.parametrize(("elsewhere", "found"), [(18.0, 4), (32.0, 0)])
def test_numbered_steps_hold_a_quarter_of_the_gpu_s_work(elsewhere: float, found: int) -> None:
    """Of 26 and of 40 us."""
    trace = TinyTrace()
    for index in range(4):
        trace.region(index * 10, index * 10 + 9, f"step_{index}")
        trace.operation(index * 10 + 3, index * 10 + 5, "gemm", index * 10 + 1, launch_us=1)
    trace.operation(2_000, 2_000 + elsewhere, "solver", 1_990)
    assert len(find_steps(trace.build())) == found


@pytest.mark.parametrize(("overlap", "side_by_side"), [(21, True), (19, False)])
def test_threads_whose_ranges_overlap_for_a_tenth_serve_requests(overlap: float, side_by_side: bool) -> None:
    trace = TinyTrace()
    events = [trace.region(0, 100, "a", 200), trace.region(100 - overlap, 200 - overlap, "a", 201)]
    assert _side_by_side(trace.build(), [np.array([event]) for event in events]) is side_by_side
