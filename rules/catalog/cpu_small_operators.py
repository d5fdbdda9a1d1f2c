"""A program on the CPU alone whose operators are so small that calling them takes longer than running them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.cpu.cpu_time import TRIVIAL_PERCENTILE, CpuTime
from rules.analysis.idle.threads import READ_BACKS
from rules.findings.base import Category, Finding, rule
from rules.losses.cpu_loops import in_optimizer, item_loops
from rules.losses.cpu_rule import CpuRule, line_or_operator, unknown_lines
from rules.losses.cpu_work import MAX_NAMED, MIN_SEEN, MIN_SHARE, MIN_STEPS
from rules.losses.lost_time import evidence_of
from rules.remedies.cpu_work import VALUES_TOGETHER, fewer_calls
from rules.terms.shares import MAJORITY
from rules.wording.phrases import counted, listed

MIN_OPERATORS = 100
MANY_READ_BACKS = 0.25  # of the calls


@rule
class CpuSmallOperators(CpuRule):
    """What calling operators costs a program that runs on the CPU alone."""

    id = "cpu-small-operators"
    category = Category.LAUNCH_BOUND
    explanation = f"""
What it found
    Only the CPU was recorded, and much of a step is the cost of calling operators, not their computation.

Why it costs time
    Each call passes through Python, PyTorch's dispatcher and autograd, which takes a few microseconds however small
    its tensors are.

How it decides
    For each outermost operator it counts as much time as the shortest {TRIVIAL_PERCENTILE} % of them last, and the
    short times between two of them, less the profiler's overhead, with its part of what interrupts them. Below
    {percent(MIN_SHARE)} of the step nothing is reported, nor below {percent(MIN_SEEN)} without that part, nor with
    fewer than {MIN_OPERATORS} operators or {MIN_STEPS} steps.

What to try
    Work on larger tensors, fuse operators with torch.compile, use fused optimizers, and read many values at once.

When it is wrong
    Python stacks slow the code between operators down by more than is subtracted.
"""

    def of_steps(self, analysis: Analysis, time: CpuTime) -> Iterable[Finding]:
        if len(time.operators) < MIN_OPERATORS:
            return
        trace, steps = analysis.trace, time.steps
        names, counts = np.unique(trace.events.name[time.operators], return_counts=True)
        order = np.argsort(-counts, kind="stable")[:MAX_NAMED]
        called = {trace.strings[names[each]]: counts[each] / steps for each in order.tolist()}
        most = listed([f"{name} ({count:,.0f})" for name, count in called.items() if count >= 1])
        reads = counts[[trace.strings[name] in READ_BACKS for name in names.tolist()]].sum()
        reads_values = reads >= MANY_READ_BACKS * len(time.operators)
        if not reads_values and item_loops(analysis, time).of_operators >= MAJORITY:
            return  # the loop is told instead
        overhead_ns = time.overhead_ns(in_full=reads_values)
        if overhead_ns < time.step_ns * max(MIN_SHARE, MIN_SEEN * time.slowed):
            return
        mostly_optimizer = int(in_optimizer(time).sum()) >= MAJORITY * len(time.operators)
        took = float(np.median(trace.events.duration[time.operators]))
        example = time.operators[trace.events.name[time.operators] == names[order[0]]][:1]
        rest_ns = (time.step_ns - overhead_ns) / steps
        yield self.lost(
            analysis,
            time,
            overhead_ns,
            "Values are read one at a time" if reads_values else "Calling many small operators",
            account=(
                f"{counted(analysis, len(time.operators), 'operator')} are called one after another; the median "
                f"takes {duration(took)}. A step takes {duration(time.step_ns / steps)}, and without the cost of "
                f"the calls {duration(rest_ns)}. Called most often: {most}."
            ),
            remedy=VALUES_TOGETHER if reads_values else fewer_calls(in_optimizer=mostly_optimizer),
            culprit=line_or_operator(analysis, time, next(iter(called)), time.calling),
            evidence=evidence_of(trace, example),
            unknown=unknown_lines(analysis.trace, "call them"),
        )
