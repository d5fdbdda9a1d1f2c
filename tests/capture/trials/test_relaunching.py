"""A script that ends before everything is tried is launched again, and its whole rounds are joined."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rules.trials.trial import Trials, Verdict
from tests.capture.pretend import script_request
from tests.capture.trials.pretended import PretendedProcess
from tests.capture.trials.test_trying import ended
from viewer.capture.torch_runner.stallscope_recorder.trials.driver import Driver, Limits
from viewer.capture.torch_runner.stallscope_recorder.trials.recorder import LOOK
from viewer.capture.torch_runner.stallscope_recorder.trials.recorder import Order as Read
from viewer.capture.torch_runner.stallscope_recorder.trials.schedule import CONTROL, Candidate, Names
from viewer.capture.trials import relaunching
from viewer.capture.trials.account import account_of
from viewer.capture.trials.launch import SKIP, Launched, Launcher, Order
from viewer.capture.trials.relaunching import MIN_SCRIPT, Plan, plan_of
from viewer.capture.trials.trying import Trying, Wish

GAINS = {"tf32": 1.5, "gc-freeze": 1.0, "threads": 1.25}


class ShortScript:
    """Launches that drive the recorder's own blocks by a clock of their own, for so many ``steps`` each."""

    def __init__(self, steps: int, settle: int = 2, folder: Path = Path()) -> None:
        self.steps = steps
        self.settle = settle
        self.folder = folder
        self.orders: list[Order] = []

    def launch(self, launcher: Launcher, order: Order) -> Launched:
        self.orders.append(order)
        read = Read(order.text)
        level = 0.1 * (1 + 0.2 * (len(self.orders) % 3))

        def step_time(changes: Names, step: int) -> float:
            taken = level * (1 + 0.01 * ((step * 7919 + len(self.orders) * 31) % 101 / 100 - 0.5))
            for each in changes:
                taken /= GAINS[each]
            return taken

        process = PretendedProcess(step_time, settle=self.settle)
        candidates = [Candidate(each["name"], each["weight"]) for each in read.candidates]
        limits = Limits(read.seconds, read.skip, read.rounds, read.steps, read.known)
        lines: list[dict[str, Any]] = [{"kind": "program", "trains": False}]
        driver = Driver(process, candidates, limits, lines.append)
        for _ in range(self.steps - LOOK + 1):
            if driver.over:
                break
            driver.boundary()
            process.clock += step_time(process.made, process.step)
            process.step += 1
        driver.finish("stopped")
        return Launched(account_of([self._written(lines)]), ended())

    def _written(self, lines: list[dict[str, Any]]) -> Path:
        import json

        path = self.folder / f"{len(self.orders)}.trial.jsonl"
        path.write_text("\n".join(json.dumps(each) for each in lines))
        return path


def tried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: ShortScript) -> Trials:
    script.folder = tmp_path
    monkeypatch.setattr(Launcher, "launch", lambda launcher, order: script.launch(launcher, order))
    wish = Wish(script_request("training.py", tmp_path), tuple(GAINS), seconds=1e4)
    return Trying(wish, tmp_path).run()


@pytest.mark.parametrize("steps", [MIN_SCRIPT, 40, 80, 150])
def test_a_short_script_is_launched_until_everything_is_tried(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, steps: int
) -> None:
    script = ShortScript(steps)
    trials = tried(monkeypatch, tmp_path, script)
    found = {each.candidate.switch: each for each in trials.trials}
    assert {name: found[name].verdict for name in GAINS} == {
        "tf32": Verdict.PROVED,
        "gc-freeze": Verdict.NO_DIFFERENCE,
        "threads": Verdict.PROVED,
    }
    for name in GAINS:
        gain = found[name].gain
        assert gain is not None
        assert gain.value == pytest.approx(GAINS[name], rel=0.02), "launches at other speeds do not blur it"
        assert found[name].blocks % 4 == 0, "rounds that the end cut short count for nothing"
    assert (trials.ended, trials.problem, trials.restless) == ("complete", "", False)
    assert len(script.orders) > 1
    assert all(each.known for each in script.orders[2:])


def test_one_step_less_than_a_round_needs_is_said_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = ShortScript(MIN_SCRIPT - 1)
    trials = tried(monkeypatch, tmp_path, script)
    assert len(script.orders) == 1
    assert trials.problem == (
        f"The script runs only {MIN_SCRIPT - 1} steps, too few to time a change. Let it run at least {MIN_SCRIPT}."
    )


def test_give_up_a_change_that_settles_for_longer_than_the_script_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settling = PretendedProcess.settle
    monkeypatch.setattr(
        PretendedProcess,
        "settle",
        lambda process, changes: 60 if "tf32" in changes else settling(process, changes),
    )
    trials = tried(monkeypatch, tmp_path, ShortScript(80))
    found = {each.candidate.switch: each.verdict for each in trials.trials}
    assert found["tf32"] is Verdict.NOT_REACHED
    assert found["threads"] is Verdict.PROVED


@pytest.mark.parametrize(
    ("seen", "step_s", "plan"),
    [
        (20, 1.0, None),
        (21, 1.0, Plan(2, 1)),
        (75, 1.0, Plan(2, 3)),
        (75, 0.025, Plan(4, 3)),
        (75, 0.001, Plan(13, 3)),
        (5000, 0.05, Plan(2, SKIP)),
    ],
)
def test_blocks_fill_the_steps_of_the_script(seen: int, step_s: float, plan: Plan | None) -> None:
    found = plan_of(seen, step_s * 1e9)
    if plan is None:
        assert found is None
        return
    assert found is not None
    assert found.skip == plan.skip
    round_steps = 4 * found.steps + relaunching.QUICK_SETTLING
    assert round_steps <= seen - found.skip - relaunching.WARM_STEPS
    assert found.steps >= plan.steps


def test_the_control_is_not_timed_again_in_a_later_launch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = ShortScript(80)
    trials = tried(monkeypatch, tmp_path, script)
    assert trials.control is not None
    assert trials.control.blocks == 4 * 3
    assert {each.candidate for each in script.orders[-1].known} >= {CONTROL}
