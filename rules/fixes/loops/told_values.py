"""Loops whose values the CPU reads back for work of its own, such as a journal of what each layer does."""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL, F64, CopyKind
from parsers.model.events import of_kinds
from parsers.model.names.calls import WORK_CALLS
from rules.fixes.changes import copies, of_nodes
from rules.fixes.loops.item_loops import of_the_model
from rules.fixes.optimizers import optimizer_calls
from rules.replay.loops import loops_of
from rules.replay.replay import Replay

NEAR = 4  # calls between the last round and the work


def told_values(replay: Replay, work_ns: F64) -> BOOL:
    """The calls of loops that read back in each round and end just before such work of the CPU (ns before each call).

    The last of them is a copy to the host, so that nothing on the GPU is known to need what the loop computes; it holds
    no layer, no product, no step of an optimizer, sends nothing, and takes the CPU no longer than the work does.
    """
    worked = work_ns > 0
    passed = np.cumsum(replay.usual.gap + replay.usual.cost)
    layers, products = of_the_model(replay)
    other = layers | products | optimizer_calls(replay.analysis)
    other |= of_nodes(replay, copies(replay, CopyKind.H2D))
    read = of_nodes(replay, copies(replay, CopyKind.D2H))
    work = of_kinds(replay.host.call, *WORK_CALLS)
    found = np.zeros(len(replay.host), bool)
    for loop in loops_of(replay.analysis):
        if not read[loop.first : loop.first + loop.body].any() or other[loop.first : loop.last].any():
            continue
        behind = loop.last + np.flatnonzero(worked[loop.last : loop.last + NEAR + 1])
        if not len(behind) or replay.host.thread[behind[0]] != replay.host.thread[loop.first]:
            continue
        last = loop.first + int(np.flatnonzero(work[loop.first : behind[0]])[-1])
        taken = passed[loop.last - 1] - passed[loop.first]
        if read[last] and taken <= min(work_ns[behind[0]], replay.usual.gap[behind[0]]):
            found[loop.first : behind[0]] = True
    return found
