"""Tells events with impossible times from the rest, so that no single one stretches the view."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from parsers.chrome.decode.times import FARTHEST_NS, INVALID
from parsers.model.strays import longest_plausible, main_cluster

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

LONGEST_NS = 10 * 365 * 86_400 * 1_000_000_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """Which events cannot be shown, by reason."""

    no_time: Mask
    no_duration: Mask  # not a number, negative, or longer than any recording
    far_away: Mask


def judge(start: I64, duration: I64, good: Mask) -> Verdict:
    """Sort out events by their times (ns)."""
    no_time = (start == INVALID) | (np.abs(start) >= FARTHEST_NS)
    no_duration = ~no_time & (~good | (duration < 0) | (duration > LONGEST_NS))
    usable = ~(no_time | no_duration)
    far_away = np.zeros(len(start), bool)
    if usable.any():
        blank = (start == 0) & (duration == 0)
        telling = usable & ~blank if (usable & ~blank).any() else usable
        first, last = main_cluster(start[telling])
        far_away = usable & ((start < first) | (start > last))
        no_duration |= usable & (duration > longest_plausible(first, last))
        far_away &= ~no_duration
    return Verdict(no_time, no_duration, far_away)
