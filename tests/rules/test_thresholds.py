"""Thresholds that users may change: how they are written, what a changed one does, and that it is told."""

from __future__ import annotations

import pytest

import resources
from parsers import open_trace
from parsers.model import Progress, Trace
from rules import diagnose, diagnosis_of
from rules.analysis.analysis import Analysis
from rules.analysis.steps.steps import WARM_UP_RATIO
from rules.comparison.compare import compare
from rules.terms import DEFAULTS, MIN_SHARE, Threshold, Thresholds, Unit, known_thresholds
from rules.verdict.verdict import verdict


def made(unit: Unit, default: float, least: float = 0.001, most: float = 1e9) -> Threshold:
    return Threshold("x", "x from", unit, default, least, most, "")


def test_every_declared_threshold_is_sound() -> None:
    known = known_thresholds()
    assert len(known) >= 12
    for each in known:
        assert 0 < each.least < each.default < each.most, each.key
        assert min(len(each.meaning), len(each.source)) > 10, each.key
        assert each.parsed(each.written(each.default)) == pytest.approx(each.default), each.key
        assert each.parsed(each.written(each.most)) == pytest.approx(each.most), each.key


@pytest.mark.parametrize(
    ("unit", "text", "value"),
    [
        (Unit.SHARE, "5 %", 0.05),
        (Unit.SHARE, "0.05", 0.05),
        (Unit.TIMES, "1.5x", 1.5),
        (Unit.TIMES, "2", 2),
        (Unit.TIME, "20 us", 20_000),
        (Unit.BYTES, "2 MB", 2_000_000),
        (Unit.BYTES, "1,000", 1_000),
        (Unit.COUNT, "20", 20),
        (Unit.COUNT, "20 %", None),
        (Unit.SHARE, "5x", None),
        (Unit.SHARE, "-5 %", None),
        (Unit.SHARE, "nan", None),
        (Unit.TIMES, "", None),
        (Unit.TIMES, "2e9", None),
        (Unit.BYTES, "99 GB", None),
    ],
)
def test_values_are_read_as_people_write_them(unit: Unit, text: str, value: float | None) -> None:
    assert made(unit, 1).parsed(text) == (None if value is None else pytest.approx(value))


def test_what_is_out_of_bounds_or_unknown_has_no_effect() -> None:
    chosen = Thresholds({MIN_SHARE.key: 5.0, "unheard-of": 1.0})
    assert chosen[MIN_SHARE] == MIN_SHARE.default
    assert chosen.changed() == ()
    assert Thresholds({MIN_SHARE.key: float("nan")})[MIN_SHARE] == MIN_SHARE.default


@pytest.fixture(scope="session")
def starved() -> Trace:
    """A run whose GPU waits for its data loader, in 95 % of every step."""
    return open_trace([resources.path("samples/dataloader_starved.pt.trace.json.gz")], Progress())


def test_a_changed_threshold_changes_the_findings_and_is_told(starved: Trace) -> None:
    usual = diagnose(starved)
    accused = {finding.rule for finding in usual.findings}
    quiet = next(finding for finding in usual.findings if 0.01 < finding.ceiling_ns / finding.window_ns < 0.4)
    assert usual.thresholds.changed() == ()
    changed = diagnose(starved, thresholds=Thresholds({MIN_SHARE.key: 0.4}))
    assert "waiting-for-data" in {finding.rule for finding in changed.findings}
    assert quiet.rule in changed.quiet
    assert changed.thresholds.changed() == (f"{MIN_SHARE.meaning}: 40.0 % instead of 1.00 %",)
    assert {finding.rule for finding in diagnose(starved).findings} == accused


def test_analyses_by_other_thresholds_stand_beside_each_other(starved: Trace) -> None:
    usual = Analysis(starved, DEFAULTS)
    strict = Analysis(starved, Thresholds({WARM_UP_RATIO.key: 1.05}))
    assert diagnosis_of(strict).thresholds == strict.thresholds
    assert diagnosis_of(usual).thresholds == DEFAULTS
    assert [step.start for step in strict.steps] == [step.start for step in usual.steps]


def test_a_verdict_speaks_for_the_thresholds_of_its_diagnosis(starved: Trace) -> None:
    usual, strict = Analysis(starved), Analysis(starved, Thresholds({MIN_SHARE.key: 0.4}))
    before = verdict(usual, diagnosis_of(usual))
    verdict(strict, diagnosis_of(strict))
    assert verdict(usual, diagnosis_of(usual)) == before
    with pytest.raises(ValueError, match="different thresholds"):
        verdict(usual, diagnosis_of(strict))


def test_two_runs_are_compared_by_the_same_thresholds(starved: Trace) -> None:
    thresholds = Thresholds({MIN_SHARE.key: 0.4})
    result = compare(starved, starved, thresholds)
    assert not result.resolved
