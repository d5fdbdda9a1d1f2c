"""How much of the CPU's time before each call makes tensors from Python's numbers one at a time."""

from __future__ import annotations

import numpy as np

from parsers.model import F64, derived
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals
from rules.analysis.stretches.python_values import from_python
from rules.replay.chance import time_within
from rules.replay.replay import replay_of


@derived
def python_rows(analysis: Analysis) -> F64:
    """The part of the time before each call of the replay, from 0 to 1."""
    host = replay_of(analysis).host

    def spans(thread: int) -> Intervals:
        return from_python(analysis.trace, analysis.threads.activity(thread).whole_operators).spans

    return np.minimum(time_within(host, spans) / np.maximum(host.gap, 1.0), 1.0)
