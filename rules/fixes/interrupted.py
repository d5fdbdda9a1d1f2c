"""How long something else had the CPU of launching threads, and how long it made tensors from Python's numbers."""

from __future__ import annotations

import numpy as np

from parsers.model import F64, derived
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals
from rules.analysis.stretches.python_values import from_python
from rules.replay.chance import time_within
from rules.replay.replay import replay_of
from rules.replay.surroundings import surroundings_of


@derived
def interrupted_ns(analysis: Analysis) -> F64:
    """How much of the time before each call of the replay something else had the CPU, and no other thread the lock."""
    stopped = time_within(replay_of(analysis).host, analysis.interruptions)
    return np.maximum(stopped - surroundings_of(analysis).lock_ns, 0.0)


def interruptions_in_a_step(analysis: Analysis) -> float:
    """How often a step of a rank was interrupted, on average."""
    replay = replay_of(analysis)
    often = np.count_nonzero(interrupted_ns(analysis) > 0)
    return often / max(replay.steps * len(replay.spans), 1)


@derived
def python_rows(analysis: Analysis) -> F64:
    """The part of the time before each call of the replay, from 0 to 1."""
    host = replay_of(analysis).host

    def spans(thread: int) -> Intervals:
        return from_python(analysis.trace, analysis.threads.activity(thread).whole_operators).spans

    return np.minimum(time_within(host, spans) / np.maximum(host.gap, 1.0), 1.0)
