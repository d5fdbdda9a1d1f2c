"""What a comparison amounts to, and whether a gate on its step time passes; a gate fails closed."""

from __future__ import annotations

from enum import Enum

from parsers.model.late import dataclass
from parsers.model.units import three_digits
from rules.comparison.step_times import MIN_STEPS, StepRatio


class Outcome(Enum):
    """What is said of two recordings."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_DIFFERENCE_SEEN = "no difference that this noise allows to see"
    NOT_COMPARABLE = "not comparable"


class Decision(Enum):
    """What a gate answers."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The outcome; ``reason`` says why two are not comparable, ``ratio`` is None where steps say nothing."""

    outcome: Outcome
    ratio: StepRatio | None
    reason: str = ""

    @classmethod
    def of(cls, ratio: StepRatio | None, reasons: list[str]) -> Judgement:
        """From the ratio of step times and the reasons why they may not be set against each other."""
        if ratio is None and not reasons:
            reasons = [f"fewer than {MIN_STEPS} steady steps in at least one of them do not show the spread"]
        if reasons or ratio is None:
            return cls(Outcome.NOT_COMPARABLE, ratio, "; ".join(reasons))
        if not ratio.is_seen:
            return cls(Outcome.NO_DIFFERENCE_SEEN, ratio)
        return cls(Outcome.SLOWER if ratio.mean > 1 else Outcome.FASTER, ratio)

    def gate(self, most_percent: float) -> tuple[Decision, str]:
        """Whether the mean step got longer by less than ``most_percent``, with a sentence that says why.

        Inconclusive where the two are not comparable, or where the interval holds the limit.
        """
        if self.outcome is Outcome.NOT_COMPARABLE or self.ratio is None:
            return Decision.INCONCLUSIVE, f"The gate cannot decide: {self.reason}."
        changes = (
            f"a step takes {percent_of(self.ratio.low)} to {percent_of(self.ratio.high)} of its time before"
        )
        return decided("The gate", changes, self.ratio.low, self.ratio.high, most_percent)


def decided(
    what: str, changes: str, low: float, high: float, percent: float, *, falls: bool = False
) -> tuple[Decision, str]:
    """What a gate answers where after is ``low`` to ``high`` times before, which is the change that ``changes`` names.

    By the whole interval; of what ``falls`` where it gets worse, such as a throughput, less is worse.
    """
    bound = percent_of(1 + (-percent if falls else percent) / 100)
    worst, best = (1 / low, 1 / high) if falls else (high, low)
    limit = 1 / (1 - percent / 100) if falls else 1 + percent / 100
    if best >= limit and best > 1:
        decision, at = Decision.FAILED, "at most"
    elif worst < limit or low == high == 1:
        decision, at = Decision.PASSED, "up to"
    else:
        why = f"{what} cannot decide: {changes}, and the limit of {bound} lies between."
        return Decision.INCONCLUSIVE, f"{why} Record more steps on both sides."
    at = "at least" if falls else at
    return decision, f"{what} {decision.value}: {changes}, and {at} {bound} is allowed."


def percent_of(ratio: float) -> str:
    """A ratio as a percentage."""
    return f"{three_digits(ratio * 100)} %"
