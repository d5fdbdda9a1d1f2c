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
        changes = f"a step takes {_percent(self.ratio.low)} to {_percent(self.ratio.high)} of its time before"
        limit = 1 + most_percent / 100
        if self.ratio.low >= limit and self.ratio.low > 1:
            return Decision.FAILED, f"The gate failed: {changes}, and at most {_percent(limit)} is allowed."
        if self.ratio.high < limit or self.ratio.low == self.ratio.high == 1:
            return Decision.PASSED, f"The gate passed: {changes}, and up to {_percent(limit)} is allowed."
        return (
            Decision.INCONCLUSIVE,
            f"The gate cannot decide: {changes}, and the limit of {_percent(limit)} lies between. "
            "Record more steps on both sides.",
        )


def _percent(ratio: float) -> str:
    return f"{three_digits(ratio * 100)} %"
