"""A program on the CPU alone that computes gradients for a network that it does not train."""

from __future__ import annotations

from collections.abc import Iterable

from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import clip, union
from rules.analysis.cpu.cpu_time import CpuTime
from rules.analysis.stretches.unneeded_gradients import unneeded_gradients
from rules.findings.base import Category, Finding, rule
from rules.losses.cpu_rule import CpuRule
from rules.losses.cpu_work import MAX_NAMED, MIN_SHARE
from rules.losses.lost_time import event_evidence
from rules.remedies.gradients import NO_UNUSED_GRADIENTS
from rules.terms.culprit import Culprit, CulpritKind


@rule
class CpuUnusedGradients(CpuRule):
    """A frozen network that is run with gradients, on the CPU."""

    id = "cpu-unused-gradients"
    category = Category.SLOW_OPERATOR
    steps_needed = 0
    explanation = f"""
What it found
    Only the CPU was recorded, and a part of the backward pass computes gradients that no optimizer uses.

Why it costs time
    A backward pass takes about twice as long as its forward pass. For a network that is not trained, such as a frozen
    backbone or a teacher, it is done for nothing.

How it decides
    An optimizer clears its parameters' gradients, so in each step they are stored anew. Gradients that are added to
    older ones in every step belong to no optimizer. In a step with one backward pass, what belongs to operators of the
    forward pass before the first parameter with a stored gradient can only lead to such gradients. Below
    {percent(MIN_SHARE)} of the step nothing is reported.

What to try
    Run that part under torch.no_grad(), or call requires_grad_(False) on it.

When it is wrong
    If a hook uses these gradients, or code that runs less often than each step.
"""

    def of_steps(self, analysis: Analysis, time: CpuTime) -> Iterable[Finding]:
        found = unneeded_gradients(analysis)
        if not len(found.functions):
            return
        table, events = analysis.trace.events, found.functions
        lost = time.without_recorder(clip(union(*table.spans(events)), *time.window))
        if lost < MIN_SHARE * time.step_ns:
            return
        parameters = f"{found.parameters:,} parameter{'s' if found.parameters != 1 else ''}"
        steps = time.steps
        yield self.lost(
            analysis,
            time,
            lost,
            "Gradients are computed that nobody uses",
            account=f"The backward pass goes on to {parameters} whose gradients only add up from "
            "step to step: no optimizer updates or clears them. "
            f"That takes {duration(lost / steps)} of the {duration(time.step_ns / steps)} of a step.",
            remedy=NO_UNUSED_GRADIENTS,
            culprit=Culprit(CulpritKind.OPERATOR, "gradients that nobody uses"),
            evidence=event_evidence(analysis.trace, events, MAX_NAMED),
            unknown=("Whether a hook, or code that runs less often, uses these gradients.",),
        )
