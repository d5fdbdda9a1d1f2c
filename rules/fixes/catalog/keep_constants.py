"""Tables, masks and grids that follow from sizes alone are built once, not in each call."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import CopyKind
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, union
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import copies, less_host_time, together, without_calls
from rules.losses.built_constants import MAX_LENGTH, Built, built
from rules.losses.cpu_work import MIN_STEPS
from rules.remedies.constants import BUILT_ONCE
from rules.replay.chance import time_within
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of


@fix
class KeepConstants:
    """Tables of positions, masks, windows and grids of coordinates."""

    id = "keep-constants"
    explanation = f"""
When it applies
    In every one of at least two steps, operators build tensors from sizes alone: one that is handed no tensor (arange,
    linspace, full, eye ...), and those that follow and are handed nothing but tensors of the shapes made so far, at
    most {MAX_LENGTH} in a row. Zeros alone do not count, nor do random numbers. Shapes must be recorded.

What is changed in the replay
    These operators are gone, with what they launch and copy.

What makes it more or less
    Whether sizes are the same in each call; else the largest is kept, and a slice of it taken.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        host, device = replay.host, replay.device
        operator = surroundings_of(analysis).whole_operator
        nodes = np.zeros(len(host), bool)
        found: dict[int, Built] = {}
        calls = np.flatnonzero(operator >= 0)
        for activity, mine in analysis.threads.by_thread(host.event[calls]):
            made = built(analysis.trace, activity.whole_operators)
            nodes[calls[mine]] = np.isin(operator[calls[mine]], made.operators)
            if len(made.operators):
                found[int(analysis.threads.of_events(made.operators[:1])[0])] = made

        def spans(thread: int) -> Intervals:
            return union(*found[thread].spans) if thread in found else union(*_NONE)

        within = time_within(host, spans)
        steps = np.unique(host.step[nodes | (within > 0)])
        if len(steps) < max(replay.steps, MIN_STEPS):
            return
        first = next(iter(found.values())).operators[0]
        sent = nodes[device.launch] & copies(replay, CopyKind.H2D)
        yield Proposal(
            title="Build constants once: tables, masks or grids that follow from sizes alone are built in each step",
            categories=_ON_CPU if sent.any() else _ON_GPU,
            culprit=analysis.trace.name(int(first)),
            problem="Constants are built again in each step",
            remedy=BUILT_ONCE,
            expected=together(without_calls(replay, nodes, gaps=0.0), less_host_time(within > 0, within)),
        )


_ON_GPU = Category.LAUNCH_BOUND, Category.SLOW_OPERATOR, Category.MEMORY_BOUND_KERNELS
_ON_CPU = Category.HOST_BOUND, Category.COPY_H2D
_NONE = np.empty(0, np.int64), np.empty(0, np.int64)
