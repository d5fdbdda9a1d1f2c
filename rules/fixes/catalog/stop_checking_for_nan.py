"""The backward pass checks no gradient for NaN, and the forward pass notes down no stacks."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.backward import nan_checks, stacks_ns
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import less_host_time, most_per_step, together, without_calls, without_waiting
from rules.remedies.host_work import NO_ANOMALY_DETECTION
from rules.replay.replay import Replay


@fix
class StopCheckingForNan:
    """Anomaly detection of autograd."""

    id = "stop-checking-for-nan"
    explanation = """
When it applies
    At least 20 functions of the backward pass in a step, and half of them, check their result for NaN.

What is changed in the replay
    The checks are gone, with their kernels and the waits for the answers. Operators of the forward pass that have such
    a function lose the stretches of at least 50 us in which nothing else is recorded, but for 20 us: there they note
    down a stack.

What makes it more or less
    Stacks that take less than 50 us each stay.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        checks = nan_checks(analysis)
        if not checks.any():
            return
        answers = int(np.count_nonzero(checks & (replay.waits.target >= 0)) / max(replay.steps, 1))
        stacks = stacks_ns(analysis)
        noting = most_per_step(replay, stacks)
        noted = f", and noting down stacks takes {duration(noting)}" if noting else ""
        yield Proposal(
            title=(
                f"Turn anomaly detection off: the backward pass checks for NaN {answers:,} times {replay.in_step}"
                f"{noted}"
            ),
            categories=(Category.SYNCHRONIZATION, Category.LAUNCH_BOUND, Category.HOST_BOUND),
            culprit="anomaly detection",
            problem="Anomaly detection is on",
            remedy=NO_ANOMALY_DETECTION.after(
                "Anomaly detection waits for the GPU after every function of the backward pass, and records a "
                "stack for every function of the forward pass."
            ),
            expected=together(
                without_calls(replay, checks), without_waiting(checks), less_host_time(stacks > 0, stacks)
            ),
        )
