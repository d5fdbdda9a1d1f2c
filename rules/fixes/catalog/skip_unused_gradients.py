"""No gradients are computed for a network that is not trained."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.stretches.unneeded_gradients import unneeded_gradients
from rules.findings.category import Category
from rules.fixes.backward import autograd_functions
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import without_calls
from rules.remedies.gradients import NO_UNUSED_GRADIENTS
from rules.replay.replay import Replay


@fix
class SkipUnusedGradients:
    """A frozen network that is run with gradients."""

    id: ClassVar[str] = "skip-unused-gradients"
    explanation: ClassVar[str] = """
When it applies
    In each of at least two steps with an optimizer's step and one backward pass, the gradients of some parameters are
    stored anew, and others are added to older ones: no optimizer clears those. In the forward pass they come before
    all parameters whose gradients are stored.

What is changed in the replay
    The backward pass ends before them: its functions for the operators of the forward pass up to there are gone.

What makes it more or less
    Without gradients, the forward pass of this part also takes less CPU time and keeps no activations, which is not
    counted. Where the gradients are used in a way that no recording shows, such as a hook, nothing can be left out.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        device, found = replay.device, unneeded_gradients(analysis)
        nodes = np.isin(autograd_functions(analysis), found.functions)
        operations = nodes[device.launch]
        if not operations.any():
            return
        share = float(device.duration[operations].sum() / max(device.duration.sum(), 1.0))
        parameters = f"{found.parameters:,} parameter{'s' if found.parameters != 1 else ''}"
        yield Proposal(
            title=(
                f"Do not compute gradients for {parameters} that no optimizer updates: "
                f"{percent(share)} of the GPU's time"
            ),
            categories=(Category.SLOW_OPERATOR, Category.GPU_BOUND, Category.LAUNCH_BOUND),
            culprit="gradients that nobody uses",
            problem="Gradients are computed that nobody uses",
            remedy=NO_UNUSED_GRADIENTS,
            expected=without_calls(replay, nodes),
        )
