"""What is said to be no problem: parts of a step that nothing reports, each with how little it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

import resources
from parsers.model.units import percent
from rules.analysis.idle.causes import Cause
from rules.findings.category import Category
from rules.fixes.plan import plan_of
from rules.verdict.absent import Absent, absent, absent_in_a_line
from tests.opened import analysed, diagnosed

# The cases lie on either side of these.
MAX_SHARE = 0.05
MIN_SHARE = 0.001
MIN_SPEEDUP = 1.01

PYTHON = resources.path("samples/cpu_python.pt.trace.json.gz")


def test_what_a_finding_is_about_is_no_absent_problem_and_the_rest_is_small() -> None:
    analysis, diagnosis = analysed(PYTHON), diagnosed(PYTHON)
    found = absent(analysis, diagnosis)
    assert {"input-bound", "allocator", "copy"} <= {each.key for each in found}
    reported = {about.key for each in diagnosis.findings if hasattr(about := each.category.about, "key")}
    assert "host-bound" in reported
    assert reported.isdisjoint(each.key for each in found)
    time = diagnosis.step_times[0]
    for each in found:
        assert each.share == pytest.approx(time.parts.get(each.key, 0.0) / time.length_ns, abs=0.001)
        assert each.share < MAX_SHARE
    assert [each.share for each in found] == sorted((each.share for each in found), reverse=True)


@pytest.mark.parametrize(("part", "told"), [(MAX_SHARE - 0.001, True), (MAX_SHARE + 0.001, False)])
def test_what_takes_much_is_not_called_no_problem(
    part: float, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    analysis, diagnosis = analysed(PYTHON), diagnosed(PYTHON)
    time = diagnosis.step_times[0]
    assert isinstance(time.parts, dict)
    monkeypatch.setitem(time.parts, "input-bound", part * time.length_ns)
    assert ("input-bound" in {each.key for each in absent(analysis, diagnosis)}) is told


@pytest.mark.parametrize(
    ("share", "said"), [(MIN_SHARE, "waiting 0.1 % of a step"), (0.0009, "waiting below 0.1 % of a step")]
)
def test_the_line_tells_the_small_ones_together(
    share: float, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rules.verdict.absent.absent", lambda *_: (Absent("input-bound", "waiting", share),))
    assert percent(MIN_SHARE) == "0.1 %"
    assert absent_in_a_line(analysed(PYTHON), diagnosed(PYTHON)) == f"No problem here: {said}."


@pytest.mark.parametrize(("gain", "told"), [(MIN_SPEEDUP, False), (MIN_SPEEDUP - 0.001, True)])
def test_what_a_fix_with_a_gain_is_for_is_not_called_no_problem(
    gain: float, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = sorted(resources.path("samples/straggler_four_ranks").iterdir())
    analysis, diagnosis = analysed(*ranks), diagnosed(*ranks)
    plan = plan_of(analysis)
    fixes = [each for each in plan.promises if Category.SYNCHRONIZATION in each.proposal.categories]
    assert fixes
    promises = tuple(replace(each, low=gain, expected=gain, high=gain) for each in fixes)
    monkeypatch.setattr(plan_of, "kept", lambda _: replace(plan, promises=promises))
    keys = {each.key for each in absent(analysis, diagnosis)}
    assert (Cause.SYNCHRONIZATION.key in keys) is told
    assert Cause.INPUT.key in keys
