"""Findings that fixes tell themselves: what no rule reports, and problems that they know a better name for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.causes import in_order
from rules.findings.base import Category
from rules.fixes.plan import Plan
from rules.replay.replay import replay_of
from tests.rules.test_causes import before_launches, busy_in_python, finding, promise, told

# The cases lie on either side of these.
MIN_UNREPORTED_GAIN = 0.05

analysis = busy_in_python


@pytest.mark.parametrize(("gain", "has_one"), [(1 / (1 - MIN_UNREPORTED_GAIN - 0.001), True), (1.04, False)])
def test_a_fix_that_no_rule_speaks_of_has_a_finding_where_it_is_worth_one(
    analysis: Analysis, gain: float, has_one: bool
) -> None:
    found = told(analysis, [], promise(1, gain, Category.ALLOCATOR))
    assert found == ([("allocator", "change-1", True)] if has_one else [])


@pytest.mark.parametrize(("gain", "named"), [(1 / (1 - MIN_UNREPORTED_GAIN - 0.001), True), (1.04, False)])
def test_a_fix_with_a_name_for_its_problem_is_told_by_it(
    analysis: Analysis, gain: float, named: bool
) -> None:
    """What it takes away besides stands behind it; what it takes a small part of is left to others."""
    change = before_launches(replay_of(analysis), 405, 900)
    made = promise(1, gain, Category.SLOW_OPERATOR, Category.LAUNCH_BOUND, change=change)
    made = replace(made, proposal=replace(made.proposal, problem="It is done twice"))
    launching = finding(Category.LAUNCH_BOUND, 0.4, (410, 890))
    python = finding(Category.HOST_BOUND, 0.3, (5, 400))
    found = in_order(analysis, Plan(replay_of(analysis), (made,)), [launching, python]).findings
    told = {each.title: (each.fix, each.leads) for each in found}
    name = f"It is done twice: {percent(1 - 1 / gain)} of every step"
    assert told.get(name) == (("change-1", True) if named else None)
    assert {each.headline.names_culprit for each in found if each.title == name} <= {True}
    (of_launches,) = (each for each in found if each.category is Category.LAUNCH_BOUND)
    assert (of_launches.fix, of_launches.leads) == ("change-1", not named)
    assert not next(each for each in found if each.category is Category.HOST_BOUND).fix
