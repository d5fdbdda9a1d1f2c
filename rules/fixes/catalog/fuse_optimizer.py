"""The optimizer updates all parameters in a few kernels instead of several for each parameter."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.names.calls import Call
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import durations_times, host_time_times, together
from rules.fixes.optimizers import optimizer_calls
from rules.remedies.launching import DENSE_GRADIENTS, FUSED_OPTIMIZER
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of
from rules.terms.shares import MAJORITY

MANY = 100  # launches of one optimizer step
FUSED_TIME = 0.4  # of the kernels' time: everything is read and written once (AdamW: 7 instead of 18 passes)
FUSED_HOST = 0.1  # of the host's time: a few launches for lists of parameters


@fix
class FuseOptimizer:
    """Optimizers that launch kernels for each parameter."""

    id = "fuse-optimizer"
    switches = ("fused-optimizer", "foreach-optimizer", "no-optimizer")
    explanation = """
When it applies
    An optimizer's step launches more than 100 kernels. Without operators and ranges it is known by the kernels of Adam.

What is changed in the replay
    Its kernels take 0.4 of their time, and its host work takes a tenth.

What makes it more or less
    Whether the GPU or the CPU is the limit there; the replay accounts for that.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        around = surroundings_of(analysis)
        nodes = optimizer_calls(analysis) & (replay.waits.target < 0)
        launches = (
            np.count_nonzero(nodes & (replay.host.call == Call.LAUNCH))
            / max(replay.steps, 1)
            / len(replay.spans)
        )
        if launches < MANY:
            return
        operations = nodes[replay.device.launch] & (replay.device.meeting < 0)
        sparse = nodes & around.inside(lambda name: name.startswith("Optimizer.step#Sparse"))
        is_sparse = np.count_nonzero(sparse) > MAJORITY * np.count_nonzero(nodes)
        yield Proposal(
            title=(
                f"Make the gradients dense: the sparse optimizer's step launches {launches:,.0f} kernels"
                if is_sparse
                else f"Use a fused optimizer: its step launches {launches:,.0f} kernels"
            ),
            categories=(Category.LAUNCH_BOUND,),
            culprit="sparse optimizer" if is_sparse else "optimizer",
            remedy=DENSE_GRADIENTS if is_sparse else FUSED_OPTIMIZER,
            expected=together(durations_times(operations, FUSED_TIME), host_time_times(nodes, FUSED_HOST)),
            depends_on="how many rows the tables have: a dense step updates all of them" if is_sparse else "",
        )
