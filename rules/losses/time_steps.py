"""Loops of a program on the CPU alone over time steps, each of which needs the result of the one before."""

from __future__ import annotations

import numpy as np

from parsers.model import I64, derived_by
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.rounds import Rounds
from rules.analysis.cpu.cpu_time import CpuTime
from rules.losses.cpu_loops import (
    CELL,
    MIN_TIMES,
    ItemLoops,
    are_batches,
    looked_into,
    loop_of,
    walks_on_with_a_state,
)
from rules.terms import MAJORITY


@derived_by
def time_steps(analysis: Analysis, time: CpuTime) -> ItemLoops:
    """Loops that call a cell once in each round, or walk along an inner side with a state, and their backward passes.

    What their operators compute stays, the weights that each step reads among it.
    """
    looked = looked_into(analysis, time)
    found: list[Rounds] = []
    free = np.ones(len(looked.operators), bool)
    for backward in (False, True):
        forward = tuple(found)
        for each in looked.rounds:
            at = slice(each.first, each.first + each.length)
            if not free[at].all() or not (looked.backward[at] == backward).all():
                continue
            if backward:
                goes = any(MAJORITY * of.times <= each.times <= of.times + 1 for of in forward)
            else:
                goes = _goes_through_time(time, each, looked.operators)
            if goes:
                free[at] = False
                found.append(each)
    return ItemLoops(
        tuple(loop_of(time, each, looked.operators, each.times, own_weights=True) for each in found),
        looked.looked_ns,
        len(looked.steps),
        len(looked.operators),
        time.slowed,
    )


def _goes_through_time(time: CpuTime, rounds: Rounds, operators: I64) -> bool:
    body = operators[rounds.first : rounds.first + rounds.body].tolist()
    cells = any(CELL.match(time.trace.name(each)) for each in body)
    if rounds.times < MIN_TIMES or not (cells or walks_on_with_a_state(time, rounds, operators)):
        return False
    return not are_batches(time, rounds, operators)
