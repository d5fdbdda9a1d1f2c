"""The typical step under some fixes, as the window draws it."""

from __future__ import annotations

import numpy as np
import pytest

from rules.fixes.plan import make_plan
from rules.fixes.simulation import Part, simulate
from tests.rules.test_replay import RECORDINGS, replay


@pytest.mark.parametrize("name", sorted(RECORDINGS))
def test_without_any_fix_the_step_is_what_it_was(name: str) -> None:
    plan = make_plan(replay(name).analysis)
    step = simulate(plan, plan.predict([]))
    assert np.array_equal(step.before.event, step.after.event)
    assert np.array_equal(step.before.start, step.after.start)
    assert step.before.parts == step.after.parts
    assert len(step.recorded.event) == len(step.before.event)


@pytest.mark.parametrize("name", sorted(RECORDINGS))
def test_the_parts_of_a_step_add_up_to_it(name: str) -> None:
    plan = make_plan(replay(name).analysis)
    step = simulate(plan, plan.predict([each.id for each in plan.promises]))
    for timeline in (step.before, step.after):
        assert sum(timeline.parts.values()) == pytest.approx(timeline.length, abs=2)
        assert (timeline.end >= timeline.start).all()
        assert set(timeline.parts) == set(Part)
    assert step.after.length <= step.before.length


def test_operations_of_one_lane_do_not_overlap_when_the_step_is_shorter() -> None:
    plan = make_plan(replay("sync_params").analysis)
    after = simulate(plan, plan.predict([plan.promises[0].id])).after
    for lane in np.unique(after.lane).tolist():
        mine = after.lane == lane
        assert (after.start[mine][1:] >= after.end[mine][:-1] - 1).all()
