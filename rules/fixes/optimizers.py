"""Which calls belong to an optimizer's step, by what is around them or by the kernels that only an optimizer needs."""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL, derived
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.names.regions import is_optimizer_step
from rules.fixes.changes import of_nodes
from rules.replay.loops import loops_of
from rules.replay.replay import replay_of
from rules.replay.surroundings import surroundings_of

_RANGES = ("optimizer", "optimizer_step", "optim")


@derived
def optimizer_calls(analysis: Analysis) -> BOOL:
    """Which host nodes of the replay an optimizer's step makes.

    Where neither an operator nor a range says so, these are loops that divide by a root as Adam does: one tensor plus a
    multiple of two others' ratio.
    """
    around = surroundings_of(analysis)
    for is_step in (is_optimizer_step, lambda name: name.lower() in _RANGES):
        if (found := around.inside(is_step)).any():
            return found
    replay = replay_of(analysis)
    found = np.zeros(len(replay.host), bool)
    updates = of_nodes(replay, named(analysis.trace, replay.device.event, lambda name: "addcdiv" in name))
    for loop in loops_of(analysis):
        if updates[loop.first : loop.first + loop.body].any():
            found[loop.first : loop.last] = True
    return found
