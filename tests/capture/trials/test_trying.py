"""A whole trial: what is launched, in which order, and what is said when a program does not play along."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rules.fixes.base import Proposal
from rules.fixes.plan import Promise
from rules.remedies.remedy import Remedy
from rules.trials.blocks import Block
from rules.trials.likeness import Likeness
from rules.trials.trial import Kind, Promised, Trials, Verdict
from tests.capture.pretend import script_request
from tests.capture.trials.pretended import line_of
from viewer.capture.recording import Outcome
from viewer.capture.request import CaptureProblem, CaptureRequest
from viewer.capture.trials import trying
from viewer.capture.trials.account import Account
from viewer.capture.trials.choice import candidate_named, choice_of, starts_after
from viewer.capture.trials.launch import Launched, Launcher, Order
from viewer.capture.trials.trying import Progress, Trying, Wish

LOSSES = tuple(2.0 - 0.05 * step for step in range(20))
CURVES = {"": LOSSES, "tf32": tuple(each + 1e-4 for each in LOSSES)}


def blocks(candidate: str, gain: float, changes: tuple[str, ...] = (), seed: int = 1) -> list[Block]:
    random = np.random.default_rng(seed)
    return [
        Block(candidate, changed, 8, 8e7 / (gain if changed else 1.0) * random.normal(1.0, 0.003), 800.0)
        if not changes
        else Block(
            candidate,
            changed,
            8,
            8e7 / (gain if changed else 1.0) * random.normal(1.0, 0.003),
            changes=changes if changed else (),
        )
        for changed in (False, True) * 6
    ]


def ended(**more: Any) -> Outcome:
    return replace(Outcome((Path("x"),), 0, 1.0, Path("log")), **more)


class Pretended:
    """Launches that give what a test says, and remember what was ordered."""

    def __init__(self, answer: Callable[[Order], Launched]) -> None:
        self.orders: list[Order] = []
        self.clock = 0.0
        self._answer = answer

    def install(self, monkeypatch: pytest.MonkeyPatch) -> Pretended:
        def launch(launcher: Launcher, order: Order) -> Launched:
            self.orders.append(order)
            launched = self._answer(order)
            assert launched.outcome is not None
            launcher.seconds = launched.outcome.elapsed_s
            self.clock += launcher.seconds
            return launched

        monkeypatch.setattr(Launcher, "launch", launch)
        monkeypatch.setattr(trying.time, "monotonic", lambda: self.clock)
        return self


def usual(gains: dict[str, float], together: float = 0.0, **more: Any) -> Callable[[Order], Launched]:
    """A program with these gains."""

    def answer(order: Order) -> Launched:
        if order.rounds == 0 or (order.losses and not order.compares):
            gain = np.prod([gains.get(each, 1.0) for each in (*order.starts, *order.changes)])
            losses = CURVES.get("tf32" if "tf32" in order.changes else "", LOSSES)
            made = blocks("control", 1.0) if order.rounds else []
            made = [replace(each, ns=each.ns / float(gain)) for each in made]
            return Launched(Account(tuple(made), ended="complete", losses=losses), ended())
        found = blocks("control", gains.get("control", 1.0))
        for number, (name, _) in enumerate(order.candidates):
            found += blocks(name, gains.get(name, 1.0), seed=number + 2)
        won = tuple(
            name
            for name, _ in order.candidates
            if gains.get(name, 1.0) > 1.05 and not name.startswith(("no-", "same"))
        )
        if together:
            found += blocks("together", together, won)
        account = Account(
            tuple(found), ended="complete", together=won, steps=8, program={"trains": True}, losses=LOSSES
        )
        return Launched(replace(account, **more), ended())

    return answer


def lasting(answer: Callable[[Order], Launched], seconds: float) -> Callable[[Order], Launched]:
    """The same, where each launch takes so long."""

    def slower(order: Order) -> Launched:
        launched = answer(order)
        assert launched.outcome is not None
        return replace(launched, outcome=replace(launched.outcome, elapsed_s=seconds))

    return slower


def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Callable[[Order], Launched], *fixes: str
) -> tuple[Trials, list[Order], list[Progress]]:
    pretended = Pretended(answer).install(monkeypatch)
    progress: list[Progress] = []
    wish = Wish(script_request("training.py", tmp_path), fixes, blocks=6, seconds=60.0)
    return Trying(wish, tmp_path, on_progress=progress.append).run(), pretended.orders, progress


def by_switch(trials: Trials) -> dict[str, Verdict]:
    return {each.candidate.switch: each.verdict for each in trials.trials}


def test_winners_are_held_against_two_runs_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = usual({"tf32": 2.0, "fused-optimizer": 1.2}, together=2.4)
    trials, orders, _ = run(tmp_path, monkeypatch, answer, "tf32", "fused-optimizer", "gc-freeze")
    assert by_switch(trials) == {
        "tf32": Verdict.PROVED,
        "fused-optimizer": Verdict.PROVED,
        "gc-freeze": Verdict.NO_DIFFERENCE,
        "together": Verdict.PROVED,
    }
    likeness = {each.candidate.switch: each.loss.likeness for each in trials.trials if each.loss is not None}
    assert likeness == {
        "tf32": Likeness.DIFFERS,
        "fused-optimizer": Likeness.BIT_EQUAL,
        "together": Likeness.DIFFERS,
    }
    ordered = [each.changes for each in orders[1:]]
    assert ordered == [(), ("tf32", "fused-optimizer"), ("tf32",), ("fused-optimizer",)], (
        "the launch that measures begins unchanged, and is the first of two runs"
    )
    assert all(each.seed and each.losses for each in orders)
    assert trials.best is trials.together


def test_a_change_that_got_more_rounds_is_told_once_and_not_left_as_being_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("control", "gc-freeze", "threads", "gc-freeze", "threads")

    def launch(launcher: Launcher, order: Order) -> Launched:
        rounds = [replace(each, candidate=name) for name in names for each in blocks("x", 1.0)]
        for each in rounds:
            launcher._on_line(line_of(each))
        return Launched(Account(tuple(rounds), ended="complete", steps=8), ended())

    monkeypatch.setattr(Launcher, "launch", launch)
    progress: list[Progress] = []
    wish = Wish(script_request("training.py", tmp_path), ("gc-freeze", "threads"), blocks=6, seconds=60.0)
    Trying(wish, tmp_path, on_progress=progress.append).run()
    told = [each.trial.candidate.switch for each in progress if each.trial is not None]
    assert told == ["control", "gc-freeze", "threads"]
    last = {known.candidate.switch: each for each in progress if (known := each.trial or each.so_far)}
    assert {name: each.block for name, each in last.items()} == dict.fromkeys(told, 0)
    assert last["gc-freeze"].so_far is not None
    assert last["gc-freeze"].so_far.blocks == 2 * len(blocks("x", 1.0))
    assert all(0 < each.seconds_left <= 60.0 for each in progress)


def test_starts_alternate_with_launches_without_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = usual({"num-workers": 1.5})
    trials, orders, _ = run(tmp_path, monkeypatch, answer, "num-workers")
    assert [each.starts for each in orders[1:]] == [(), ("num-workers",), ("num-workers",), ()]
    (trial,) = trials.trials
    assert (trial.candidate.kind, trial.verdict) == (Kind.START, Verdict.PROVED)
    assert trial.loss is not None
    assert trial.loss.likeness is Likeness.BIT_EQUAL


def test_blocks_of_launches_with_a_setting_are_not_told_as_those_of_the_control(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = usual({"num-workers": 1.5})

    def launch(launcher: Launcher, order: Order) -> Launched:
        launched = answer(order)
        for each in launched.account.blocks:
            launcher._on_line(line_of(each))
        return launched

    monkeypatch.setattr(Launcher, "launch", launch)
    progress: list[Progress] = []
    wish = Wish(script_request("training.py", tmp_path), ("num-workers",), blocks=6, seconds=60.0)
    trials = Trying(wish, tmp_path, on_progress=progress.append).run()
    assert by_switch(trials) == {"num-workers": Verdict.PROVED}
    of_control = [
        each
        for each in progress
        if (known := each.trial or each.so_far) and known.candidate.switch == "control"
    ]
    assert max(each.block for each in of_control) == len(blocks("control", 1.0))
    assert [each.trial is not None for each in of_control].count(True) == 1


@pytest.mark.parametrize(("seconds", "each"), [(6.6, (60 - 6.6) / 4), (59.0, 1.0)])
def test_each_launch_of_a_start_has_its_part_of_the_time_that_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, each: float
) -> None:
    _, orders, _ = run(tmp_path, monkeypatch, lasting(usual({}), seconds), "num-workers")
    assert {round(order.seconds, 3) for order in orders[1:]} == {round(each, 3)}


@pytest.mark.parametrize(("seconds", "turns"), [(6.6, "ABBABAAB"), (6.7, "ABBA")])
def test_a_close_start_gets_twice_the_launches_where_there_is_time_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, turns: str
) -> None:
    _, orders, _ = run(tmp_path, monkeypatch, lasting(usual({}), seconds), "num-workers")
    assert "".join("B" if each.starts else "A" for each in orders[1:]) == turns


@pytest.mark.parametrize(
    ("seconds", "turns"),
    [(4.6, "AwppwAwpAApw"), (4.7, "AwppwAwAAw"), (8.5, "AwppwA"), (8.6, "AwwA"), (100.0, "AwwA")],
)
def test_as_many_starts_as_there_is_time_for_take_turns_and_share_the_launches_without_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, turns: str
) -> None:
    names = {(): "A", ("num-workers",): "w", ("pin-memory",): "p"}
    answer = lasting(usual({"num-workers": 1.0, "pin-memory": 1.0}), seconds)
    trials, orders, progress = run(tmp_path, monkeypatch, answer, "num-workers", "pin-memory")
    assert "".join(names[each.starts] for each in orders[1:]) == turns
    reached = [each.candidate.switch for each in trials.trials if each.gain is not None]
    assert reached == ["num-workers", "pin-memory"][: 2 if "p" in turns else 1]
    assert [each.trial.candidate.switch for each in progress if each.trial is not None] == reached


def test_winning_starts_and_switches_are_launched_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = usual({"num-workers": 1.5, "fused-optimizer": 1.2})
    trials, orders, _ = run(tmp_path, monkeypatch, answer, "num-workers", "fused-optimizer")
    whole = trials.together
    assert whole is not None
    assert whole.members == ("fused-optimizer", "num-workers")
    assert whole.gain is not None
    assert whole.gain.value == pytest.approx(1.8, rel=0.02)
    assert (("num-workers",), ("fused-optimizer",)) in {(each.starts, each.changes) for each in orders}


@pytest.mark.parametrize(("compiling", "needed"), [(0.0, 90), (40.0, 130)])
def test_the_limit_that_would_do_holds_the_seconds_of_compiling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiling: float, needed: int
) -> None:
    def answer(order: Order) -> Launched:
        found = (*blocks("control", 1.0), *blocks("tf32", 1.0))
        known = {"compile": compiling, "tf32": 70.0}
        return Launched(Account(found, ended="time", compiling_s=known), ended(elapsed_s=60.0))

    trials, *_ = run(tmp_path, monkeypatch, answer, "tf32", "compile")
    assert trials.needed_s == needed, "60 s of the limit, 30 s for each change so far, and compiling"


def test_a_script_that_a_change_brings_down_is_started_again_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = usual({"gc-freeze": 1.3})

    def answer(order: Order) -> Launched:
        if any(name == "tf32" for name, _ in order.candidates):
            account = Account(
                tuple(blocks("control", 1.0)), refused={"tf32": "RuntimeError: no"}, ended="failed", steps=8
            )
            return Launched(account, ended(traceback="Traceback\nRuntimeError: no", exit_code=1))
        return good(order)

    trials, orders, _ = run(tmp_path, monkeypatch, answer, "tf32", "gc-freeze")
    assert [name for name, _ in orders[1].candidates] == ["gc-freeze"]
    assert by_switch(trials) == {"tf32": Verdict.REFUSED, "gc-freeze": Verdict.PROVED}
    assert trials.problem == ""


@pytest.mark.parametrize(
    ("outcome", "account", "problem"),
    [
        (
            ended(traceback="Traceback\nValueError: bad shape", exit_code=1),
            Account(ended="failed"),
            "The script failed: ValueError: bad shape.",
        ),
        (
            ended(exit_code=3),
            Account(ended="stopped"),
            "The script ended with exit code 3 before everything was tried. Let it run for more steps.",
        ),
        (
            ended(),
            Account(ended="stopped", seen=10),
            "The script runs only 15 steps, too few to time a change. Let it run at least 26.",
        ),
        (
            ended(problem="No steps found: nothing was called."),
            Account(),
            "No steps found: nothing was called.",
        ),
    ],
)
def test_a_program_that_does_not_play_along_is_told_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: Outcome, account: Account, problem: str
) -> None:
    trials, orders, _ = run(tmp_path, monkeypatch, lambda order: Launched(account, outcome), "tf32")
    assert trials.problem == problem
    assert len(orders) == 1


def test_a_script_that_every_change_brings_down_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(order: Order) -> Launched:
        first = order.candidates[0][0]
        account = Account(tuple(blocks("control", 1.0)), refused={first: "RuntimeError: no"}, ended="failed")
        return Launched(account, ended(traceback="Traceback\nRuntimeError: no", exit_code=1))

    names = ("tf32", "gc-freeze", "threads", "compile", "channels-last")
    trials, orders, _ = run(tmp_path, monkeypatch, answer, *names)
    assert len(orders) == trying.MAX_CRASHES
    assert [each.verdict for each in trials.trials] == [Verdict.REFUSED] * 3 + [Verdict.NOT_REACHED] * 2


@pytest.mark.parametrize(
    ("expected", "weight"), [(0.9, 1.0), (1.5, 2.0), (2.49, 3.98), (2.5, 4.0), (9.0, 4.0)]
)
def test_what_is_promised_more_gets_more_of_the_time(expected: float, weight: float) -> None:
    candidate = replace(candidate_named("tf32"), promised=Promised(1.0, expected, 10.0))
    assert choice_of((), []).weight(candidate) == pytest.approx(weight)


def test_what_was_measured_before_the_script_ended_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = usual({"gc-freeze": 1.3}, ended="stopped")

    def answer(order: Order) -> Launched:
        launched = good(order)
        return replace(launched, outcome=ended(exit_code=3)) if order.candidates else launched

    trials, _, _ = run(tmp_path, monkeypatch, answer, "gc-freeze")
    assert by_switch(trials) == {"gc-freeze": Verdict.PROVED}
    assert "exit code 3 before everything was tried" in trials.problem


def test_what_is_asked_for_is_a_promise_a_fix_or_a_change() -> None:
    assert [each.switch for each in choice_of((), ["tf32", "fuse-optimizer"]).changes] == [
        "tf32",
        "fused-optimizer",
        "foreach-optimizer",
        "no-optimizer",
    ]
    assert [each.switch for each in choice_of((), ["load-data-in-workers-1"]).starts][:1] == ["num-workers"]
    to_host = Proposal(
        "", (), Remedy(), lambda overlay: None, fix="copy-less", switches=("pinned-read-backs",)
    )
    promise = Promise("copy-less-1", to_host, 1.0, 2.0, 3.0, 2.0)
    assert [each.switch for each in choice_of([promise], ["copy-less-1"]).changes] == ["pinned-read-backs"]
    assert candidate_named("pinned-read-backs", [promise]).promised == Promised(1.0, 2.0, 3.0)
    assert candidate_named("non-blocking", [promise]).promised is None
    with pytest.raises(CaptureProblem, match="needs a change of the code"):
        choice_of((), ["align-shapes"])
    with pytest.raises(CaptureProblem, match="There is no fix and no change 'fuse'"):
        choice_of((), ["fuse"])


def test_without_a_wish_all_usual_changes_are_tried_and_starts_only_behind_their_ceiling() -> None:
    choice = choice_of((), [])
    names = [each.switch for each in choice.changes]
    assert {"tf32", "compile", "same-batch", "no-collectives"} <= set(names)
    assert "compile-reduce-overhead" not in names
    assert choice.starts == ()
    assert [each.switch for each in starts_after(choice, ["same-batch"], [])] == [
        "num-workers",
        "persistent-workers",
        "pin-memory",
        "prefetch-factor",
    ]
    promised = replace(choice, starts=(candidate_named("num-workers"),))
    assert starts_after(promised, [], ["same-batch"]) == (), "faster loading cannot help: measured"
    assert starts_after(replace(promised, asked=True), [], ["same-batch"]) == promised.starts


def test_an_order_of_blocks_each_way_is_made_of_whole_rounds() -> None:
    assert [Wish(CaptureRequest(), blocks=each).rounds for each in (2, 3, 6, 7)] == [1, 2, 3, 4]
