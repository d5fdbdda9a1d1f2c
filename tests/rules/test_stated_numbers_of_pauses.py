"""From which numbers on a thread is said to have been interrupted, held back by a lock, or slow by chance."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from parsers.model import EventKind, LaneKind
from parsers.model.arrays import F64
from parsers.model.names.calls import Call
from rules.analysis.analysis import Analysis
from rules.analysis.cpu.interruptions import busiest_frame, lock_waits
from rules.analysis.idle.interruptions import interruptions
from rules.replay import chance
from tests.rules.builder import AUTOGRAD, MAIN, TinyTrace

STEP_NS = 20_000_000
CALLS = 12


def interrupted(
    pause_ns: int = 2_000_000,
    usual_ns: int = 10_000,
    steps: int = 4,
    often: int = 2,
    lasting_ns: int = STEP_NS,
) -> bool:
    """Whether pauses are called interruptions of which each step has so many, at places of its own."""
    starts = []
    for step in range(steps):
        at = step * STEP_NS
        for call in range(CALLS):
            is_long = 1 + 2 * step <= call < 1 + 2 * step + often
            at += pause_ns if is_long else usual_ns
            starts.append(at)
            at += 1_000
    start = np.array(starts)
    events = SimpleNamespace(
        start=start, end=start + 1_000, name=np.tile(np.arange(CALLS), steps).astype(np.int32)
    )
    threads = SimpleNamespace(
        noted_calls=lambda _: (np.arange(len(start)), np.full(len(start), int(Call.LAUNCH)))
    )
    each = [
        SimpleNamespace(start=step * STEP_NS, end=(step + 1) * STEP_NS, duration=lasting_ns)
        for step in range(steps)
    ]
    found = interruptions(cast(Any, SimpleNamespace(events=events)), cast(Any, threads), 0, cast(Any, each))
    return len(found[0]) > 0


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, True),
        ({"steps": 3}, True),
        ({"steps": 2}, False),
        ({"pause_ns": 1_000_000}, True),
        ({"pause_ns": 999_000}, False),
        ({"pause_ns": 4_000_000, "usual_ns": 1_000_000}, True),
        ({"pause_ns": 3_900_000, "usual_ns": 1_000_000}, False),
        ({"often": 1}, False),  # one in a step
        ({"lasting_ns": 79_000_000}, True),  # 4 of 79 ms: 5.1 %
        ({"lasting_ns": 81_000_000}, False),
    ],
)
def test_a_thread_is_interrupted_twice_a_step_for_a_millisecond_and_four_times_as_long(
    given: dict[str, int], told: bool
) -> None:
    assert interrupted(**given) is told


def silent(us: float, share: float = 1.0, apart_us: float = 100.0) -> Analysis:
    """A thread that records nothing for a while, in a part of which another one goes from frame to frame."""
    trace = TinyTrace()
    trace.frame(0, 100, "train.py(3): train", MAIN)
    trace.frame(100 + us, 200 + us, "train.py(3): train", MAIN)
    at = 100.0
    while at < 100 + share * us - 1e-6:
        end = min(at + apart_us, 100 + share * us)
        trace.frame(at, end, "loader.py(7): decode", AUTOGRAD)
        at = end
    trace.operation(50, 60, "gemm", 10)
    return Analysis(trace.build())


def thread_of(analysis: Analysis, thread: int) -> int:
    return next(row for row, key in enumerate(analysis.threads.keys) if thread in key)


@pytest.mark.parametrize(
    ("us", "share", "apart_us", "denied"),
    [
        (1_000, 1.0, 100, True),
        (999, 1.0, 100, False),
        (2_000, 0.61, 100, True),
        (2_000, 0.59, 100, False),
        (25_000, 1.0, 6_200, True),
        (25_200, 1.0, 6_300, False),  # more than 1.25 times the interval
    ],
)
def test_a_lock_is_waited_for_where_others_are_at_work_in_three_fifths_of_a_millisecond(
    us: float, share: float, apart_us: float, denied: bool
) -> None:
    analysis = silent(us, share, apart_us)
    waits = lock_waits(analysis, (thread_of(analysis, MAIN),))
    assert (len(waits[0]) > 0) is denied


@pytest.mark.parametrize(
    ("count", "us", "told"), [(3, 5_000, True), (2, 5_000, False), (3, 4_790, False), (3, 6_260, False)]
)
def test_three_waits_of_five_milliseconds_are_for_the_lock(count: int, us: float, told: bool) -> None:
    trace = TinyTrace()
    lane = trace._lane(LaneKind.OS_RUNTIME, MAIN)
    for number in range(count):
        trace.add(10_000 * number, 10_000 * number + us, "pthread_cond_timedwait", lane, EventKind.OS_RUNTIME)
    trace.operation(50, 60, "gemm", 10)
    analysis = Analysis(trace.build())
    waits = lock_waits(analysis, (thread_of(analysis, MAIN),))
    assert (len(waits[0]) > 0) is told


@pytest.mark.parametrize(("inner_us", "named"), [(610, "inner"), (590, "outer")])
def test_the_innermost_frame_is_named_that_holds_three_fifths_of_the_longest(
    inner_us: float, named: str
) -> None:
    trace = TinyTrace()
    trace.frame(0, 10, "train.py(3): train", MAIN)
    trace.frame(100, 1_100, "loader.py(7): outer", AUTOGRAD)
    trace.frame(200, 200 + inner_us, "loader.py(9): inner", AUTOGRAD)
    trace.operation(50, 60, "gemm", 10)
    analysis = Analysis(trace.build())
    waits = np.array([100_000]), np.array([1_100_000])
    assert busiest_frame(analysis, (thread_of(analysis, MAIN),), waits).endswith(named)


def longer_by(longer: float, usual: float = 100_000.0) -> F64:
    gaps = np.full((4, 100), usual)
    for step, place in ((0, 5), (1, 40), (2, 80)):
        gaps[step, place] += longer
    return gaps


@pytest.mark.parametrize(("longer_ns", "told"), [(250_000.0, True), (249_000.0, False)])
def test_a_step_stops_by_chance_for_a_quarter_of_a_millisecond(longer_ns: float, told: bool) -> None:
    found = chance._stops(longer_by(longer_ns), np.ones((4, 100), bool))
    assert bool(found.any()) is told


def lost(gaps: F64, operators: F64, monkeypatch: pytest.MonkeyPatch) -> F64:
    """By how much longer than usual the time before each call was."""
    monkeypatch.setattr(chance, "operators_before", lambda *_: operators.ravel())
    monkeypatch.setattr(chance, "time_within", lambda *_: np.ones(gaps.size))
    steps, calls = gaps.shape
    host = SimpleNamespace(
        threads=1, first=[0, gaps.size], step=np.repeat(np.arange(steps), calls), gap=gaps.ravel(),
        call=np.full(gaps.size, int(Call.LAUNCH)), written=SimpleNamespace(records=np.ones(gaps.size)),
    )  # fmt: skip

    class Host(SimpleNamespace):
        def __len__(self) -> int:
            return gaps.size

    analysis = cast(Any, SimpleNamespace(interruptions=None))
    found, _ = chance.by_chance(analysis, cast(Any, Host(**vars(host))), np.zeros(gaps.size))
    return found.reshape(gaps.shape)


@pytest.mark.parametrize(
    ("usual", "took", "steps", "found"),
    [
        (600_000, 910_000, 3, True),
        (600_000, 890_000, 3, False),  # 1.48 times as long
        (400_000, 651_000, 3, True),
        (400_000, 649_000, 3, False),  # by less than a quarter of a millisecond
        (600_000, 910_000, 2, False),
    ],
)
def test_operators_take_half_as_long_again_in_one_of_three_steps(
    usual: float, took: float, steps: int, found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    operators = np.full((steps, 4), float(usual))
    operators[1, 2] = took
    gaps = np.full((steps, 4), 1_000_000.0)
    assert bool(lost(gaps, operators, monkeypatch).any()) is found


def test_a_step_is_slow_by_chance_beyond_the_quickest_quarter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of five steps of 100 to 140 the second quickest, 110, is that of the quickest quarter."""
    gaps = np.outer(np.array([100.0, 110.0, 120.0, 130.0, 140.0]), np.full(10, 1_000.0))
    found = lost(gaps, np.zeros(gaps.shape), monkeypatch)
    assert found[4] == pytest.approx((140.0 - 110.0) * 1_000.0)
    assert not found[:4].any()
