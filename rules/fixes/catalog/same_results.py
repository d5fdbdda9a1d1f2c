"""Results that are most likely the same as before: of a frozen network, and of a place that has not moved."""

from __future__ import annotations

from collections.abc import Iterable

from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import unchanged, without_calls
from rules.fixes.forms.same_results import evaluated_twice, unchanged_passes
from rules.fixes.forms.written import costly_calls
from rules.remedies.same_results import EVALUATE_ONCE, KEEP_RESULT
from rules.replay.replay import Replay

_AGAIN = (Category.RECOMPUTATION, Category.GPU_BOUND)


@fix
class KeepResult:
    id = "keep-result"
    explanation = """
When it applies
    The optimizer updates what is put into layers, and none of their weights. Operators with layers among them have no
    part in the backward pass: they begin with a layer, and neither copy, draw nor cut anything. That takes at least 5 %
    of the GPU's time. Shapes must be recorded.

What is changed in the replay
    All of that is gone.

What makes it more or less
    Whether it works on the same in each step, which no recording shows: if not, nothing is gained.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        nodes, share = costly_calls(analysis, replay, unchanged_passes(analysis, replay))
        if not share:
            return
        yield Proposal(
            title=f"Keep what the frozen network returned: {percent(share)} of the GPU's time runs it again",
            categories=_AGAIN,
            culprit="a frozen network",
            problem="A frozen network is run again in each step",
            remedy=KEEP_RESULT,
            expected=without_calls(replay, nodes),
            low=unchanged,
            depends_on="whether it is asked of the same in each step",
        )


@fix
class EvaluateOnce:
    id = "evaluate-once"
    explanation = """
When it applies
    Nothing is trained, and the same operators, with a product among them, run again and again, with an addition at the
    end of each. Behind every second one, and only there, a multiple of one tensor is added to another, as an integrator
    moves a place by a speed. The second ones take at least 5 % of the GPU's time. Shapes must be recorded.

What is changed in the replay
    Every second one is gone.

What makes it more or less
    Whether what they work on is the same in between, which no recording shows: if not, nothing is gained.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        nodes, share = costly_calls(analysis, replay, evaluated_twice(analysis, replay))
        if not share:
            return
        yield Proposal(
            title=f"Evaluate once per place: {percent(share)} of the GPU's time probably repeats the last evaluation",
            categories=_AGAIN,
            culprit="the same evaluation twice",
            problem="The same thing is evaluated twice in a row",
            remedy=EVALUATE_ONCE,
            expected=without_calls(replay, nodes),
            low=unchanged,
            depends_on="whether anything is moved in between",
        )
