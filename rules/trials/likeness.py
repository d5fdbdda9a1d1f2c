"""Whether a program computes the same with a change: its losses, step by step, against two runs without it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import numpy as np

from parsers.model import F64
from parsers.model.late import dataclass

MIN_LOSSES = 2
MAX_UNREPEATABLE = 0.01  # two runs without a change that differ by more say nothing of one with it
DIVERGED = 0.5  # of the loss, by the medians of the last part of the steps: single steps may swing wildly
LAST_PART = 0.25


class Likeness(Enum):
    """How the losses with a change are like those without it."""

    BIT_EQUAL = "bit-equal"
    EQUAL = "equal"
    DIFFERS = "differs"
    DIVERGES = "diverges"
    NOT_COMPARABLE = "not comparable"


@dataclass(frozen=True, slots=True)
class LossComparison:
    """``difference``: the largest of any step, as a part of the loss; ``baseline``: that of two unchanged runs."""

    likeness: Likeness
    difference: float | None = None
    baseline: float | None = None


def compare_losses(
    first: Sequence[float | None],
    second: Sequence[float | None],
    changed: Sequence[float | None],
    *,
    rounds: bool = False,
) -> LossComparison:
    """Losses of two runs without a change and of one with it; None stands for what is no finite number.

    ``rounds`` says that the change computes with fewer digits: then nothing is ever equal.
    """
    count = min(len(first), len(second), len(changed))
    if count < MIN_LOSSES:
        return LossComparison(Likeness.NOT_COMPARABLE)
    one, two, other = (np.array(losses[:count], np.float64) for losses in (first, second, changed))
    sound = np.isfinite(one) & np.isfinite(two)
    if not sound.all():
        return LossComparison(Likeness.NOT_COMPARABLE)
    apart = _largest(one, two)
    if apart > MAX_UNREPEATABLE:
        return LossComparison(Likeness.NOT_COMPARABLE, None, apart)
    if not np.isfinite(other).all():
        return LossComparison(Likeness.DIVERGES, None, apart)
    difference = min(_largest(one, other), _largest(two, other))
    last = slice(-max(1, round(LAST_PART * count)), None)
    if _largest(np.median(one[last], keepdims=True), np.median(other[last], keepdims=True)) > DIVERGED:
        return LossComparison(Likeness.DIVERGES, difference, apart)
    if rounds:
        return LossComparison(Likeness.DIFFERS, difference, apart)
    if difference == 0.0:
        return LossComparison(Likeness.BIT_EQUAL, 0.0, apart)
    return LossComparison(Likeness.EQUAL if difference <= apart else Likeness.DIFFERS, difference, apart)


def _largest(one: F64, other: F64) -> float:
    size = np.maximum(np.abs(one), np.finfo(np.float64).tiny)
    return float((np.abs(other - one) / size).max())
