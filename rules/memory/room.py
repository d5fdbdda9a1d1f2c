"""Whether the GPU's memory has room for what a change would keep in it."""

from __future__ import annotations

import numpy as np

from rules.analysis.analysis import Analysis
from rules.memory.summary import memory_of

MAX_FILLED = 0.7  # of the GPU's memory: fuller, it has no room for what would be kept


def is_nearly_full(analysis: Analysis) -> bool:
    """Whether the tensors of any GPU filled more of its memory than that; False where no memory was recorded."""
    devices = analysis.trace.devices
    return any(
        each.peak_allocated > MAX_FILLED * (devices[each.device].memory_bytes or np.inf)
        for each in memory_of(analysis)
    )
