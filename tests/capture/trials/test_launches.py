"""Changes are made in unmodified scripts with the CPU build of torch, seen by the script, and taken back."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.capture.pretend import SCRIPTS, script_request
from viewer.capture.request import CaptureRequest, Target, TargetKind
from viewer.capture.trials.launch import Launched, Launcher, Order

SCRIPT = "trial_state.py"


class Runs:
    """Launches of a sample script, and what the script noted down."""

    def __init__(self, folder: Path, python: str) -> None:
        self.folder = folder
        self.log = folder / "log"
        self.python = python
        self.lines: list[dict[str, Any]] = []

    def request(self, script: str = SCRIPT, **environment: str) -> CaptureRequest:
        settings = {"LOG": str(self.log), "OMP_NUM_THREADS": "1", **environment}
        return script_request(script, self.folder / "out", python=self.python, **settings)

    def launch(self, order: Order, **environment: str) -> Launched:
        launcher = Launcher(
            self.request(**environment),
            self.folder,
            lambda line: self.lines.append(dict(line)),
            lambda text: None,
        )
        return launcher.launch(order)

    def states(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@pytest.fixture
def runs(tmp_path: Path, torch_python: str) -> Runs:
    return Runs(tmp_path, torch_python)


def order(*names: str, **more: Any) -> Order:
    settings = {"seconds": 600.0, "rounds": 1, "steps": 2, "skip": 2, **more}
    return Order(tuple((name, 1.0) for name in names), **settings)


def blocks(launched: Launched, name: str) -> str:
    return "".join("AB"[each.changed] for each in launched.account.blocks if each.candidate == name)


def test_switches_are_seen_by_the_script_and_put_back(runs: Runs) -> None:
    names = ("threads", "foreach-optimizer", "fused-optimizer", "gc-freeze", "set-to-none", "autocast-bf16")
    launched = runs.launch(order(*names))
    assert (launched.account.ended, launched.error) == ("complete", "")
    assert {name: blocks(launched, name)[:4] for name in names if name not in launched.account.against} == {
        name: "ABBA" for name in names if name not in launched.account.against
    }
    states = runs.states()
    first, last = states[0], states[-1]
    seen = {key: {str(each.get(key)) for each in states[:-1]} for key in first}
    assert seen["foreach"] == {"False", "True"}
    assert seen["fused"] == {"None", "False", "True"}
    assert (
        seen["collects"] == seen["zeroed"] == seen["autocast"] == {"True", "False"} or "set-to-none" in names
    )
    assert seen["collects"] == seen["autocast"] == {"True", "False"}
    if "threads" not in launched.account.against:
        assert len(seen["threads"]) == 2
    assert last["end"]
    for key in ("threads", "foreach", "fused", "collects", "compiled"):
        assert last[key] == first[key], key


@pytest.mark.thorough
def test_collections_that_the_script_starts_itself_are_left_out_as_well(runs: Runs) -> None:
    launched = runs.launch(order("gc-freeze"), COLLECTS="1")
    assert launched.account.ended == "complete"
    assert blocks(launched, "gc-freeze")[:4] == "ABBA"
    steps = [each for each in runs.states() if "found" in each and "end" not in each]
    assert {each["found"] > 0 for each in steps if each["collects"]} == {True}
    assert {each["found"] for each in steps if not each["collects"]} == {0}


@pytest.mark.thorough
def test_ceilings_take_away_and_give_back(runs: Runs) -> None:
    launched = runs.launch(
        order("same-batch", "no-read-backs", "no-optimizer", "no-evaluation", "no-logging")
    )
    assert launched.account.ended == "complete"
    assert launched.account.against.keys() == {"no-evaluation", "no-logging"}
    assert blocks(launched, "same-batch")[:4] == blocks(launched, "no-read-backs")[:4] == "ABBA"
    states = runs.states()
    batches = [each["batch"] for each in states[:-1]]
    assert any(one == other for one, other in pairwise(batches))
    values = [(each["value"], each["plain"]) for each in states[:-1]]
    answered = {value for value, plain in values if not plain}
    assert len(answered) < sum(not plain for _, plain in values), (
        "read-backs are answered from the last value"
    )
    assert {each["step_is_own"] for each in states[:-1]} == {True, False}
    assert (states[-1]["plain"], states[-1]["step_is_own"]) == (True, True)
    weights = [each["weight"] for each in states[1:-1] if not each["step_is_own"]]
    assert any(one == other for one, other in pairwise(weights)), "nothing is updated"


@pytest.mark.thorough
def test_a_model_is_compiled_and_called_as_it_was_again(runs: Runs) -> None:
    launched = runs.launch(order("compile", "no-such-change"))
    assert blocks(launched, "compile")[:4] == "ABBA" or launched.account.refused["compile"]
    assert launched.account.ended == "complete"
    states = runs.states()
    assert {each["compiled"] for each in states[:-1]} == {True, False}
    assert states[-1]["compiled"] is False


@pytest.mark.thorough
def test_a_change_that_fails_is_told_by_its_first_line_and_the_run_goes_on_with_batches_of_any_size(
    runs: Runs,
) -> None:
    launched = runs.launch(order("autocast-bf16", "foreach-optimizer"), FAILS_WITH="autocast", GROWS="1")
    assert launched.account.refused == {"autocast-bf16": "RuntimeError: no kernel for BFloat16"}
    assert blocks(launched, "foreach-optimizer")[:4] == "ABBA"
    assert (launched.account.ended, launched.error) == ("complete", "")
    assert runs.states()[-1]["foreach"] is False
    sizes = {each.elements / each.steps for each in launched.account.blocks}
    assert len(sizes) > 1, "they are counted"
    assert min(sizes) >= 8


@pytest.mark.thorough
def test_a_change_that_brings_the_script_down_is_named_and_put_back(runs: Runs) -> None:
    launched = runs.launch(order("threads", "foreach-optimizer"), FAILS_WITH="threads")
    if "threads" in launched.account.against:
        pytest.skip("one core: there is no other number of threads")
    assert launched.account.ended == "failed"
    assert launched.account.refused == {"threads": "ValueError: another number of threads"}
    assert launched.error == "ValueError: another number of threads"
    assert blocks(launched, "control")[:4] == "ABBA"


@pytest.mark.thorough
def test_a_change_that_the_script_sets_back_is_not_told_to_make_no_difference(runs: Runs) -> None:
    launched = runs.launch(order("threads", "foreach-optimizer"), SETS_THREADS="1")
    if "threads" in launched.account.against:
        pytest.skip("one core: there is no other number of threads")
    assert launched.account.refused == {"threads": "the script sets it back while it runs"}
    assert blocks(launched, "foreach-optimizer")[:4] == "ABBA"
    assert (launched.account.ended, launched.error) == ("complete", "")


@pytest.mark.thorough
def test_starts_are_made_before_the_script_makes_its_objects(runs: Runs) -> None:
    launched = runs.launch(order(starts=("num-workers", "omp-num-threads"), losses=3, seed=True))
    assert launched.account.ended == "complete"
    states = runs.states()
    assert {each["workers"] > 0 for each in states} == {True}
    assert len(launched.account.losses) == 3


@pytest.mark.thorough
def test_the_same_seeds_give_the_same_losses_and_what_is_always_on_is_on_from_the_first_step(
    runs: Runs,
) -> None:
    measuring = runs.launch(order("foreach-optimizer", "autocast-bf16", losses=12, seed=True))
    unchanged = measuring.account.losses
    launches = [
        runs.launch(order(rounds=0, losses=12, seed=True, changes=each))
        for each in ((), (), ("autocast-bf16",))
    ]
    first, second, other = (each.account.losses for each in launches)
    assert len(unchanged) >= 10
    assert unchanged == first[: len(unchanged)], "it begins as the unchanged program does"
    assert len(first) == 12
    assert first == second
    assert first != other
    assert runs.states()[5]["autocast"] is True


def test_a_step_that_nobody_times_costs_few_calls_however_many_modules_there_are(runs: Runs) -> None:
    request = runs.request("trial_calls.py", BLOCKS="20")
    Launcher(request, runs.folder, runs.lines.append, print).launch(order(skip=1000))
    (state,) = runs.states()
    assert 0 < state["called"] <= 60
    assert state["watched"] == ["Net", "ReLU", "Sequential", "GRU"], (
        "parts are not; what was called by itself is"
    )


@pytest.mark.thorough
def test_a_script_that_ends_by_itself_leaves_what_is_known(runs: Runs) -> None:
    launched = runs.launch(order("foreach-optimizer"), STEPS="30", EXIT_CODE="3")
    assert launched.account.ended == "stopped"
    assert blocks(launched, "control")[:4] == "ABBA"
    assert launched.outcome is not None
    assert launched.outcome.exit_code == 3
    assert runs.states()[-1]["foreach"] is False


@pytest.mark.thorough
def test_a_script_of_too_few_steps_is_told_so(runs: Runs) -> None:
    launched = runs.launch(order("foreach-optimizer"), STEPS="3")
    assert launched.account.blocks == ()
    assert "the script ended after 3 steps" in launched.error


@pytest.mark.thorough
def test_two_ranks_change_at_the_same_step(runs: Runs, tmp_path: Path) -> None:
    script = script_request("trial_ranks.py", tmp_path).target.program
    launcher = (runs.python, str(SCRIPTS / "two_ranks.py"))
    target = Target(
        TargetKind.SCRIPT,
        script,
        launcher=launcher,
        environment={"LOG": str(runs.log), "OMP_NUM_THREADS": "1"},
    )
    trial = Launcher(
        CaptureRequest(target=target), tmp_path, lambda line: runs.lines.append(dict(line)), lambda text: None
    )
    launched = trial.launch(order("no-sync", "no-collectives", "foreach-optimizer", "inference-mode"))
    assert (launched.account.ended, launched.error) == ("complete", "")
    assert launched.account.against == {"inference-mode": "the program is training"}
    assert launched.account.program["ranks"] == 2
    for name in ("no-sync", "no-collectives", "foreach-optimizer"):
        assert blocks(launched, name)[:4] == "ABBA"
    logs = [
        [json.loads(line) for line in Path(f"{runs.log}.{rank}").read_text().splitlines()] for rank in (0, 1)
    ]
    shared = min(map(len, logs))
    assert logs[0][:shared] == logs[1][:shared], "both ranks are set alike in every step"
    assert {tuple(each["syncs"]) for each in logs[0]} == {(True, True), (False, True), (False, False)}
