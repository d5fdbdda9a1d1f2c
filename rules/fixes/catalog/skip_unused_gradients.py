"""No gradients are computed for a network that is not trained."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rules.analysis.analysis import Analysis
from rules.analysis.stretches.unneeded_gradients import unneeded_gradients
from rules.fixes.backward import autograd_functions
from rules.fixes.base import Proposal, fix
from rules.fixes.forms.unused_gradients import without_gradients
from rules.replay.replay import Replay


@fix
class SkipUnusedGradients:
    """A frozen network that is run with gradients."""

    id = "skip-unused-gradients"
    explanation = """
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
        found = unneeded_gradients(analysis)
        nodes = np.isin(autograd_functions(analysis), found.functions)
        if nodes[replay.device.launch].any():
            yield without_gradients(replay, nodes, found.parameters)
