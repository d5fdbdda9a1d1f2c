"""An operator that reaches little of its roof is done by a kernel that reaches a usual part of it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.late.regex import regex
from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import durations_times, per_step
from rules.kernels.operator_roofs import MEMORY_ROOF
from rules.kernels.slow_operators import NORMAL_SHARE, slow_operators
from rules.remedies.kernels import faster_operator
from rules.replay.replay import Replay

# In channels_last the gradients of enlargements take a twelfth to a third of their time, batch normalisation a fifth to
# a half, pooling all of it or four fifths: the operators of the explanation of slow-operators, on one H100.
_GAIN_BY_LAYOUT = regex(r"upsample|batch_norm")
LEFT, LEFT_OF_OTHERS = 0.4, 0.7
MIN_SHARE = 0.02  # of the GPU's time, by operators of one name


@fix
class UseFasterKernels:
    """Operators that are slow by themselves."""

    id = "use-faster-kernels"
    switches = ("cudnn-benchmark", "sdpa-backend")
    explanation = """
When it applies
    An operator reaches less than a tenth of what its shapes and types allow: see the rule slow-operators.

What is changed in the replay
    Enlargements of images and batch normalisation take 0.4 of their time, as they do in another layout; other operators
    0.7.

What makes it more or less
    Whether there is a faster kernel for it: if not, nothing is gained; at most it reaches half of its roof, as most
    operators do.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        """One for the operators of one name."""
        device = replay.device
        found = [slow_operators(analysis, each) for each in analysis.active_devices]
        rows = [pair for each in found for pair in zip(each.rows, each.kernels, strict=True)]
        whole = max(float(device.duration[device.meeting < 0].sum()), 1.0)
        for name in dict.fromkeys(row.name for row, _ in rows):
            best = np.ones(len(device))
            share, roof = 0.0, ""
            for row, kernels in rows:
                if row.name == name:
                    best[np.isin(device.event, kernels)] = row.share / NORMAL_SHARE
                    share, roof = (share, roof) if share else (row.share, row.roof)
            slow = best < 1.0
            took = float(device.duration[slow].sum())
            if took < MIN_SHARE * whole:
                continue
            left = LEFT if _GAIN_BY_LAYOUT.search(name) else LEFT_OF_OTHERS
            best = np.where(slow, np.minimum(best, left), 1.0)
            what = "the memory's peak" if roof == MEMORY_ROOF else f"the peak of {roof}"
            yield Proposal(
                key=name,
                title=(
                    f"Speed up {name}: it reaches {percent(share)} of {what}, {duration(per_step(replay, took))} "
                    f"{replay.in_step}"
                ),
                categories=(Category.SLOW_OPERATOR,),
                culprit=name,
                remedy=faster_operator(name),
                expected=durations_times(slow, left),
                low=durations_times(slow, 1.0),
                high=durations_times(slow, best),
                depends_on="whether there is a faster kernel for it in another layout, type or mode",
            )
