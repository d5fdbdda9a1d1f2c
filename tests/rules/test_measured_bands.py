"""Bands reach as far as the same fix was missed in other programs, and never beyond what the GPU allows."""

from __future__ import annotations

import importlib
import json
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType

import pytest

from rules.analysis.analysis import Analysis
from rules.fixes.base import fixes
from rules.fixes.plan import Plan, Reach, make_plan, margin, measured_reaches, widest
from tests.rules.builder import TinyTrace, steps

# The cases lie on either side of these.
NARROWEST = 1.15
UNCERTAIN = 1.33

FIX = "move-host-phase"


@pytest.fixture(scope="module")
def script(repository: Path) -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(repository / "scripts"))
        return importlib.import_module("measure_bands")


@pytest.mark.parametrize(
    ("gain", "factor"), [(1.0, NARROWEST), (1.3, NARROWEST), (1.4, 1.2), (1.66, UNCERTAIN), (9.0, UNCERTAIN)]
)
def test_small_gains_are_missed_by_little_and_large_ones_by_a_third(gain: float, factor: float) -> None:
    assert margin(gain) == pytest.approx(factor)


def test_a_band_reaches_further_by_margins_of_its_gain() -> None:
    assert Reach(0.5, 2.0).applied(1.5, 2.0, 3.0) == pytest.approx((1.5 / UNCERTAIN**0.5, 3.0 * UNCERTAIN**2))
    assert Reach().applied(1.5, 2.0, 3.0) == (1.5, 3.0)


def test_of_several_fixes_the_one_that_is_known_least_counts() -> None:
    reaches = {"a": Reach(0.1, 0.7), "b": Reach(0.4, 0.2)}
    assert widest(reaches, ("a", "b", "unknown")) == Reach(0.4, 0.7)
    assert widest(reaches, ("unknown",)) == widest(reaches, ()) == Reach()


def plan(reaches: dict[str, Reach], *, busy_us: float = 300.0) -> Plan:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(1000, 15, busy_us / 15, 60)

    return make_plan(Analysis(steps(6, 2000, body).build()), reaches=reaches)


def test_what_was_missed_elsewhere_widens_the_band_and_nothing_else() -> None:
    usual, wider = plan({}), plan({FIX: Reach(0.5, 0.25), "copy-less": Reach(3.0, 3.0)})
    (before,), (after,) = usual.promises, wider.promises
    assert (after.id, after.expected) == (before.id, before.expected)
    factor = margin(before.expected)
    assert after.low == pytest.approx(before.low / factor**0.5)
    assert after.high == pytest.approx(before.high * factor**0.25)


def test_no_band_reaches_beyond_what_the_gpu_allows() -> None:
    made = plan({FIX: Reach(0.0, 20.0)}, busy_us=870.0)
    promise = made.promises[0]
    assert promise.proposal.fix == FIX
    assert promise.expected < promise.high == pytest.approx(made.most(promise))


def test_one_fix_ticked_alone_has_the_band_of_its_promise() -> None:
    made = plan({FIX: Reach(0.5, 0.25)})
    (promise,) = made.promises
    outcome = made.predict([promise.id])
    assert outcome.before_ns / outcome.most_ns == pytest.approx(promise.low)
    assert outcome.before_ns / outcome.least_ns == pytest.approx(promise.high, rel=0.01)


def test_bands_are_those_that_the_kept_predictions_make(script: ModuleType) -> None:
    found = script.kept()
    made = {fix: script.reach_of(mine) for fix, _, mine in script.by_fix(found)}
    assert made == measured_reaches()
    assert set(made) <= {each.id for each in fixes()}
    counts = {fix: programs for fix, programs, _ in script.by_fix(found)}
    told = json.loads(script.BANDS.read_text("utf-8"))
    assert {fix: each["programs"] for fix, each in told.items()} == counts


def test_more_programs_hold_in_bands_that_were_made_without_them(script: ModuleType) -> None:
    found = script.kept()
    alone = sum(each.holds(Reach()) for each in found)
    held_out = sum(each.holds(script.without(each, found)) for each in found)
    assert held_out >= alone + 5
    assert held_out >= 0.8 * len(found)


def test_eight_of_ten_other_programs_hold_and_hardly_any_gives_less(script: ModuleType) -> None:
    (one, *_) = script.kept()
    fitting = [replace(one, program=f"p{number}", low=1.0, expected=2.0, high=3.0) for number in range(10)]
    fitting = [replace(each, gave_low=2.0, gave_high=2.0) for each in fitting]
    missed = [replace(each, gave_low=3.3, gave_high=3.3) for each in fitting[:2]]
    less = [replace(each, gave_low=0.5, gave_high=0.5) for each in fitting[:2]]
    assert script.reach_of(fitting) == Reach()
    assert script.reach_of(missed + fitting[2:]) == Reach(-0.33, 0.33), (
        "all others would hold in a narrower band"
    )
    edge = [replace(each, gave_low=1.0, gave_high=1.0) for each in fitting[2:5]]
    assert script.reach_of(missed + edge + fitting[5:]) == Reach(0.0, 0.33)
    assert script.reach_of(less + fitting[2:]) == Reach(script.MAX_REACH, -script.MAX_REACH)
    assert script.reach_of(less[:1] + fitting[1:]) == Reach(), "nine of ten hold, which is enough"
    assert script.reach_of(missed * 2) == Reach(), "two programs say nothing, however often they are seen"
    assert asdict(script.reach_of(missed * 5 + fitting[2:])) == {"lower": -0.33, "upper": 0.33}


@pytest.mark.parametrize(("fewer", "lower"), [(9, 0.37), (7, -0.33)])
def test_a_band_moves_down_where_more_than_one_in_twelve_gave_less(
    script: ModuleType, fewer: int, lower: float
) -> None:
    (one, *_) = script.kept()
    gains = [0.9] * fewer + [3.3] * 25 + [2.0] * (75 - fewer)
    found = [
        replace(one, program=f"p{number}", low=1.0, expected=2.0, high=3.0, gave_low=gain, gave_high=gain)
        for number, gain in enumerate(gains)
    ]
    assert script.reach_of(found) == Reach(lower, 0.33)
