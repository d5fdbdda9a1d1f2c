"""Step boundaries come from what a program does, in any of the usual loop shapes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from viewer.capture.torch_runner.stallscope_recorder.options import Options
from viewer.capture.torch_runner.stallscope_recorder.session import Session
from viewer.capture.torch_runner.stallscope_recorder.status import Status
from viewer.capture.torch_runner.stallscope_recorder.steps import (
    MANY_ITEMS,
    PATIENCE,
    SIGHTINGS,
    SILENCE,
    StepFinder,
)


class Loop:
    """A pretended program; ``marks`` has, per boundary, the steps ended and how many things it had done by then."""

    def __init__(self, wanted: str = "auto") -> None:
        self.marks: list[int] = []
        self.finder = StepFinder(wanted, self.marks.append)

    def train(self, steps: int, micro_batches: int = 1, fetches: bool = True, optimizers: int = 1) -> None:
        self.finder.optimizer_exists = True
        for _ in range(steps):
            for _ in range(micro_batches):
                if fetches:
                    self.finder.fetch("loader")
                self.finder.forward("model")
                self.finder.backward()
            for optimizer in range(optimizers):
                self.finder.optimized(optimizer)


def test_an_optimizer_step_ends_a_step_at_the_next_fetch() -> None:
    loop = Loop()
    loop.train(4)
    assert loop.finder.source == "optimizer"
    assert loop.marks == [1, 2, 3]
    loop.finder.fetch("loader")
    assert loop.marks == [1, 2, 3, 4]


def test_without_a_loader_the_next_forward_begins_the_step() -> None:
    loop = Loop()
    loop.train(3, fetches=False)
    loop.finder.forward("model")
    assert loop.marks == [1, 2, 3]


def test_gradient_accumulation_makes_one_step_of_many_batches() -> None:
    loop = Loop()
    loop.train(3, micro_batches=8)
    loop.finder.fetch("loader")
    assert loop.marks == [1, 2, 3]


def test_two_optimizers_make_one_step() -> None:
    loop = Loop()
    loop.train(5, optimizers=2)
    loop.finder.fetch("loader")
    assert loop.marks == [1, 2, 3, 4, 5]


def test_an_optimizer_that_falls_silent_hands_over() -> None:
    loop = Loop()
    loop.train(2)
    for _ in range(SILENCE - 1):
        loop.finder.fetch("loader")
        loop.finder.optimized("fine-tuner")
    assert loop.marks[-1] == 2
    for _ in range(2):
        loop.finder.fetch("loader")
        loop.finder.optimized("fine-tuner")
    assert loop.marks[-1] > 2


def test_inference_with_a_loader_has_a_step_per_fetch_and_none_between_epochs() -> None:
    loop = Loop()
    for epoch in range(2):
        for _ in range(4):
            loop.finder.fetch(epoch)
            loop.finder.forward("model")
        loop.finder.fetch(epoch)
        loop.finder.loader_ended(epoch)
    assert loop.finder.source == "dataloader"
    assert loop.marks == [2, 3, 4, 5, 6, 7, 8]


def test_a_bare_model_has_a_step_per_outermost_call() -> None:
    loop = Loop()
    for call in range(5):
        assert loop.finder.source == ("forward" if call >= SIGHTINGS else "")
        loop.finder.forward("model")
    assert loop.marks == [2, 3, 4]


def test_training_waits_for_its_optimizer_only_so_long() -> None:
    loop = Loop()
    loop.finder.optimizer_exists = True
    for _ in range(PATIENCE):
        loop.finder.fetch("loader")
        loop.finder.backward()
        assert loop.finder.source == "" or loop.finder.counts["dataloader"] >= PATIENCE
    assert loop.finder.source == "dataloader"


def test_training_by_hand_without_an_optimizer_steps_by_its_backward_passes() -> None:
    loop = Loop()
    for _ in range(6):
        loop.finder.forward("model")
        loop.finder.backward()
    assert loop.finder.source == "backward"
    assert loop.marks == [2, 3, 4]


def test_a_named_region_is_the_only_thing_that_counts_when_asked_for() -> None:
    loop = Loop("region")
    loop.train(3)
    assert loop.marks == []
    loop.finder.region()
    loop.finder.region()
    assert loop.marks == [0, 1]


def test_steps_found_early_give_way_to_an_optimizer_until_recording_begins() -> None:
    loop = Loop()
    for _ in range(SIGHTINGS):
        loop.finder.fetch("loader")
    assert loop.finder.source == "dataloader"
    loop.train(2)
    assert loop.finder.source == "optimizer"
    locked = Loop()
    for _ in range(SIGHTINGS):
        locked.finder.fetch("loader")
    locked.finder.locked = True
    locked.train(2)
    assert locked.finder.source == "dataloader"


def test_items_that_are_computed_one_by_one_before_the_first_backward_pass_are_no_steps() -> None:
    loop = Loop()
    loop.finder.optimizer_exists = True
    for _ in range(2):
        for _ in range(MANY_ITEMS - 1):
            loop.finder.forward("model", keeps_for_backward=True)
        loop.finder.backward()
        loop.finder.optimized("optimizer")
    loop.finder.forward("model", keeps_for_backward=True)
    assert loop.finder.source == "optimizer"
    assert loop.marks == [1, 2]


@pytest.mark.parametrize(("calls", "source"), [(MANY_ITEMS - 1, ""), (MANY_ITEMS, "forward")])
def test_a_model_in_training_that_nobody_trains_is_waited_for_only_so_long(calls: int, source: str) -> None:
    loop = Loop()
    loop.finder.optimizer_exists = True
    for _ in range(calls):
        loop.finder.forward("model", keeps_for_backward=True)
    assert loop.finder.source == source


def test_steps_are_told_before_the_recorder_begins_them_and_quick_recorded_ones_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("viewer.capture.torch_runner.stallscope_recorder.session.SAY_EVERY", 60.0)
    order: list[tuple[str, int]] = []
    session: Any = Session(Options("", "run", skip_first=0), Status("none", -1), -1)
    session.status = SimpleNamespace(say=lambda phase, **said: order.append((phase, said.get("step", 0))))
    session.recorder = SimpleNamespace(
        start=lambda _: order.append(("start", 0)), step=lambda: order.append(("step", 0)), complete=False
    )
    for ended in range(5):
        session._follow(ended)
    assert order == [
        ("steps-found", 0), ("warming-up", 1), ("start", 0), ("warming-up", 2), ("step", 0),
        ("recording", 1), ("step", 0), ("step", 0), ("step", 0),
    ]  # fmt: skip
