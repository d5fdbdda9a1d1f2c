"""Compilers that run again in most steps."""

from __future__ import annotations

import numpy as np

from parsers.model import F64, EventKind, derived
from rules.analysis.analysis import Analysis
from rules.analysis.names.compilers import is_compiling
from rules.replay.replay import replay_of
from rules.replay.surroundings import surroundings_of

MIN_NS = 1_000_000.0  # of a step
MIN_STEPS = 2  # a single one may be the first of its kind
MIN_SHARE_OF_STEPS = 0.5


@derived
def compiling_ns(analysis: Analysis) -> F64:
    """How much of the time before each call of the replay a compiler ran; none where most steps run without one."""
    replay = replay_of(analysis)
    found = surroundings_of(analysis).time_inside(is_compiling, EventKind.CPU_OP, EventKind.REGION)
    host = replay.host
    _, step = np.unique(np.column_stack((host.thread, host.step)), axis=0, return_inverse=True)
    in_step = np.bincount(step.reshape(-1), found)
    compiled = int(np.count_nonzero(in_step >= MIN_NS))
    if compiled < max(MIN_STEPS, MIN_SHARE_OF_STEPS * replay.steps) * len(replay.spans):
        return np.zeros(len(host))
    return found
