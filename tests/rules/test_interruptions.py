"""Pauses at places that change from step to step: something else had the CPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rules.analysis.analysis import Analysis
from rules.analysis.idle.causes import Cause
from rules.fixes.plan import make_plan
from tests.opened import planned
from tests.rules.builder import TinyTrace, steps
from tests.rules.test_fixes import promised

CALLS = 40


def interrupted(
    pause: float = 3_000,
    often: int = 2,
    usual: float = 20,
    count: int = 6,
    length: float = 12_000,
    moves: bool = True,
    every: int = 1,
    more: int = 0,
) -> Analysis:
    """Steps of equal launches with some long pauses, each step at places of its own unless these do not move."""

    def body(trace: TinyTrace, index: int) -> None:
        places = {(3 + 5 * number + (7 * index if moves else 0)) % CALLS for number in range(often)}
        at = 10.0
        for place in range(CALLS + more * (index % 2)):
            at += pause if place in places and index % every == 0 else usual
            trace.kernels(at, 1, 5, 0)
            at += 10

    return Analysis(steps(count, length, body).build())


def stopped(analysis: Analysis) -> int:
    return len(analysis.interruptions(*analysis.threads.drivers(0)[0])[0])


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, 12),
        ({"pause": 1_050.0}, 12),
        ({"pause": 950.0}, 0),
        ({"moves": False}, 0),
        ({"usual": 280.0, "length": 25_000}, 12),
        ({"pause": 3_000, "usual": 780.0, "length": 45_000}, 0),
        ({"often": 1}, 0),
        ({"length": 110_000}, 12),
        ({"length": 130_000}, 0),
        ({"count": 3}, 6),
        ({"count": 2}, 0),
        ({"every": 2, "often": 4, "length": 20_000}, 12),
        ({"every": 3, "often": 6, "length": 25_000}, 0),
        ({"more": 1}, 0),
    ],
    ids=[
        "pauses",
        "one millisecond",
        "shorter",
        "always at the same places",
        "more than four times as long as usual",
        "less",
        "once a step",
        "five per cent of the steps",
        "less of them",
        "three steps",
        "two steps",
        "in half of the steps",
        "in fewer",
        "too few steps with the same calls",
    ],
)
def test_what_counts_as_interrupted(changed: dict[str, float], found: int) -> None:
    analysis = interrupted(**({"count": 4} if "more" in changed else {}) | changed)  # type: ignore[arg-type]
    assert stopped(analysis) == found


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, 4),
        ({"often": 3, "begin": 8}, 3),
        ({"often": 3, "begin": 0}, 0),
        ({"moves": False}, 0),
        ({"count": 8, "begin": 3}, 4),
        ({"count": 7, "begin": 2}, 0),
        ({"launches": 1, "count": 40, "begin": 30}, 4),
        ({"launches": 0, "count": 40, "begin": 30}, 0),
        ({"sets": 4}, 4),
        ({"sets": 5}, 0),
        ({"steps_": 2}, 9),
        ({"steps_": 3}, 0),
    ],
    ids=[
        "pauses",
        "two in the second half of the rounds",
        "only one there",
        "always at the same places",
        "eight layers",
        "fewer",
        "rounds of six calls",
        "calls that are all the same",
        "four of the rarest call in a round",
        "more",
        "two steps, and the pause between them",
        "three, which are compared instead",
    ],
)
def test_rounds_of_fewer_than_three_steps_show_what_was_interrupted(
    changed: dict[str, int], found: int
) -> None:
    assert stopped(layers(**changed)) == found


def layers(
    often: int = 4,
    begin: int = 8,
    count: int = 20,
    launches: int = 9,
    sets: int = 1,
    moves: bool = True,
    steps_: int = 1,
) -> Analysis:
    """Steps of equal layers, a few of which stall once, each at a place of its own unless these do not move."""

    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        for layer in range(count):
            stalls = begin <= layer < begin + often or not moves
            calls = ["cudaLaunchKernel"] * sum(1 + launches + each for each in range(sets))
            for each in range(sets):
                calls[sum(1 + launches + before for before in range(each))] = "cudaMemsetAsync"
            for place, call in enumerate(calls):
                at += 3_000 if stalls and place == (layer % max(launches, 1) if moves else 0) else 20
                trace.operation(at + 7, at + 10, "void some_kernel", at, call=call)
                at += 10

    return Analysis(steps(steps_, 80_000, body).build())


def test_a_launch_that_takes_long_by_chance_was_interrupted_inside() -> None:
    def body(trace: TinyTrace, index: int) -> None:
        at = 10.0
        for place in range(CALLS):
            outside = place in {3 + 5 * index, 6 + 5 * index}
            at += 3_000 if outside else 20
            inside = 3_000.0 if place == 2 + 5 * index else 5.0
            trace.operation(at + inside + 1, at + inside + 6, "void some_kernel", at, launch_us=inside)
            at += inside + 5

    analysis = Analysis(steps(6, 16_000, body).build())
    start, end = analysis.interruptions(*analysis.threads.drivers(0)[0])
    assert len(start) == 18 or (end - start).max() > 5_000_000
    assert (end - start).sum() == pytest.approx(6 * 9_000_000, rel=0.02)


def test_idle_time_of_interruptions_is_that_of_launching_and_bears_their_name() -> None:
    idle = interrupted().idle
    long = np.flatnonzero(idle.end - idle.start > 2_500_000)
    assert len(long) >= 12
    mine = [row for row in long if idle.culprit_of(int(row)).text == "something else that has the CPU"]
    assert len(mine) == 12
    assert {int(idle.cause[row]) for row in mine} == {int(Cause.LAUNCH)}


def test_a_cpu_of_its_own_is_promised_what_the_pauses_take() -> None:
    plan = make_plan(interrupted(length=8_000))
    told = next(each for each in plan.promises if each.proposal.fix == "free-the-cpu")
    assert told.proposal.title.startswith(
        "Give the program its own CPU cores: it stalls 2 times in a step, 6.0"
    )
    assert told.expected > 2
    assert promised(make_plan(interrupted(moves=False))).keys() & {"free-the-cpu"} == set()


def test_a_real_program_that_was_preempted_is_not_told_to_look_for_work_in_python(fixtures: Path) -> None:
    plan = planned(fixtures / "nsys" / "explicit_sync.sqlite.gz")
    first = plan.promises[0]
    assert first.proposal.fix == "free-the-cpu"
    assert promised(plan).get("move-host-phase", 1.0) < 1.1
