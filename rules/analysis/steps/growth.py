"""Steps of which each does more than the one before: a sweep over sizes, or something that piles up."""

from __future__ import annotations

import numpy as np

from parsers.model import F64

MIN_STEPS = 5  # fewer are in order by chance
SHORTER = 0.95  # of the longest step so far, that a step may be by chance
LONGER = 1.05  # times the longest step so far: more than chance
MIN_RISES = 3
MIN_GROWTH = 1.5  # from the first step to the last


def grow(lengths: F64) -> bool:
    """Whether steps of these lengths, in the order in which they ran, take ever longer.

    The last one may be shorter: it ends with the recording.
    """
    if len(lengths) and lengths[-1] < lengths.max():
        lengths = lengths[:-1]
    if len(lengths) < MIN_STEPS:
        return False
    longest = np.maximum.accumulate(lengths)[:-1]
    rises = int(np.count_nonzero(lengths[1:] > LONGER * longest))
    falls = int(np.count_nonzero(lengths[1:] < SHORTER * longest))
    return falls == 0 and rises >= MIN_RISES and float(lengths[-1]) >= MIN_GROWTH * float(lengths[0])
