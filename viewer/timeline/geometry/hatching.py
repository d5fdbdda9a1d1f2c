"""The hatching of each cause of idle time, so that causes differ also where their colours cannot be told apart."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from parsers.model.arrays import BOOL
from rules.analysis.idle.causes import Cause

PERIOD = 24  # fine lines: every pattern repeats after this many


@lru_cache(maxsize=8)
def hatching(line: int) -> BOOL:
    """Which pixels of a tile are painted: causes x rows x columns; ``line`` is the width of a fine line in pixels."""
    y, x = np.mgrid[0 : PERIOD * line, 0 : PERIOD * line] // line
    rising, falling = x + y, x - y
    tiles = {
        Cause.LAUNCH: rising % 6 < 1,
        Cause.INPUT: falling % 8 < 2,
        Cause.HOST: rising % 8 < 2,
        Cause.SYNCHRONIZATION: falling % 6 < 1,
        Cause.ALLOCATOR: (rising % 8 < 1) | (falling % 8 < 1),
        Cause.DEPENDENCY: x % 6 < 1,
        Cause.UNKNOWN: rising % 12 < 1,
        Cause.NEIGHBOURS: y % 6 < 1,
    }
    return np.stack([tiles[cause] for cause in Cause])
