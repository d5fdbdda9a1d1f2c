"""Where single steps stopped at several places, the CPU did something else; where they did in one, the program may."""

from __future__ import annotations

import pytest

from rules.analysis.analysis import Analysis
from rules.fixes.plan import Plan, make_plan
from tests.rules.builder import TinyTrace

KERNELS, EVERY_US, LENGTH_US = 60, 40.0, 2500.0


def with_stops(stops: dict[tuple[int, int], float]) -> Plan:
    """Of five steps that stop for so many us before a kernel: {(step, kernel): us}."""
    trace = TinyTrace()
    for step in range(5):
        whole = LENGTH_US + sum(each for (of, _), each in stops.items() if of == step)
        trace.step(0, whole, f"ProfilerStep#{step}")
        at = 20.0
        for place in range(KERNELS):
            at += stops.get((step, place), 0.0)
            trace.kernels(at, 1, 20, EVERY_US)
            at += EVERY_US
        trace.shift += whole
    return make_plan(Analysis(trace.build()))


SCATTERED = {(0, 5): 3000.0, (1, 30): 4000.0, (3, 55): 5000.0}


def moved(plan: Plan) -> list[float]:
    return [
        each.expected
        for each in plan.promises
        if each.proposal.fix in ("move-host-phase", "spread-slow-steps")
    ]


@pytest.mark.parametrize(
    ("stops", "is_chance"),
    [
        (SCATTERED, True),
        ({(2, 5): 3000.0, (3, 30): 4000.0}, False),
        ({(0, 5): 3000.0, (1, 10): 4000.0, (3, 15): 5000.0}, False),
        ({(1, 5): 3000.0, (1, 30): 4000.0, (1, 55): 5000.0}, False),
        (SCATTERED | {(2, 5): 3000.0, (2, 30): 4000.0, (2, 55): 5000.0}, False),
        (dict.fromkeys(SCATTERED, 25_000.0), False),
    ],
    ids=["three places", "two", "close to each other", "in one step", "in two steps each", "too long"],
)
def test_stops_of_single_steps_at_several_places_are_chance(
    stops: dict[tuple[int, int], float], is_chance: bool
) -> None:
    made = with_stops(stops)
    assert made.reason == ""
    assert bool(made.replay.typical.gap.max() < 250_000) is is_chance
    assert bool(moved(made)) is not is_chance


@pytest.mark.parametrize(("stop_us", "is_chance"), [(300.0, True), (200.0, False)])
def test_what_is_shorter_than_a_quarter_of_a_millisecond_is_no_stop(stop_us: float, is_chance: bool) -> None:
    replay = with_stops(dict.fromkeys(SCATTERED, stop_us)).replay
    assert bool(replay.typical.gap.sum() < replay.recorded.gap.sum() - 1) is is_chance
