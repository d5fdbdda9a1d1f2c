"""Which calls of a replay are made while the model is evaluated, and how long that takes."""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL, derived
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import contains
from rules.analysis.stretches.evaluations import evaluations
from rules.replay.replay import Replay, replay_of


@derived
def evaluating(analysis: Analysis) -> BOOL:
    """For each host node of the replay, whether its thread evaluates the model then."""
    host = replay_of(analysis).host
    nodes = np.zeros(len(host), bool)
    for thread, members in enumerate(host.members):
        mine = slice(int(host.first[thread]), int(host.first[thread + 1]))
        for each in members:
            nodes[mine] |= contains(evaluations(analysis, each), host.start[mine])
    return nodes


def evaluation_ns(replay: Replay) -> float:
    """How long all of it takes in the replayed steps: on the CPU, or on a GPU where that is longer."""
    nodes, host, device = evaluating(replay.analysis), replay.host, replay.device
    of_thread = np.bincount(host.thread, np.where(nodes, host.gap + host.cost, 0.0), minlength=1)
    of_rank = np.bincount(device.span, np.where(nodes[device.launch], device.duration, 0.0), minlength=1)
    return float(max(of_thread.max(), of_rank.max()))
