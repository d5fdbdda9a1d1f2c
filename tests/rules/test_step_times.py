"""Where the time of a step goes: as the mean one, as a typical one was recorded, and without the profiler."""

from __future__ import annotations

import pytest

import resources
from rules.fixes import step_time
from rules.fixes.removal import Removal
from rules.fixes.step_time import _step_time
from rules.replay.replay import Replay, replay_of
from tests.opened import analysed


def test_slow_steps_make_the_cpu_slower_and_leave_the_gpus_own_work_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    analysis = analysed(resources.path("samples/sync_item.pt.trace.json.gz"))
    mean_ns, usual_ns = replay_of(analysis).mean_ns, replay_of(analysis).usual_ns
    monkeypatch.setattr(Replay, "is_mean", False)
    replay = replay_of(analysis)
    monkeypatch.setitem(replay.__dict__, "recorded_ns", (mean_ns + usual_ns) / 2)
    device = analysis.active_devices[0]
    edges = Removal(replay, replay.recorded, replay.typical), Removal(replay, replay.typical, replay.usual)
    time = _step_time(analysis, analysis.budgets(device), *edges, 0)
    assert sum(time.mean.values()) == pytest.approx(mean_ns)
    assert sum(time.recorded.values()) == pytest.approx((mean_ns + usual_ns) / 2)
    assert time.recorded["compute"] == pytest.approx(time.mean["compute"])
    assert time.parts["compute"] == pytest.approx(time.mean["compute"])
    assert time.recorded["launch-bound"] < time.mean["launch-bound"]
    share = time.mean["compute"] / mean_ns
    assert share * time.scale("compute") * time.length_ns == pytest.approx(time.parts["compute"])


@pytest.mark.parametrize(
    ("usual", "left", "stays"),
    [(1.05, 0.2, True), (1.01, 0.2, True), (0.9, 0.2, False), (1.02, 0.0255, True), (1.02, 0.024, False)],
    ids=["longer", "as long", "kernels overlap more", "a quarter too long", "by less it may be as long"],
)
def test_the_gpu_s_own_work_stays_as_long_as_it_is_unless_kernels_overlap_more(
    usual: float, left: float, stays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waits take eleven times as long as the work, and the least of them that is left makes the step too long."""
    monkeypatch.setattr(step_time, "MIN_LEFT", left)
    analysis = analysed(resources.path("samples/sync_item.pt.trace.json.gz"))
    replay, device = replay_of(analysis), analysis.active_devices[0]
    edges = Removal(replay, replay.recorded, replay.typical), Removal(replay, replay.typical, replay.usual)
    budget = analysis.budgets(device)
    factor = replay.mean_ns / budget.window_ns
    work_ns = (budget.window_ns - sum(budget.idle_ns.values())) * factor
    monkeypatch.setitem(replay.__dict__, "usual_ns", usual * work_ns)
    time = _step_time(analysis, budget, *edges, 0)
    assert sum(time.parts.values()) == pytest.approx(usual * work_ns)
    assert (time.parts["compute"] == pytest.approx(time.mean["compute"])) is stays
