"""Memory is kept from step to step instead of being allocated and freed in each."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.names.calls import Call
from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.catalog.collect_garbage_seldom import given_back
from rules.fixes.changes import per_step, without_waiting
from rules.remedies.memory import kept_memory
from rules.replay.replay import Replay


@fix
class KeepMemory:
    """Calls of the driver that allocate and free."""

    id = "keep-memory"
    switches = ("expandable-segments",)
    explanation = """
When it applies
    Steps call the driver to allocate or free memory: cudaMalloc, cudaFree, cudaHostAlloc. Memory that is given back
    with each collection of garbage goes with that.

What is changed in the replay
    These calls are gone, and nothing waits for the GPU to free memory.

What makes it more or less
    How much the profiler adds to each call. Allocation forced by a model near the GPU's memory limit ends only with
    smaller tensors.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        nodes = (replay.host.call == Call.ALLOCATE) & ~given_back(analysis)
        if not nodes.any():
            return
        milliseconds = per_step(replay, float((replay.host.end - replay.host.start)[nodes].sum())) / 1e6
        often = per_step(replay, float(np.count_nonzero(nodes)))
        yield Proposal(
            title=(
                f"Reuse memory: {often:,.0f} calls {replay.in_step} allocate or free it, "
                f"{duration(milliseconds * 1e6)}"
            ),
            categories=(Category.ALLOCATOR,),
            culprit=analysis.trace.name(int(replay.host.event[np.flatnonzero(nodes)[0]])),
            remedy=kept_memory(analysis.trace),
            expected=without_waiting(nodes),
        )
