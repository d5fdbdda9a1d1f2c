"""Every rank gets equally much work in each step."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.arrays import F64
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import durations_times
from rules.remedies.communication import EQUAL_WORK
from rules.replay.replay import Replay

# the ranks' compute of all steps may differ by this part: then nobody has more work for good
SAME_IN_ALL = 0.1
MIN_SPREAD = 1.1  # the largest over the mean, in the median step


@fix
class EqualLengths:
    """Compute that differs by rank in each step, and evens out over the steps."""

    id = "equal-lengths"
    explanation = """
When it applies
    A different rank computes longest in each step, by at least a tenth, but over all steps they compute equally long.

What is changed in the replay
    In each step, every rank's kernels take the mean time of all ranks.

What makes it more or less
    Sorting or packing by length also removes padding, which gives more.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        device, host = replay.device, replay.host
        spans, steps = len(replay.spans), replay.steps
        if spans < 2 or steps < 2 or not (device.meeting >= 0).any():
            return
        working = device.meeting < 0
        step = host.step[device.launch]
        compute = np.bincount(
            (device.span * steps + step)[working], device.duration[working], minlength=spans * steps
        ).reshape(spans, steps)
        mean = compute.mean(axis=0)
        if not mean.all():
            return
        whole = compute.sum(axis=1)
        spread = float(np.median(compute.max(axis=0) / mean))
        if spread < MIN_SPREAD or np.ptp(whole) > SAME_IN_ALL * whole.mean():
            return
        if len(np.unique(compute.argmax(axis=0))) < 2:
            return
        factor: F64 = (mean[None, :] / np.maximum(compute, 1.0))[device.span, step]
        yield Proposal(
            title=(
                f"Balance the work of all ranks in each step: the longest computes {percent(spread - 1)} longer "
                "than the mean"
            ),
            categories=(Category.LOAD_IMBALANCE, Category.STRAGGLER, Category.EXPOSED_COMMUNICATION),
            culprit="unequal batches",
            remedy=EQUAL_WORK.and_then("Pack several short sequences into one row instead of padding."),
            expected=durations_times(working, factor),
        )
