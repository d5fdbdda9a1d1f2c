"""What is said of changes that stand behind others that give less."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rules.fixes.changes import together
from tests.opened import planned
from viewer.reports.fixes_report import why_not_first


@pytest.mark.parametrize(
    ("gain", "broad", "unsure", "said"),
    [
        (1.53, False, True, "It may give more than those above, but how much is less certain."),
        (1.52, False, True, ""),
        (1.53, True, True, "It may give more than those above, but changes much of the program."),
        (1.53, False, False, ""),
    ],
    ids=["more, less surely", "hardly more", "much is changed", "as sure as the first"],
)
def test_what_may_give_more_than_the_first_change_says_why_it_stands_behind_it(
    fixtures: Path, gain: float, broad: bool, unsure: bool, said: str
) -> None:
    plan = planned(fixtures / "causes" / "weights.pt.trace.json.gz")
    first = replace(plan.promises[0], expected=1.5)
    proposal = replace(first.proposal, broad=broad, redesign=False, low=together() if unsure else None)
    second = replace(first, expected=gain, proposal=proposal)
    assert why_not_first(replace(plan, promises=(first, second)), 1) == said
    assert why_not_first(replace(plan, promises=(second, first)), 0) == ""
