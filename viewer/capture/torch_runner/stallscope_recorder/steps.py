"""Finds where one step ends and the next begins, from what a program does anyway: fetch, forward, backward."""

from __future__ import annotations

from typing import Any, Callable

SIGHTINGS = 3
"""So many fetches, forward or backward calls without an optimizer make them the program's steps."""
PATIENCE = 256
"""So many of them with an optimizer that exists but has not stepped yet (gradient accumulation)."""
MANY_ITEMS = 4096
"""So many forward calls for gradients with an optimizer before the first backward pass (one call for each item)."""
SILENCE = 8
"""A leader that misses so many turns of another optimizer, loader or model hands over to it."""


class Leader:
    """Which of several optimizers, loaders or models marks the steps: the first, until it falls silent."""

    def __init__(self) -> None:
        self._key: Any = None
        self._others: dict[Any, int] = {}

    def is_led_by(self, key: Any) -> bool:
        if self._key is None:
            self._key = key
        if key != self._key:
            self._others[key] = self._others.get(key, 0) + 1
            if self._others[key] < SILENCE:
                return False
            self._key = key
        self._others.clear()
        return True

    def retire(self, key: Any) -> None:
        """This one is finished (a loader at its end): the next one seen leads."""
        if key == self._key:
            self._key = None


class StepFinder:
    """Turns what the program does into step boundaries.

    ``on_boundary(steps)`` is called where a step begins, with the number of steps that have ended before it.
    After an optimizer step the boundary waits for the next thing the program does (the next fetch, where the
    program fetches every step), so that what follows the optimizer, such as logging, belongs to the step it ends.
    """

    def __init__(self, wanted: str, on_boundary: Callable[[int], None]) -> None:
        self.source = "" if wanted == "auto" else wanted
        self._fixed = wanted != "auto"
        self._on_boundary = on_boundary
        self._ended = 0
        self._pending = False
        self._begun = False
        self._loader_at_its_end = False
        self._fetched_in_step = False
        self._keeps_for_backward = False
        self.optimizer_exists = False
        self.locked = False
        self.counts: dict[str, int] = {"dataloader": 0, "forward": 0, "backward": 0, "optimizer": 0}
        self._leaders = {source: Leader() for source in self.counts}

    @property
    def seen_anything(self) -> bool:
        """Whether the program did anything that can make a step."""
        return any(self.counts.values())

    def fetch(self, loader: Any) -> None:
        """A DataLoader is about to give its next batch."""
        if not self._leaders["dataloader"].is_led_by(loader):
            return
        self.counts["dataloader"] += 1
        new_epoch, self._loader_at_its_end = self._loader_at_its_end, False
        if new_epoch and self.source in ("", "dataloader"):
            self.counts["dataloader"] -= 1
            return
        if not self.source:
            self._decide("dataloader")
        self._begin_or_end("dataloader", waits_for_fetch=False)
        self._fetched_in_step = True

    def loader_ended(self, loader: Any) -> None:
        """The fetch just announced gave nothing: the epoch is over."""
        self._leaders["dataloader"].retire(loader)
        self._loader_at_its_end = True

    def forward(self, model: Any, keeps_for_backward: bool = False) -> None:
        """The outermost module is about to be called, maybe in training, with what gradients need being kept."""
        self._keeps_for_backward |= keeps_for_backward
        leads = self._leaders["forward"].is_led_by(model)
        if leads:
            self.counts["forward"] += 1
            if not self.source:
                self._decide("forward")
        self._begin_or_end("forward" if leads else "another forward", waits_for_fetch=self._fetched_in_step)

    def backward(self) -> None:
        """A backward pass is about to run."""
        self.counts["backward"] += 1
        if not self.source:
            self._decide("backward")
        self._begin_or_end("another backward", waits_for_fetch=self._fetched_in_step)
        if self.source == "backward":
            self._step_has_ended()

    def optimized(self, optimizer: Any) -> None:
        if not self._leaders["optimizer"].is_led_by(optimizer):
            return
        self.counts["optimizer"] += 1
        if not self._fixed and not self.locked and self.source != "optimizer":
            self.source = "optimizer"
            self._ended = self.counts["optimizer"] - 1
        if self.source == "optimizer":
            self._step_has_ended()

    def region(self) -> None:
        if self.source == "region":
            self._boundary()

    def _decide(self, source: str) -> None:
        training = self.optimizer_exists and self.counts["backward"] > 0
        needed = PATIENCE if training else SIGHTINGS
        if source != "dataloader" and self.counts["dataloader"] > 0:
            needed = PATIENCE
        if source == "forward" and self.counts["backward"] > 0:
            return
        if source == "forward" and self.optimizer_exists and self._keeps_for_backward:
            needed = MANY_ITEMS
        if self.counts[source] >= needed:
            self.source = source
            self._ended = self.counts[source] - 2

    def _begin_or_end(self, source: str, waits_for_fetch: bool) -> None:
        if self._pending:
            if not waits_for_fetch:
                self._boundary()
        elif source == self.source:
            self._boundary()

    def _step_has_ended(self) -> None:
        if self._pending:
            self._boundary()
        self._pending = True

    def _boundary(self) -> None:
        if self._begun or self._pending or self._ended:
            self._ended += 1
        self._begun = True
        self._pending = False
        self._fetched_in_step = False
        self._on_boundary(self._ended)
