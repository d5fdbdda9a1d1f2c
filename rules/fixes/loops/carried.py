"""Loops whose rounds hand values on: through the CPU, where each sends what was read back, or on the GPU."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from parsers.model import Attribute, CopyKind
from parsers.model.names.per_name import named
from rules.fixes.changes import copies, of_nodes
from rules.fixes.loops.independent_rounds import picks_rows
from rules.replay.loops import Loop
from rules.replay.replay import Replay

ONE_VALUE = 8  # bytes: any two single values are as large as one another


def carry_through_the_cpu(replay: Replay, loops: Sequence[Loop]) -> bool:
    """Whether between any two rounds of all loops, what is sent next is as large as what was read back, several values.

    Then each round needs the one before, as where the next centre is the point farthest from those before.
    """
    device = replay.device
    read = copies(replay, CopyKind.D2H)
    either = np.flatnonzero(read | copies(replay, CopyKind.H2D))
    either = either[np.argsort(device.launch[either], kind="stable")]
    size = replay.analysis.trace.attribute(Attribute.BYTES, device.event[either])
    node, read = device.launch[either], read[either]
    carried = read[:-1] & ~read[1:] & (size[:-1] == size[1:]) & (size[:-1] > ONE_VALUE)
    edges = np.searchsorted(node, [(loop.first, loop.last) for loop in loops])
    return all(
        np.count_nonzero(carried[first : max(last - 1, first)]) >= loop.times - 1
        for loop, (first, last) in zip(loops, edges.tolist(), strict=True)
    )


def picks_what_was_found(replay: Replay, loops: Sequence[Loop]) -> list[bool]:
    """For each loop, whether its rounds begin by picking rows, and end by finding what is largest or smallest.

    What is found is then used by the next round only, as where the next centre is the point farthest from those before.
    """
    picks, finds = (
        of_nodes(replay, named(replay.analysis.trace, replay.device.event, each))
        for each in (picks_rows, lambda name: "ArgMax" in name or "ArgMin" in name)
    )
    found = []
    for loop in loops:
        body = slice(loop.first, loop.first + loop.body)
        picked = np.flatnonzero(picks[body])
        found.append(bool(len(picked)) and bool(finds[body][-1]) and not finds[body][: picked[-1]].any())
    return found
