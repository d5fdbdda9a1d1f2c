"""What two runs of the unchanged program computed, and how like them the losses with a change are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rules.trials.likeness import compare_losses
from rules.trials.trial import Trial
from viewer.capture.trials.choice import candidate_named

BASELINES = 2

Losses = Sequence[float | None]


class UnchangedRuns:
    """The losses of the first runs without a change, in order."""

    def __init__(self) -> None:
        self.losses: list[Losses] = []

    @property
    def missing(self) -> range:
        """The numbers of the runs that are still needed."""
        return range(len(self.losses) + 1, BASELINES + 1)

    def keep(self, losses: Losses) -> None:
        """Another run ended, which may have come to no loss."""
        if losses and self.missing:
            self.losses.append(losses)

    def judged(self, trial: Trial, losses: Losses) -> Trial:
        """The trial of a gain with how its losses compare; as it is where there is nothing to compare."""
        if self.missing or trial.gain is None or not losses:
            return trial
        members = [candidate_named(each) for each in trial.members]
        rounds = trial.candidate.rounds or any(each.rounds for each in members)
        first, second = self.losses
        return replace(trial, loss=compare_losses(first, second, losses, rounds=rounds))
