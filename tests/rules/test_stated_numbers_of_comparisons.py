"""Numbers by which two recordings are set against each other, and promises are worded, with a case on either side."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from rules.comparison import related as relatives
from rules.comparison.comparable import (
    copy_as_much,
    hold_other_steps,
    look_like_different_programs,
    times_as_long,
)
from rules.findings.base import Finding, severity_of
from rules.fixes.plan import Promise
from rules.fixes.step_time import StepTime
from rules.fixes.told import is_unreported, names_itself
from rules.gates.figures import RunFigures
from rules.verdict.promises import factor, worded, worded_shortly


@pytest.mark.parametrize(
    ("common", "calls", "different"),
    [(9.9, 41, True), (10.1, 41, False), (9.9, 40, False)],
    ids=["neither time nor number", "a tenth of the time", "four times as many"],
)
def test_programs_are_different_that_share_a_tenth_and_launch_four_times_as_many(
    common: float, calls: int, different: bool
) -> None:
    before = {"gemm": (5.0, common), "own": (5.0, 100 - common)}
    after = {"gemm": (calls - 5.0, common), "other": (5.0, 100 - common)}
    assert look_like_different_programs(before, after) is different


def side(copied: float, repetitions: int = 1) -> Any:
    return SimpleNamespace(copied_bytes=copied, repetitions=repetitions, found_by="repetition")


@pytest.mark.parametrize(
    ("before", "after", "alike"),
    [
        (65_536, 65_536, True),
        (65_535, 65_535, False),
        (1_000_000, 981_000, True),
        (1_000_000, 979_000, False),
    ],
)
def test_as_much_is_copied_within_two_percent_of_64_kilobytes_at_least(
    before: int, after: int, alike: bool
) -> None:
    assert copy_as_much(side(before), side(after)) is alike


@pytest.mark.parametrize(("repetitions", "other"), [(126, False), (134, True)])
def test_steps_with_a_quarter_more_or_less_of_the_data_are_other_parts(repetitions: int, other: bool) -> None:
    """Of 100 steps: 20.6 % and 25.4 % less in each."""
    assert hold_other_steps(side(1e6, 100), side(1e6, repetitions)) is other


@pytest.mark.parametrize(
    ("calls", "ns", "told"),
    [
        (100.0, 151.0, True),
        (100.0, 149.0, False),
        (101.9, 300.0, True),
        (103.0, 300.0, False),
        (100.0, 66.0, True),
    ],
)
def test_kernels_launched_as_often_take_half_as_long_again(calls: float, ns: float, told: bool) -> None:
    assert (times_as_long({"gemm": (100.0, 100.0)}, {"gemm": (calls, ns)}) is not None) is told


def contents(
    operators: int = 0, kernels: dict[str, float] | None = None, regions: int = 0, *, apart: int = 0
) -> Any:
    """Of the operators and regions ``apart`` are only here."""
    return SimpleNamespace(
        operators=frozenset((f"op{number}", "") for number in range(apart, operators + apart)),
        kernels=kernels or {},
        regions=frozenset(f"region{number}" for number in range(apart, regions + apart)),
    )


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (contents(10), contents(10, apart=6), True),
        (contents(10), contents(10, apart=7), False),  # three of ten
        (contents(9), contents(9), False),  # fewer tell nothing
        (contents(kernels={"a": 71.0, "b": 29.0}), contents(kernels={"a": 90.0, "c": 10.0}), True),
        (contents(kernels={"a": 69.0, "b": 31.0}), contents(kernels={"a": 90.0, "c": 10.0}), False),
        (contents(regions=4), contents(regions=4, apart=1), True),
        (contents(regions=3), contents(regions=3, apart=1), False),
        (contents(regions=2), contents(regions=2), False),
    ],
)
def test_recordings_are_related_by_operators_kernels_or_regions(
    one: Any, other: Any, alike: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relatives, "refuse_incomparable", lambda *_: None)
    monkeypatch.setattr(relatives, "_contents", lambda trace: trace.held)
    traces = [cast(Any, SimpleNamespace(events=[0], held=each)) for each in (one, other)]
    assert relatives.related(traces[0], traces[1]) is alike


def promise(low: float, expected: float, high: float) -> Promise:
    proposal = cast(Any, SimpleNamespace(redesign=False, depends_on=""))
    return Promise("acme-1", proposal, low, expected, high, 1.0)


@pytest.mark.parametrize(
    ("promised", "said"),
    [
        (promise(1.1, 1.3, 1.97), "about 1.3x faster (1.10 to 2.0x)"),
        (promise(1.1, 1.3, 1.99), "at least 1.10x, possibly up to 2.0x faster, depending on the profiler"),
        (
            promise(1.019, 1.3, 1.99),
            "possibly nothing, possibly up to 2.0x faster, depending on the profiler",
        ),
        (promise(1.021, 1.3, 1.6), "about 1.3x faster (1.02 to 1.6x)"),
        (promise(1.019, 1.3, 1.6), "about 1.3x faster (possibly nothing, up to 1.6x)"),
        (promise(1.0, 1.011, 1.05), "about 1.01x faster (possibly nothing, up to 1.05x)"),
        (promise(1.0, 1.009, 1.05), "hardly faster by itself (up to 1.05x)"),
    ],
)
def test_a_promise_says_its_band_or_what_a_wide_one_depends_on(promised: Promise, said: str) -> None:
    assert worded(promised) == said


@pytest.mark.parametrize(
    ("promised", "said"),
    [
        (promise(1.021, 1.3, 1.99), "1.02x to 2.0x"),
        (promise(1.019, 1.3, 1.99), "up to 2.0x"),
        (promise(1.0, 1.009, 1.05), "hardly faster"),
    ],
)
def test_a_promise_in_a_word(promised: Promise, said: str) -> None:
    assert worded_shortly(promised) == said


@pytest.mark.parametrize(("gain", "said"), [(1.194, "1.19x"), (1.21, "1.2x"), (9.94, "9.9x"), (10.4, "10x")])
def test_a_factor_has_as_many_digits_as_tell(gain: float, said: str) -> None:
    assert factor(gain) == said


@pytest.mark.parametrize(("steps", "kept"), [(500, 500), (501, 500), (2_000, 500)])
def test_of_a_run_500_values_are_kept(steps: int, kept: int) -> None:
    series = np.arange(steps, dtype=np.float64)
    figures = RunFigures((), (), "", series, series, series, series).shortened()
    assert len(figures.step_ns) == len(figures.launches) == kept


@pytest.mark.parametrize(("gain", "told"), [(1.0527, True), (1.0525, False)])
def test_a_fix_that_no_rule_speaks_of_is_told_from_a_twentieth_of_a_step_on(gain: float, told: bool) -> None:
    made = promise(1.0, gain, 1.2)
    made.proposal.categories, made.proposal.problem = (), "A problem"
    assert is_unreported(made, ()) is told
    assert names_itself(made) is told


@pytest.mark.parametrize(("recorder_ns", "told"), [(30.0, True), (29.0, False)])
def test_a_step_without_its_recorder_is_told_from_three_percent_on(recorder_ns: float, told: bool) -> None:
    assert StepTime(0, 1000.0, True, 1000.0, 1000.0 - recorder_ns, {}, {}, {}).is_told is told


@pytest.mark.parametrize(("left", "factor_told"), [(0.00101, True), (0.00099, False)])
def test_a_speed_up_is_told_up_to_a_thousand(left: float, factor_told: bool) -> None:
    found = cast(Any, SimpleNamespace(window_ns=1_000_000, cost=1.0 - left))
    assert (Finding.speedup_at_most.fget(found) is not None) is factor_told  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("share", "severity"), [(0.15, "high"), (0.149, "medium"), (0.049, "low"), (0.0099, "info")]
)
def test_a_finding_is_as_severe_as_its_share(share: float, severity: str) -> None:
    assert severity_of(share * 1000, 1000).value == severity
