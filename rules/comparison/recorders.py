"""What the recorders of two recordings cost, and the ratio of step times as the programs run without them."""

from __future__ import annotations

from dataclasses import replace

from parsers.model.late import dataclass
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.comparison.step_times import StepRatio
from rules.replay.replay import replay_of

# Of the cost in its logarithm: 16 of 43 % on recordings that the cost was not fitted on (docs/predictions.md).
LEFT = 0.37
NOTICEABLE = 0.03  # of the ratio: recorders that change it by less are not spoken of


@dataclass(frozen=True, slots=True)
class RecorderCost:
    """The part of a step that is the recorder's, before and after, as the replays have it (docs/predictions.md)."""

    before: float
    after: float

    @property
    def shift(self) -> float:
        """By what the ratio after over before is multiplied where neither is recorded."""
        return (1 - self.after) / max(1 - self.before, 1e-9)

    @property
    def is_noticeable(self) -> bool:
        return abs(self.shift - 1) >= NOTICEABLE

    def told(self) -> str:
        """One sentence for people who compare."""
        return (
            f"recording took about {percent(self.before)} of a step before and {percent(self.after)} after: the "
            "interval covers the ratio with and without it"
        )


def recorder_cost(before: Analysis, after: Analysis) -> RecorderCost | None:
    """None where one of them cannot be replayed, so that nothing is known of its recorder."""
    replays = replay_of(before), replay_of(after)
    if any(each.reason for each in replays):
        return None
    return RecorderCost(replays[0].recorder_share, replays[1].recorder_share)


def with_and_without(ratio: StepRatio, cost: RecorderCost | None) -> StepRatio:
    """The ratio with an interval that holds it as recorded and as it is without the recorders.

    What is left of a recorder after its cost was taken out, ``LEFT`` of it, widens the interval on that end.
    """
    if cost is None or ratio.low == ratio.high == 1:
        return ratio
    without = ratio.mean * cost.shift
    margin = cost.shift ** (LEFT if cost.shift > 1 else -LEFT)
    return replace(
        ratio,
        low=min(ratio.low, without / margin),
        high=max(ratio.high, without * margin),
        unrecorded=without,
    )
