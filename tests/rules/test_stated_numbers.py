"""Numbers by which small functions decide, each with a case on either side, on the columns alone that they look at."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from rules.analysis.inference.capacity import Capacity, capacity_of
from rules.analysis.inference.serving import _plateau, _throughput
from rules.analysis.ranks.lateness import Lateness, above_noise, late_rows
from rules.analysis.ranks.patterns import _same_steps, course_of
from rules.analysis.ranks.reasons import Reason, Why, _computing, compared_kernels
from rules.comparison.recorders import RecorderCost, with_and_without
from rules.comparison.step_times import StepRatio, StepTimes
from rules.fixes.loops.filled import joined
from rules.replay.spans import _chosen
from rules.trials.blocks import Block, Gain, gain_of, have_different_sizes, whole_rounds
from rules.trials.likeness import Likeness, compare_losses
from rules.trials.record import FixRecord
from rules.verdict.trials import times


@pytest.mark.parametrize(("after", "noticeable"), [(0.031, True), (0.029, False)])
def test_recorders_are_spoken_of_from_three_percent_on(after: float, noticeable: bool) -> None:
    assert RecorderCost(0.0, after).is_noticeable is noticeable


@pytest.mark.parametrize(("cost", "low", "high"), [((0.0, 0.2), 0.7366, 1.01), ((0.2, 0.0), 0.99, 1.3576)])
def test_a_recorders_cost_is_unsure_by_its_power_of_0_37(
    cost: tuple[float, float], low: float, high: float
) -> None:
    """0.8 over 0.8 to the power of -0.37, and 1.25 times 1.25 to the power of 0.37."""
    same = StepTimes(np.full(5, 100.0))
    ratio = with_and_without(StepRatio(same, same, 0.99, 1.01), RecorderCost(*cost))
    assert (ratio.low, ratio.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


def test_of_a_kernel_1500_ns_are_its_start_and_come_once() -> None:
    replay = cast(Any, SimpleNamespace(device=SimpleNamespace(launch=np.array([0, 1, 2]))))
    overlay = cast(Any, SimpleNamespace(**{name: np.ones(3) for name in ("gap", "cost", "waits")}))
    overlay.duration = np.array([1_000.0, 5_000.0, 5_000.0])
    joined(replay, np.array([True, True, False]), np.full(3, 0.5))(overlay)
    assert overlay.duration.tolist() == [0.0, 1_750.0, 5_000.0]


def decoding(*batches: tuple[int, int, float]) -> Any:
    """Decode steps: of each batch size so many, which take so many ns."""
    decoded = np.repeat([size for size, _, _ in batches], [count for _, count, _ in batches])
    taken = np.repeat([ns for _, _, ns in batches], [count for _, count, _ in batches])
    begin = np.arange(len(decoded)) * 1e9
    return SimpleNamespace(decoded=decoded, start=begin, end=begin + taken)


@pytest.mark.parametrize(
    ("batches", "plateau"),
    [
        ([(8, 3, 1000), (16, 3, 1830)], 8),  # 1.09 times the rate
        ([(8, 3, 1000), (16, 3, 1800)], None),  # 1.11 times
        ([(8, 3, 1000), (15, 3, 1875)], None),  # not twice the batch
        ([(8, 3, 1000), (16, 2, 1830)], None),  # two steps of the larger one
        ([(8, 2, 1000), (16, 3, 1830)], None),
    ],
)
def test_a_batch_is_enough_where_twice_of_it_gives_less_than_a_tenth_more(
    batches: list[tuple[int, int, float]], plateau: int | None
) -> None:
    assert _plateau(decoding(*batches)) == plateau


@pytest.mark.parametrize(("count", "told"), [(2, False), (3, True)])
def test_three_steps_tell_how_many_tokens_an_engine_writes(count: int, told: bool) -> None:
    class Steps(SimpleNamespace):
        def __len__(self) -> int:
            return count

    steps = Steps(tokens=10, start=np.arange(count) * 100, end=np.arange(count) * 100 + 50)
    assert (_throughput(cast(Any, steps), None) is not None) is told


@pytest.mark.parametrize(
    ("sizes", "each", "known"), [((1, 2, 4, 8), 3, True), ((1, 2, 4), 3, False), ((1, 2, 4, 8), 2, False)]
)
def test_four_batch_sizes_of_three_steps_make_a_line(sizes: tuple[int, ...], each: int, known: bool) -> None:
    found = capacity_of(decoding(*((size, each, 1000 + 100 * size) for size in sizes)))
    assert (found is not None) is known


def test_a_line_tells_of_twice_the_largest_batch_within_two_spreads() -> None:
    line = Capacity(1000.0, 100.0, 50.0, 8)
    assert line.furthest == 16
    low, high = line.band(16)
    assert low == pytest.approx(8 / 1800 * 1e9)
    assert high == pytest.approx(16 / (2600 - 2 * 50) * 1e9)


@pytest.mark.parametrize(
    ("calls", "lengths", "chosen"),
    [
        ([10_000] * 10, [1.0] * 10, (0, 6)),  # 60,000 calls
        ([50_000] * 10, [1.0] * 10, (0, 3)),  # three steps at least
        ([10] * 40, [1.0] * 40, (0, 16)),  # 16 at most
        ([10] * 32, [1.6] * 16 + [1.0] * 16, (0, 16)),  # 1.6 / 1.3: 23 % longer than all on average
        ([10] * 32, [1.8] * 16 + [1.0] * 16, (0, 32)),  # 1.8 / 1.4: 29 %
    ],
)
def test_as_many_steps_are_replayed_as_have_60000_calls(
    calls: list[int], lengths: list[float], chosen: tuple[int, int]
) -> None:
    edges = np.append(0, np.cumsum(np.array(lengths) * 1_000_000)).astype(np.int64)
    starts = np.repeat(edges[:-1], calls)
    threads = SimpleNamespace(
        drivers=lambda _: ([0], None), noted_calls=lambda _: (np.arange(len(starts)), None)
    )
    trace = SimpleNamespace(events=SimpleNamespace(start=starts))
    span = cast(Any, SimpleNamespace(devices=(0,), edges=edges))
    analysis = cast(Any, SimpleNamespace(trace=trace, threads=threads))
    assert _chosen(analysis, [span], len(calls)) == chosen


@pytest.mark.parametrize(
    ("steps", "count", "since", "every"),
    [
        ([2, 3, 4, 5, 6, 8, 9, 10], 12, 2, -1),  # 8 of 10
        ([2, 3, 4, 5, 6, 8, 10], 12, -1, -1),  # 7 of 10
        ([0, 5, 10], 30, -1, 5),
        ([0, 5], 30, -1, -1),  # two are no rhythm
        ([0, 5, 11], 30, -1, 6),  # one step apart from even
        ([0, 5, 12], 30, -1, -1),
    ],
)
def test_a_course_is_nearly_every_step_or_even(steps: list[int], count: int, since: int, every: int) -> None:
    course = course_of(np.array(steps), count)
    assert (course.since, course.every) == (since, every)


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ([10.0, 10, 10, 10, 0], True),
        ([10.0, 10, 10, 0, 0], True),  # three of four steps
        ([10.0, 10, 0, 0, 0], False),
        ([10.0, 10, 10, 3.1, 0], True),
        ([10.0, 10, 2.9, 2.9, 0], False),  # less than three tenths of the largest is not loud
        ([10.0, 10, 3.1, 0, 0], True),
    ],
)
def test_groups_are_late_in_the_same_steps_where_three_of_four_are_loud(
    other: list[float], same: bool
) -> None:
    assert _same_steps(np.array([other]), np.array([10.0, 10, 10, 10, 0])).tolist() == [same]


Kernels = tuple[int, int, int]  # how often, how long all together, how many blocks


def ranks_that_run(kernels: dict[str, tuple[Kernels, Kernels]], **readings: tuple[float, float]) -> Any:
    """Two rows: one looked at, and another one."""

    def of(row: int) -> Any:
        count, time, blocks = (np.array([each[row][part] for each in kernels.values()]) for part in range(3))
        return SimpleNamespace(name=np.arange(len(kernels)), count=count, time=time, blocks=blocks)

    return SimpleNamespace(
        kernels=of, reading=lambda name: np.array(readings.get(name, (np.nan, np.nan)), np.float64)
    )


@pytest.mark.parametrize(
    ("odd", "times"),
    [
        ((10, 1000, 64), 2.0),
        ((19, 1000, 64), 2.0),  # 5 % of the calls of the others
        ((18, 1000, 64), 0.0),
    ],
)
def test_kernels_are_the_same_work_within_five_percent(odd: Kernels, times: float) -> None:
    usual = (20, 500, 64) if odd[0] > 10 else (10, 500, 64)
    assert compared_kernels(ranks_that_run({"gemm": (odd, usual)}), 0, np.array([1]))[0] == times


@pytest.mark.parametrize(("matched", "times"), [(810, 1.0), (790, 0.0)])
def test_four_fifths_of_the_time_must_be_in_kernels_that_match(matched: int, times: float) -> None:
    rest = 1000 - matched
    run = ranks_that_run(
        {"gemm": ((10, matched, 64), (10, matched, 64)), "other": ((10, rest, 64), (20, rest, 64))}
    )
    assert compared_kernels(run, 0, np.array([1]))[0] == times


@pytest.mark.parametrize(
    ("time", "readings", "why"),
    [
        (500, {"clock": (940.0, 1000.0)}, Why.CLOCK),
        (500, {"clock": (960.0, 1000.0)}, Why.COMPUTES),
        (526, {}, Why.SLOW),
        (524, {}, Why.COMPUTES),
        (500, {"blocks": (106.0, 100.0)}, Why.MORE),
        (500, {"blocks": (104.0, 100.0)}, Why.COMPUTES),
    ],
)
def test_a_rank_computes_longer_by_its_clock_its_speed_or_its_work_beyond_five_percent(
    time: int, readings: dict[str, tuple[float, float]], why: Why
) -> None:
    run = ranks_that_run({"gemm": ((10, time, 64), (10, 500, 64))}, **readings)
    assert _computing(run, Reason(Why.COMPUTES), np.array([0]), np.array([1]), None).why is why


@pytest.mark.parametrize(
    ("fixed", "growing", "why", "times"),
    [
        (
            2_900,
            90,
            Why.MORE,
            3.0,
        ),  # a grid of its own size for each GPU: the kernel says nothing of the work
        (3_550, 90, Why.MORE, 3.0),
        (3_650, 90, Why.SLOW, 3.65),  # longer than 1.2 times what three times the work explains
        (2_900, 50, Why.SLOW, 2.9),  # less than 2 % of the time
    ],
)
def test_larger_grids_are_more_work_also_where_most_kernels_have_grids_that_follow_from_the_gpu(
    fixed: int, growing: int, why: Why, times: float
) -> None:
    kernels = {"fixed": ((10, fixed, 64), (10, 1_000, 64)), "growing": ((10, growing, 300), (10, 30, 100))}
    found = _computing(ranks_that_run(kernels), Reason(Why.COMPUTES), np.array([0]), np.array([1]), None)
    assert (found.why, found.times) == (why, pytest.approx(times))


def block(changed: bool, elements: float = 0.0) -> Block:
    return Block("acme", changed, 1, 100.0, elements)


@pytest.mark.parametrize(("elements", "different"), [(1000.9, False), (1001.1, True)])
def test_batches_that_differ_by_a_thousandth_are_other_work(elements: float, different: bool) -> None:
    assert have_different_sizes([block(False, 1000.0), block(True, elements)]) is different


@pytest.mark.parametrize(("each", "known"), [(4, True), (3, False)])
def test_a_gain_needs_four_blocks_on_each_side(each: int, known: bool) -> None:
    assert (gain_of([block(changed) for changed in (False, True) for _ in range(each)]) is not None) is known


@pytest.mark.parametrize(
    ("blocks", "kept"), [(7, 4), (8, 8), (3, 0)], ids=["cut short", "two rounds", "not even one"]
)
def test_four_blocks_are_a_round(blocks: int, kept: int) -> None:
    assert len(whole_rounds([block(False)] * blocks)) == kept


@pytest.mark.parametrize(
    ("second", "changed", "likeness"),
    [
        ([1.0] * 8, [1.0] * 8, Likeness.BIT_EQUAL),
        ([1.009] * 8, [1.0] * 8, Likeness.BIT_EQUAL),
        (
            [1.011] * 8,
            [1.0] * 8,
            Likeness.NOT_COMPARABLE,
        ),  # the runs without a change differ by more than 1 %
        ([1.0], [1.0], Likeness.NOT_COMPARABLE),
        ([1.0] * 2, [1.0] * 2, Likeness.BIT_EQUAL),
        ([1.0] * 8, [1.0] * 6 + [1.51] * 2, Likeness.DIVERGES),
        ([1.0] * 8, [1.0] * 6 + [1.49] * 2, Likeness.DIFFERS),
        ([1.0] * 8, [1.0] * 5 + [9.0] + [1.0] * 2, Likeness.DIFFERS),  # before the last quarter
        ([1.0] * 8, [1.0] * 7 + [2.1], Likeness.DIVERGES),  # 1.55 is the median of the last two
    ],
)
def test_losses_diverge_where_the_last_quarter_is_half_as_large_again(
    second: list[float], changed: list[float], likeness: Likeness
) -> None:
    assert compare_losses([1.0] * 8, second, changed).likeness is likeness


@pytest.mark.parametrize(("trials", "known"), [(4, False), (5, True)])
def test_five_trials_correct_the_next_promise(trials: int, known: bool) -> None:
    assert (FixRecord("acme", trials, trials, (1.1,) * trials).correction is not None) is known


def test_a_correction_covers_four_fifths_of_the_trials() -> None:
    """Of nine of 1 to 9, a tenth below and above in the median-unbiased way (Hyndman and Fan's eighth)."""
    found = FixRecord("acme", 9, 9, tuple(np.exp(range(1, 10)))).correction
    assert found is not None
    assert np.log([found.low, found.middle, found.high]) == pytest.approx([1.2667, 5.0, 8.7333], abs=1e-3)


@pytest.mark.parametrize(
    ("gain", "said"),
    [
        (Gain(1.149, 1.142, 1.156), "1.149x (1.142 to 1.156)"),
        (Gain(1.15, 1.10, 1.199), "1.150x (1.100 to 1.199)"),
        (Gain(1.15, 1.10, 1.201), "1.15x (1.10 to 1.20)"),
        (Gain(9.0, 8.0, 9.9), "9.00x (8.00 to 9.90)"),
        (Gain(9.0, 8.0, 10.0), "9.0x (8.0 to 10.0)"),
    ],
)
def test_a_gain_has_as_many_decimals_as_its_bounds_allow(gain: Gain, said: str) -> None:
    assert times(gain) == said


@pytest.mark.parametrize(
    ("last", "blamed", "late"),
    [
        ([51.0, 49, 0, 0], [60.0, 10, 10, 10], (0,)),
        ([50.0, 50, 0, 0], [60.0, 10, 10, 10], ()),  # they take turns
        ([80.0, 20, 0, 0], [60.0, 26, 10, 4], (0, 1)),  # a quarter of all waiting
        ([80.0, 20, 0, 0], [60.0, 24, 10, 6], (0,)),
        (
            [50.0, 50, 0, 0],
            [50.0, 41, 5, 4],
            (0, 1),
        ),  # nine tenths of it are for two that are about equally late
        ([50.0, 50, 0, 0], [50.0, 39, 6, 5], ()),
        ([50.0, 50, 0, 0], [61.0, 31, 4, 4], (0, 1)),
        ([50.0, 50, 0, 0], [70.0, 29, 1, 0], ()),  # the second is not half as late
    ],
)
def test_ranks_are_late_that_most_of_the_waiting_is_for(
    last: list[float], blamed: list[float], late: tuple[int, ...]
) -> None:
    assert late_rows(np.array(last), np.array(blamed), 0.0) == late


@pytest.mark.parametrize(("late", "kept"), [(41.0, True), (39.0, False)])
def test_noise_is_four_times_what_ranks_of_a_stage_differ(late: float, kept: bool) -> None:
    found = above_noise(np.array([[late], [10.0], [-10.0], [10.0], [-10.0]]), np.zeros(5, np.int64))
    assert bool(found[0, 0]) is kept


def lateness(waited: list[float], blamed: list[float], waited_for: list[int]) -> Lateness:
    """Of ranks in one step."""
    found = Lateness(cast(Any, None))
    columns = {"waited": waited, "blamed": blamed, "waited_for": waited_for}
    vars(found).update({name: np.array(values)[:, None] for name, values in columns.items()})
    return found


@pytest.mark.parametrize(("waited", "origin"), [(5.0, 1), (4.9, 0)])
def test_lateness_was_passed_on_where_half_of_it_is_waiting(waited: float, origin: int) -> None:
    assert lateness([waited, 0.0], [10.0, 10.0], [1, -1]).origin[0, 0] == origin


def test_lateness_is_followed_back_through_eight_groups() -> None:
    ranks = 12
    found = lateness([10.0] * ranks, [10.0] * ranks, [*range(1, ranks), -1])
    assert found.origin[0, 0] == 8
