"""A program on the CPU alone that sends several losses back through the same layers one by one."""

from __future__ import annotations

from collections.abc import Iterable

from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import clip, union
from rules.analysis.cpu.cpu_time import CpuTime
from rules.analysis.stretches.backward_again import backward_again
from rules.findings.base import Category, Finding, rule
from rules.losses.cpu_rule import CpuRule
from rules.losses.cpu_work import MAX_NAMED, MIN_SHARE
from rules.losses.lost_time import event_evidence
from rules.remedies.gradients import ONE_BACKWARD
from rules.terms.culprit import Culprit, CulpritKind


@rule
class CpuBackwardAgain(CpuRule):
    """A backward pass for each loss, on the CPU."""

    id = "cpu-backward-again"
    category = Category.SLOW_OPERATOR
    steps_needed = 0
    explanation = f"""
What it found
    Only the CPU was recorded, and several losses are sent back through the same layers one by one.

Why it costs time
    Each pass computes the gradients of the shared layers again. Gradients of a sum are the sum of the gradients, so
    that one pass of the added losses gives the same.

How it decides
    A function of the backward pass has the number of its operator of the forward pass. The same number comes again
    without an update of the parameters in between, and the gradients are added to those of the pass before. Below
    {percent(MIN_SHARE)} of the step nothing is reported.

What to try
    Add up the losses, and call backward() once without retain_graph=True.

When it is wrong
    If each task's gradients are needed for themselves, for weights or clipping by task.
"""

    def of_steps(self, analysis: Analysis, time: CpuTime) -> Iterable[Finding]:
        found = backward_again(analysis)
        if not len(found.functions):
            return
        table, events = analysis.trace.events, found.functions
        lost = time.without_recorder(clip(union(*table.spans(events)), *time.window))
        if lost < MIN_SHARE * time.step_ns:
            return
        steps = time.steps
        yield self.lost(
            analysis,
            time,
            lost,
            f"The backward pass runs {found.passes} times through the same layers",
            account="Several losses are sent back one after another through layers that they share. The passes after "
            f"the first take {duration(lost / steps)} of the {duration(time.step_ns / steps)} of a step.",
            remedy=ONE_BACKWARD,
            culprit=Culprit(CulpritKind.OPERATOR, "backward passes through the same layers"),
            evidence=event_evidence(analysis.trace, events, MAX_NAMED),
            unknown=("Whether each loss needs gradients of its own, for weights or clipping by task.",),
        )
