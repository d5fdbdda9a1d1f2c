"""A process that makes steps by a clock of its own, for the driver of blocks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from rules.trials.blocks import Block
from viewer.capture.torch_runner.stallscope_recorder.trials.driver import Driver, Limits, Machine
from viewer.capture.torch_runner.stallscope_recorder.trials.schedule import Candidate, Names

StepTime = Callable[[Names, int], float]


class Together:
    """What the ranks of one run hand one another; a rank waits until all have come."""

    def __init__(self, ranks: int) -> None:
        self.barrier = threading.Barrier(ranks, timeout=60)
        self.values: dict[int, list[float]] = {}

    def exchange(self, rank: int, values: list[float]) -> list[list[float]]:
        self.values[rank] = values
        self.barrier.wait()
        told = [self.values[each] for each in sorted(self.values)]
        self.barrier.wait()
        return told


class PretendedProcess(Machine):
    """Steps that take ``step_time(changes, step)`` seconds; ``fails`` names changes that cannot be made."""

    def __init__(
        self,
        step_time: StepTime,
        *,
        settle: int = 2,
        batch: Callable[[int], int] = lambda step: 0,
        fails: dict[str, str] | None = None,
        together: Together | None = None,
        rank: int = 0,
    ) -> None:
        self.clock = 100.0
        self.step = 0
        self.made: Names = ()
        self.turned: list[tuple[int, Names]] = []
        self.lines: list[dict[str, Any]] = []
        self._step_time = step_time
        self._settle = settle
        self._batch = batch
        self._batches = 0
        self._fails = fails or {}
        self._together = together
        self._rank = rank

    def seconds(self) -> float:
        return self.clock

    def turn(self, changes: Names) -> str:
        bad = next((self._fails[each] for each in changes if each in self._fails), "")
        self.made = () if bad else changes
        self.turned.append((self.step, self.made))
        return bad

    def settle(self, changes: Names) -> int:
        return self._settle

    def elements(self) -> int:
        return self._batches

    def forget_peak(self) -> None:
        pass

    def peak_bytes(self) -> int | None:
        return None

    def exchange(self, values: list[float]) -> list[list[float]]:
        return self._together.exchange(self._rank, values) if self._together else [values]

    def drive(
        self,
        candidates: list[Candidate],
        seconds: float = 1e6,
        rounds: int = 3,
        steps: int = 4,
        skip: int = 3,
        most: int = 100_000,
        turn: int = 0,
        start: float = 0.0,
        at_step: Callable[[Driver, int], None] = lambda driver, step: None,
    ) -> Driver:
        """Make steps until the driver has enough."""
        limits = Limits(seconds, skip, rounds, steps, turn=turn, start=start)
        driver = Driver(self, candidates, limits, self.lines.append)
        while not driver.over and self.step < most:
            driver.boundary()
            at_step(driver, self.step)
            self.clock += self._step_time(self.made, self.step)
            self._batches += self._batch(self.step)
            self.step += 1
        return driver

    def blocks(self, candidate: str) -> list[dict[str, Any]]:
        return [each for each in self.lines if each["kind"] == "block" and each["candidate"] == candidate]

    def order(self, candidate: str) -> str:
        return "".join(each["variant"] for each in self.blocks(candidate))

    def end(self) -> dict[str, Any]:
        return self.lines[-1]


def line_of(block: Block, spent: float = 0.0) -> dict[str, Any]:
    """A block as the recorder says it, after so many seconds."""
    return {
        "kind": "block",
        "candidate": block.candidate,
        "variant": "B" if block.changed else "A",
        "steps": block.steps,
        "slowest_ns": block.ns,
        "elements": block.elements,
        "spent_s": spent,
        "changes": list(block.changes),
    }
