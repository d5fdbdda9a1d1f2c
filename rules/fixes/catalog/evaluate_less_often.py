"""The model is evaluated less often between steps of its training."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import times, without_calls
from rules.fixes.evaluated import evaluating, evaluation_ns
from rules.remedies.host_work import EVALUATE_SELDOM
from rules.replay.replay import Replay

LEFT = 0.1  # of the work: ten times less often
LEFT_AT_MOST = 1 / 3  # a third as often


@fix
class EvaluateLessOften:
    """Forward passes of an evaluation."""

    id = "evaluate-less-often"
    switches = ("no-evaluation",)
    explanation = """
When it applies
    The model is evaluated between the recorded steps: a range or function of such a name holds no backward pass, or
    the trained layers run without gradients after the optimizer's step.

What is changed in the replay
    All calls of the evaluation, and what they launch, take a tenth of their time: it is done ten times less often.

What makes it more or less
    How often the evaluation is needed: at most a third as often as now, or not at all.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        nodes = evaluating(analysis)
        taken = evaluation_ns(replay) / max(replay.steps, 1)
        if not nodes.any():
            return
        launched = nodes[replay.device.launch]
        few = len(np.unique(replay.host.step[nodes])) < replay.steps
        yield Proposal(
            title=f"Evaluate less often: it takes {duration(taken)} {replay.in_step}",
            categories=(Category.EVALUATION, Category.HOST_BOUND, *((Category.VARIABILITY,) if few else ())),
            culprit="evaluation",
            remedy=EVALUATE_SELDOM,
            expected=times(nodes, launched, LEFT),
            low=times(nodes, launched, LEFT_AT_MOST),
            high=without_calls(replay, nodes),
            depends_on="how often the evaluation is needed",
        )
