"""Where the same short kernels now and then take a turn longer, another program has the GPU in between."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from parsers.model import Trace
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.fixes.step_time import step_times
from rules.replay.replay import Replay, replay_of
from rules.replay.turns import turns_of
from tests.rules.builder import TinyTrace

KERNELS, EVERY_US, EACH_US = 20, 40.0, 20.0
Turns = dict[tuple[int, int], float]
THREE: Turns = {(0, 3): 2400.0, (2, 8): 2400.0, (3, 15): 2400.0}


def recorded(
    inside: Turns, waits: Turns | None = None, steps: int = 5, length_us: float = 1000.0, kinds: int = KERNELS
) -> Trace:
    """Steps of twenty kernels in which others had the GPU for so many us: {(step, kernel): us}."""
    trace = TinyTrace()
    for step in range(steps):
        end = 0.0
        for place in range(KERNELS):
            launch = 20.0 + place * EVERY_US
            start = max(launch + 6, end + 1) + (waits or {}).get((step, place), 0.0)
            end = start + EACH_US + inside.get((step, place), 0.0)
            trace.operation(start, end, f"void kernel_{place % kinds}<4>", launch, grid=place, block=128)
        trace.call(launch + 10, end + 5, "cudaDeviceSynchronize")
        whole = length_us + end - (launch + 6 + EACH_US)
        trace.step(0, whole, f"ProfilerStep#{step}")
        trace.shift += whole
    return trace.build()


def replayed(*what: Turns, **more: float) -> Replay:
    return replay_of(Analysis(recorded(*what, **more)))  # type: ignore[arg-type]


def test_what_others_took_is_no_part_of_a_step_and_no_error() -> None:
    made = replayed(THREE, {(1, 5): 3000.0, (4, 11): 3000.0})
    assert made.reason == ""
    assert made.others.inside.sum() == pytest.approx(3 * 2.4e6)
    assert made.others.waits.sum() == pytest.approx(2 * 3e6)
    assert made.mean_ns == pytest.approx(1e6 + (3 * 2.4e6 + 2 * 3e6) / 5, rel=0.1)
    assert made.recorded_ns == pytest.approx(1e6, rel=0.15)
    (time,) = step_times(made.analysis).values()
    assert time.recorded["compute"] == pytest.approx(KERNELS * EACH_US * 1e3, rel=0.3)


def test_a_wait_that_nothing_explains_stays_an_error_where_no_kernel_is_stretched() -> None:
    assert "misses the recorded time" in replayed({}, {(1, 5): 3000.0, (4, 11): 3000.0}).reason


@pytest.mark.parametrize(
    ("inside", "more", "shared"),
    [
        (THREE, {}, True),
        (dict(list(THREE.items())[:2]), {}, False),
        (THREE, {"kinds": 2}, False),
        (dict.fromkeys(THREE, 1050.0), {}, True),
        (dict.fromkeys(THREE, 950.0), {}, False),
        (THREE, {"steps": 4}, True),
        ({(0, 3): 2400.0, (1, 8): 2400.0, (2, 15): 2400.0}, {"steps": 3}, False),
        ({(step, place): 2400.0 for step in (1, 3) for place in (3, 8, 15)}, {}, True),
        ({(step, place): 2400.0 for step in (1, 3, 4) for place in (3, 8, 15)}, {}, False),
    ],
    ids=["three", "two", "two kernels", "a turn", "shorter", "of four", "of three", "of few", "of most"],
)
def test_another_program_stops_whatever_short_kernels_happen_to_run(
    inside: Turns, more: dict[str, int], shared: bool
) -> None:
    made = replayed(inside, **more)
    assert made.others.total_ns == pytest.approx(sum(inside.values()) * 1e3 if shared else 0.0)


@pytest.mark.parametrize(("wait_us", "of_others"), [(1050.0, True), (55.0, True), (45.0, False)])
def test_a_wait_that_nothing_explains_on_an_idle_gpu_is_of_the_others(
    wait_us: float, of_others: bool
) -> None:
    made = replayed(THREE, {(1, 5): wait_us})
    assert made.others.waits.sum() == pytest.approx(wait_us * 1e3 if of_others else 0.0)


@pytest.mark.parametrize(("quick", "longer_us"), [(1, 1500.0), (2, 2400.0)])
def test_the_quickest_tenth_is_how_long_a_kernel_takes_alone(quick: int, longer_us: float) -> None:
    """Of 16 alike, one may be quicker than the rest by chance, and the second tells."""
    slower = {(step, 1): 900.0 for step in range(quick, 16)} | {(10, 1): 2400.0}
    made = replayed(slower | {(5, 3): 2400.0, (6, 8): 2400.0, (7, 15): 2400.0}, steps=16)
    assert made.others.inside.sum() == pytest.approx((3 * 2400.0 + longer_us) * 1e3)


def test_where_ranks_meet_the_late_one_is_told_instead() -> None:
    made = replayed(THREE)
    meets = replace(made.device, meeting=np.zeros(len(made.device), np.int64))
    assert turns_of(made.analysis.trace, made.device).total_ns > 0
    assert turns_of(made.analysis.trace, meets).total_ns == 0


@pytest.mark.parametrize(("turn_us", "told"), [(2200.0, True), (1800.0, False)])
def test_another_program_is_told_from_three_hundredths_of_a_step(turn_us: float, told: bool) -> None:
    trace = recorded(dict.fromkeys(THREE, turn_us), steps=10, length_us=20_000.0)
    found = [each for each in diagnose(trace).findings if each.rule == "shared-gpu"]
    assert bool(found) is told
    assert all(each.headline.what == "Another program uses the GPU" for each in found)
