"""Which CPU operator launched a GPU operation."""

from __future__ import annotations

import numpy as np

from rules.analysis.analysis import Analysis


def operator_of(analysis: Analysis, operation: int) -> int:
    """The innermost operator around the call that launched an operation; -1 where that was not recorded."""
    launch = int(analysis.trace.links.launch_of(np.array([operation], np.int64))[0])
    if launch < 0:
        return -1
    thread = int(analysis.threads.of_events(np.array([launch], np.int64))[0])
    if thread < 0:
        return -1
    at = np.array([analysis.trace.events.start[launch]], np.int64)
    return int(analysis.threads.activity(thread).operators.at(at)[0])
