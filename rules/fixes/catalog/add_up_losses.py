"""Several losses are sent back through the same layers at once."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rules.analysis.analysis import Analysis
from rules.analysis.stretches.backward_again import backward_again
from rules.findings.category import Category
from rules.fixes.backward import autograd_functions
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import without_calls
from rules.remedies.gradients import ONE_BACKWARD
from rules.replay.replay import Replay

MIN_FUNCTIONS = 10  # of a step that run again: fewer are a shared head


@fix
class AddUpLosses:
    """A backward pass for each loss."""

    id = "add-up-losses"
    explanation = """
When it applies
    At least 10 functions of the backward pass in a step run again for the same operators of the forward pass, without
    an update of the parameters in between, and the gradients are added to those of the pass before.

What is changed in the replay
    Each function runs once for an operator; the later passes through it are gone, with what they add up.

What makes it more or less
    Whether each pass needs gradients of its own, for weights or clipping by task: then they cannot be one.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        found = backward_again(analysis)
        nodes = np.isin(autograd_functions(analysis), found.functions)
        steps = max(replay.steps * len(replay.spans), 1)
        again = len(np.unique(autograd_functions(analysis)[nodes]))
        if again < MIN_FUNCTIONS * steps:
            return
        yield Proposal(
            title=f"Add up the losses: the backward pass runs {found.passes} times through the same layers",
            categories=(Category.SLOW_OPERATOR, Category.GPU_BOUND, Category.LAUNCH_BOUND),
            culprit="backward passes through the same layers",
            problem=f"The backward pass runs {found.passes} times through the same layers",
            remedy=ONE_BACKWARD,
            expected=without_calls(replay, nodes),
        )
