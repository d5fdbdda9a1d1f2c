"""The typical step under some fixes, as the window draws it."""

from __future__ import annotations

import numpy as np
import pytest

from rules.analysis.analysis import Analysis
from rules.analysis.idle.causes import Cause
from rules.fixes.plan import make_plan, plan_of
from rules.fixes.simulation import Part, simulate
from tests.rules.builder import TinyTrace, steps
from tests.rules.test_replay import RECORDINGS, replay


@pytest.mark.parametrize("name", sorted(RECORDINGS))
def test_without_any_fix_the_step_is_what_it_was(name: str) -> None:
    plan = plan_of(replay(name).analysis)
    step = simulate(plan, plan.predict([]))
    assert np.array_equal(step.before.event, step.after.event)
    assert np.array_equal(step.before.start, step.after.start)
    assert step.before.parts == step.after.parts
    assert len(step.recorded.event) == len(step.before.event)


@pytest.mark.parametrize("name", sorted(RECORDINGS))
def test_the_parts_of_a_step_add_up_to_it(name: str) -> None:
    plan = plan_of(replay(name).analysis)
    step = simulate(plan, plan.predict([each.id for each in plan.promises]))
    for timeline in (step.before, step.after):
        assert sum(timeline.parts.values()) == pytest.approx(timeline.length, abs=2)
        assert (timeline.end >= timeline.start).all()
        assert set(timeline.parts) == set(Part)
        assert sum(timeline.idle.values()) == pytest.approx(timeline.parts[Part.IDLE], abs=2)
    assert step.after.length <= step.before.length


def test_operations_of_one_lane_do_not_overlap_when_the_step_is_shorter() -> None:
    plan = plan_of(replay("sync_params").analysis)
    after = simulate(plan, plan.predict([plan.promises[0].id])).after
    for lane in np.unique(after.lane).tolist():
        mine = after.lane == lane
        assert (after.start[mine][1:] >= after.end[mine][:-1] - 1).all()


def test_a_step_waits_for_what_is_left_when_its_first_problem_is_mended() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.op(0, 1, "aten::mm")
        trace.kernels(700, 20, 5, 40)

    plan = make_plan(Analysis(steps(6, 1500, body).build()))
    moved = next(each.id for each in plan.promises if each.proposal.fix == "move-host-phase")
    step = simulate(plan, plan.predict([moved]))
    assert step.before.idle[Cause.HOST] == pytest.approx(700_000, rel=0.1)
    assert step.after.idle.get(Cause.HOST, 0) < 20_000
    assert step.after.idle[Cause.LAUNCH] == pytest.approx(step.before.idle[Cause.LAUNCH], rel=0.1)
