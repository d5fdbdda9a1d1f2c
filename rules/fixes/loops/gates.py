"""Loops through time whose rounds update a state by gates, and what of a round needs no state: its convolutions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from parsers.model import BOOL
from parsers.model.events import of_kinds
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.names.families import Family
from rules.fixes.changes import of_nodes
from rules.replay.loops import Loop
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of

MIN_SIGMOIDS, MIN_TANHS = 2, 1  # of a round: a GRU has two gates and a candidate, an LSTM more of both
_CONVOLUTION = "aten::convolution"
_SIGMOID, _TANH = "sigmoid_kernel", "tanh_kernel"


def gated(analysis: Analysis, replay: Replay, loops: Sequence[Loop]) -> list[Loop]:
    """The loops whose rounds multiply matrices and have the gates of a recurrent cell: each needs the one before."""
    trace, device = analysis.trace, replay.device
    family = analysis.family_of_string[trace.events.name[device.event]]
    products = of_nodes(replay, of_kinds(family, Family.GEMM))
    sigmoids, tanhs = (
        of_nodes(replay, named(trace, device.event, lambda name, part=part: part in name))  # type: ignore[misc]
        for part in (_SIGMOID, _TANH)
    )

    def is_gated(loop: Loop) -> bool:
        body = slice(loop.first, loop.first + loop.body)
        gates = (
            np.count_nonzero(sigmoids[body]) >= MIN_SIGMOIDS and np.count_nonzero(tanhs[body]) >= MIN_TANHS
        )
        return bool(gates and products[body].any())

    return [loop for loop in loops if is_gated(loop)]


def convolving(analysis: Analysis, replay: Replay, loops: Sequence[Loop]) -> list[tuple[int, int]]:
    """Stretches of calls, first and behind the last, from one convolution of a round to the next without a product."""
    family = analysis.family_of_string[analysis.trace.events.name[replay.device.event]]
    convolves = of_nodes(replay, of_kinds(family, Family.CONVOLUTION))
    convolves |= surroundings_of(analysis).inside(_CONVOLUTION.__eq__)
    products = np.cumsum(of_nodes(replay, of_kinds(family, Family.GEMM)) & ~convolves)
    found = []
    for loop in loops:
        at = loop.first + np.flatnonzero(convolves[loop.first : loop.last])
        if not len(at):
            continue
        rounds = (at - loop.first) // loop.body
        cut = np.flatnonzero((np.diff(products[at]) > 0) | (np.diff(rounds) > 0)) + 1
        found += [(int(run[0]), int(run[-1]) + 1) for run in np.split(at, cut)]
    return found


def within(stretches: Sequence[tuple[int, int]], length: int) -> BOOL:
    """Which of this many calls lie in one of these stretches."""
    found = np.zeros(length, bool)
    for first, last in stretches:
        found[first:last] = True
    return found
