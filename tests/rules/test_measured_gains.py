"""Beside a prediction stands how the same fix did in programs that nothing was fitted on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rules.findings.base import Category
from rules.fixes.base import Proposal, fixes
from rules.fixes.plan import Promise
from rules.remedies.remedy import Remedy
from rules.verdict.promises import measured_gains, usually

ROW = re.compile(r"\| ([a-z-]+) \| (\d+) \| ([\d.]+) to ([\d.]+) \|")
MIN_PROGRAMS = 5


def promise(fix: str, *, redesign: bool = False) -> Promise:
    proposal = Proposal(
        "Change it", (Category.HOST_BOUND,), Remedy(), lambda _: None, fix=fix, redesign=redesign
    )
    return Promise(f"{fix}-1", proposal, 1.7, 2.0, 2.3, 2.0)


def test_what_stands_beside_predictions_is_the_published_table(repository: Path) -> None:
    page = (repository / "docs" / "predictions.md").read_text("utf-8")
    table = page.partition("#### Programs that no constant was fitted on")[2].partition("####")[0]
    rows = {fix: (int(count), float(low), float(high)) for fix, count, low, high in ROW.findall(table)}
    assert {fix: (each.programs, each.low, each.high) for fix, each in measured_gains().items()} == rows
    assert set(rows) <= {each.id for each in fixes()}
    assert all(count >= MIN_PROGRAMS and low < high for count, low, high in rows.values())


@pytest.mark.parametrize("redesign", [False, True])
def test_a_prediction_says_how_the_fix_did_elsewhere(redesign: bool) -> None:
    fix, known = next(iter(measured_gains().items()))
    said = usually(promise(fix, redesign=redesign))
    assert (f"In {known.programs} programs that nothing was fitted on" in said) is not redesign


def test_of_too_few_programs_nothing_is_said() -> None:
    (unknown, *_) = sorted({each.id for each in fixes()} - set(measured_gains()))
    assert usually(promise(unknown)) == ""
