"""Whether a GPU's clock is another one than the CPU's, by when calls were made and what they launched began."""

from __future__ import annotations

import numpy as np

from parsers.model import I64, Effect, QualityRecorder
from parsers.model.arrays import median_of
from parsers.model.units import duration

APART_NS = 1_000_000_000  # delays to launch are shorter; clocks further apart are not of one time base
LATEST_START_NS = 3_600_000_000_000


def clock_shift(delay: I64) -> int:
    """By how much to move the GPU's times, so that nothing precedes its launch; 0 where the clocks may be one.

    ``delay`` is the time from each launch to the beginning of what it launched.
    """
    if not len(delay) or -APART_NS < int(median_of(delay)) < LATEST_START_NS:
        return 0
    return -int(np.percentile(delay, 1, method="lower"))


def note_shift(quality: QualityRecorder, shift: int, count: int) -> None:
    """Tell that so many times of the GPU were moved."""
    quality.note(
        "device-clock",
        Effect.REPAIRED,
        "GPU times were on another clock than CPU times; they were shifted so that nothing runs before its launch",
        f"shifted by {duration(float(shift))}",
        count,
    )
