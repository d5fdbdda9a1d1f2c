"""Numbers by which runs, their steps and their memory are judged, each with a case on either side."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from parsers.model.arrays import I64
from rules.analysis.gpu.cost import idle_cost
from rules.analysis.recording.completeness import Completeness
from rules.analysis.recording.time_units import _decades_apart
from rules.analysis.steps.first_use import repeats
from rules.analysis.steps.growth import grow
from rules.comparison.kernel_rows import Match
from rules.comparison.kernels import Row
from rules.comparison.same_work import _as_often, _precision
from rules.comparison.scaling import scaling
from rules.fixes.loops.pieces import make_the_same_calls
from rules.fixes.plan import margin
from rules.losses.kernel_findings import faster_version
from rules.memory import summary as room
from rules.memory.summary import growth, step_ends
from rules.summaries.facts import imbalance_of, slow_links
from tests.rules.builder import TinyTrace
from tests.rules.kernel_profiles import kernel


@pytest.mark.parametrize(
    ("lengths", "grows"),
    [
        ([100, 120, 140, 160, 180], True),
        ([100, 130, 150, 170], False),  # four steps are in order by chance
        ([100, 120, 140, 130, 180], False),  # a step is 7 % shorter than the longest so far
        ([100, 120, 140, 134, 180], True),  # 4 % shorter
        ([100, 104, 108, 112, 180], False),  # no more than 4 % longer
        ([100, 106, 113, 119, 160], True),
        ([100, 130, 131, 160, 161], False),  # two rises
        ([100, 130, 131, 160, 170], True),
        ([100, 110, 120, 130, 149], False),  # 1.49 times the first
        ([100, 110, 120, 130, 151], True),
        ([100, 120, 140, 160, 180, 60], True),  # the last one ends with the recording
    ],
)
def test_steps_grow_that_rise_three_times_by_half_and_never_fall(lengths: list[float], grows: bool) -> None:
    assert grow(np.array(lengths, np.float64)) is grows


@pytest.mark.parametrize(
    ("unit", "before", "after", "noticeable"),
    [
        ("%", 50.0, 54.9, False),
        ("%", 50.0, 55.1, True),
        ("ns", 100.0, 104.9, False),
        ("ns", 100.0, 94.9, True),
    ],
)
def test_a_metric_changes_noticeably_by_five_points_or_percent(
    unit: str, before: float, after: float, noticeable: bool
) -> None:
    assert Row("acme", before, after, unit).is_noticeable is noticeable


def side(gpus: int, step_ns: float, **shares: float) -> Any:
    return SimpleNamespace(gpus=gpus, step_ns=step_ns, share=lambda part: shares.get(part, 0.0))


@pytest.mark.parametrize(
    ("compute", "work"),
    [(0.9 * 1.24, 1.0), (0.9 * 1.26, 1.26), (0.9 * 0.5 * 1.24, 0.5), (0.9 * 0.5 * 1.26, 0.63)],
)
def test_gpus_compute_as_much_or_their_part_within_a_quarter(compute: float, work: float) -> None:
    found = scaling(side(1, 1e6, compute=0.9), side(2, 1e6, compute=compute))
    assert found is not None
    assert found.work == pytest.approx(work)


@pytest.mark.parametrize(
    ("communication", "longer", "reasons"),
    [(0.021, 1.0, 1), (0.019, 1.0, 0), (0.0, 1.021, 1), (0.0, 1.019, 0)],
)
def test_what_takes_two_percent_more_on_more_gpus_is_told(
    communication: float, longer: float, reasons: int
) -> None:
    found = scaling(
        side(1, 1e6, compute=0.9), side(2, 1e6, compute=0.9 * longer, communication=communication)
    )
    assert found is not None
    assert len(found.reasons) == reasons


def launched(match: Match, calls: tuple[int, int], ns: float = 0.0, names: tuple[str, str] = ("", "")) -> Any:
    return SimpleNamespace(
        match=match, calls_before=calls[0], calls_after=calls[1], ns_before=ns, ns_after=ns,
        before=(names[0],), after=(names[1],),
    )  # fmt: skip


@pytest.mark.parametrize(("calls", "alike"), [((100, 102), True), ((100, 103), False), ((103, 100), False)])
def test_calls_are_as_often_within_two_percent(calls: tuple[int, int], alike: bool) -> None:
    assert _as_often(launched(Match.SAME, calls)) is alike


@pytest.mark.parametrize(("ns", "told"), [(51.0, True), (49.0, False)])
def test_another_precision_counts_from_a_twentieth_of_the_time_on(ns: float, told: bool) -> None:
    names = "ampere_sgemm_128x64_tn", "ampere_fp16_s16816gemm_fp16_128x64_tn"
    row = launched(Match.COUNTERPART, (1, 1), ns, names)
    assert bool(_precision([row], 1000.0)) is told


@pytest.mark.parametrize(("other_ns", "told"), [(1000.0, True), (1010.0, False)])
def test_another_version_is_told_where_it_is_a_fifth_faster(other_ns: float, told: bool) -> None:
    kernels = tuple(
        replace(kernel({"gpu__time_duration.sum": ns}), name=name)
        for name, ns in (("transpose_naive", 1205.0), ("transpose_shared", other_ns))
    )
    trace = cast(Any, SimpleNamespace(kernels=kernels))
    assert (faster_version(trace, kernels[0]) is not None) is told


@pytest.mark.parametrize(("peak", "full"), [(70.1, True), (69.9, False)])
def test_memory_is_filled_from_seven_tenths_on(
    peak: float, full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = SimpleNamespace(device=0, peak_allocated=peak)
    monkeypatch.setattr(room, "memory_of", lambda _: [used])
    devices = (SimpleNamespace(memory_bytes=100),)
    analysis = cast(Any, SimpleNamespace(trace=SimpleNamespace(devices=devices)))
    assert room.is_nearly_full(analysis) is full


@pytest.mark.parametrize(
    ("held", "grows"),
    [
        ([0, 500, 506, 512, 518, 524], True),  # 6 of 1,000 a step
        ([0, 500, 504, 508, 512, 516], False),  # 4
        ([0, 500, 506, 516, 522, 528], True),
        ([0, 500, 504, 516, 528, 540], False),  # one step leaves a third of what the others do
        ([0, 500, 507, 519, 531, 543], True),  # more than half
        ([0, 500, 520, 541], True),  # of four steps the first does not count
        ([0, 500, 520, 543], False),
        ([500, 520], False),
        ([500, 520, 541], True),  # three steps: 20 and 21
        ([500, 520, 543], False),  # 20 and 23 agree too little for so few
    ],
)
def test_memory_grows_by_half_a_percent_a_step_evenly(held: list[int], grows: bool) -> None:
    ends = list(range(10, 10 * len(held) + 1, 10))
    found = growth(ends, np.array(ends), np.array(held, np.float64), 1000.0)
    assert bool(found.per_step) is grows


@pytest.mark.parametrize(("last", "kept"), [(11, 4), (9, 3)])
def test_a_step_of_less_than_a_tenth_of_the_usual_one_was_cut_off(last: int, kept: int) -> None:
    lengths = [100, 100, 100, last]
    begins = np.cumsum([0, *lengths])
    steps = tuple(
        SimpleNamespace(start=int(begin), end=int(begin) + length, rank=None)
        for begin, length in zip(begins, lengths, strict=False)
    )
    assert len(step_ends(cast(Any, SimpleNamespace(steps=steps)), None, None)) == kept


@pytest.mark.parametrize(
    ("launches", "lost", "told"),
    [
        (100, 31, True),
        (100, 29, False),
        (99, 31, False),  # fewer may all belong to work that the recording began in
        (3, 3, True),  # no kernel was recorded at all
        (2, 2, False),
    ],
)
def test_records_are_lost_where_a_third_of_a_hundred_launches_has_no_kernel(
    launches: int, lost: int, told: bool
) -> None:
    assert Completeness(launches, np.arange(lost)).has_lost_records is told


def lasting(seconds: float, count: int = 20, bend: float = 0.0) -> I64:
    """So many times, in ns; ``bend`` moves the middle by a part of all."""
    course = np.interp(np.linspace(0, 1, count), [0.0, 0.5, 1.0], [0.0, 0.5 + bend, 1.0])
    return (course * seconds * 1e9).astype(np.int64)


@pytest.mark.parametrize(
    ("times", "decades"),
    [
        (lasting(1.04e-3), -3),
        (lasting(1.06e-3), 0),
        (lasting(1.04e-6, 2000), -6),
        (lasting(1e-3, 19), 0),
        (lasting(1e-3, bend=0.04), -3),
        (lasting(1e-3, bend=0.06), 0),
        (lasting(1e-2), 0),
    ],
    ids=[
        "4 % longer",
        "6 % longer",
        "millionths",
        "too few",
        "nearly the same course",
        "another course",
        "hundredths",
    ],
)
def test_times_in_another_unit_go_the_same_course_in_a_thousandth(times: I64, decades: int) -> None:
    assert _decades_apart(times, lasting(1.0), 0.05) == decades


@pytest.mark.parametrize(
    ("kinds", "times_each", "repeated"), [(10, 3.0, True), (10, 2.9, False), (9, 1.0, True)]
)
def test_a_program_repeats_that_runs_each_of_ten_kernels_three_times(
    kinds: int, times_each: float, repeated: bool
) -> None:
    trace = TinyTrace()
    for number in range(round(kinds * times_each)):
        trace.operation(10 * number, 10 * number + 5, f"kernel_{number % kinds}")
    built = trace.build()
    assert repeats(built, built.gpu_operations) is repeated


@pytest.mark.parametrize(
    ("gain", "factor"), [(1.0, 1.15), (1.2, 1.15), (1.4, 1.2), (1.66, 1.33), (3.0, 1.33)]
)
def test_a_gain_may_be_missed_by_a_seventh_to_a_third(gain: float, factor: float) -> None:
    assert margin(gain) == pytest.approx(factor)


@pytest.mark.parametrize(("others", "same"), [(1, True), (2, False)])
def test_rounds_make_nine_tenths_of_the_same_calls(others: int, same: bool) -> None:
    usual, odd = [1] * 10, [1] * (10 - others) + [2] * others
    kinds, ends = np.array(usual * 2 + odd), np.array([10, 20, 30])
    assert make_the_same_calls(kinds, ends - 10, ends) is same


def loaded(blocks: list[list[float]]) -> Any:
    run = SimpleNamespace(reading=lambda _: np.array(blocks))
    return SimpleNamespace(run=run, dimensions=(), stage=np.zeros(len(blocks), np.int64))


@pytest.mark.parametrize(("most", "uneven"), [(111.0, True), (109.0, False)])
def test_ranks_are_unevenly_loaded_from_a_tenth_beyond_the_mean_on(most: float, uneven: bool) -> None:
    rest = (400 - most) / 3
    assert (imbalance_of(loaded([[most] * 4, *[[rest] * 4] * 3])) is not None) is uneven


@pytest.mark.parametrize(("of_first", "rotates"), [(4, False), (3, True)])
def test_ranks_take_turns_where_none_has_most_in_half_of_the_steps(of_first: int, rotates: bool) -> None:
    """Of eight steps."""
    heaviest = [0] * of_first + [1 + step % 3 for step in range(8 - of_first)]
    found = imbalance_of(loaded([[200.0 if row == most else 50.0 for most in heaviest] for row in range(4)]))
    assert found is not None
    assert found.rotates is rotates


def timed(speed: float, size: int = 65_536, count: int = 3) -> Any:
    return SimpleNamespace(
        collective="allreduce", bytes=size, ranks=2, bus_bandwidth=speed, count=count, transfer_ns=1000.0,
        rows=np.array([0, 1]),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("groups", "slow"),
    [
        ([timed(69.0), timed(100.0), timed(100.0)], 1),
        ([timed(71.0), timed(100.0), timed(100.0)], 0),
        ([timed(40.0), timed(100.0)], 0),  # two tell nothing of what is usual
        ([timed(69.0, 65_535), timed(100.0, 65_535), timed(100.0, 65_535)], 0),  # as long as the latency
        ([timed(69.0, count=2), timed(100.0), timed(100.0), timed(100.0)], 0),
    ],
)
def test_a_link_is_slow_at_seven_tenths_of_what_three_groups_reach(groups: list[Any], slow: int) -> None:
    run = cast(Any, SimpleNamespace(name=str, rows=()))
    assert len(slow_links(run, (), tuple(groups))) == slow


def test_money_is_that_of_an_hour_and_of_a_thousand_steps() -> None:
    budget = SimpleNamespace(window_ns=4e9, total_idle_ns=1e9)
    analysis = cast(Any, SimpleNamespace(budgets=lambda _: budget, active_devices=(0, 1), steps_in_window=4))
    cost = idle_cost(analysis, 2.0)
    assert cost is not None
    assert cost.idle == pytest.approx(0.5)
    assert cost.per_1000_steps == pytest.approx(2 * 1000 / 4 / 3600)
