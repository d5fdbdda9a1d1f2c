"""Where the time of a step goes: as the mean one, as a typical one was recorded, and without the profiler."""

from __future__ import annotations

import pytest

import resources
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
