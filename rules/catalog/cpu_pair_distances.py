"""A program on the CPU alone that computes distances of all pairs by broadcasting."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import union
from rules.analysis.cpu.cpu_time import CpuTime
from rules.findings.base import Finding, rule
from rules.kernels.pair_distances import MIN_DIMENSIONS, MIN_RATIO, pair_distances
from rules.losses.cpu_rule import CpuRule, line_or_operator
from rules.losses.cpu_work import MIN_SHARE, MIN_STEPS, longest_of
from rules.remedies.distances import DISTANCES_BY_PRODUCT


@rule
class CpuPairDistances(CpuRule):
    """Differences of all pairs that are squared and summed, on the CPU."""

    id = "cpu-pair-distances"
    explanation = f"""
What it found
    Only the CPU was recorded, and two tensors are subtracted so that each row of one meets each row of the other; the
    differences are squared and summed.

Why it costs time
    The differences are as many times larger than the distances as a point has dimensions, and are written and read
    several times. A matrix product computes the same without them.

How it decides
    A subtraction whose result has at least {MIN_RATIO} times as many numbers as either side, of points of at least
    {MIN_DIMENSIONS} dimensions, followed by a square and a sum, or by a norm. The time until the next operator counts,
    too, where it is no longer than they are: large tensors are freed in it. One part of as many as a point has
    dimensions remains. Below {percent(MIN_SHARE)} of the step nothing is reported, nor if fewer than {MIN_STEPS} steps
    were found. Shapes must be recorded.

What to try
    torch.cdist, or the squares of both sides less twice their product.

When it is wrong
    If distances are small beside the numbers themselves: the product then loses digits.
"""

    def of_steps(self, analysis: Analysis, time: CpuTime) -> Iterable[Finding]:
        table, (operators, dimensions) = analysis.trace.events, pair_distances(analysis.trace, time.operators)
        begins, until = table.spans(operators)
        begin_next = np.append(table.start[time.operators], time.window[1])
        begin_next = begin_next[np.searchsorted(begin_next, until)]
        freed = begin_next - until <= until - begins  # what is no longer needed takes as long to give back
        spans = union(begins, np.where(freed, begin_next, until))
        took = time.without_recorder(spans)
        lost = round(took * (1 - 1 / dimensions))
        if lost < MIN_SHARE * time.step_ns:
            return
        yield self.lost(
            analysis,
            time,
            lost,
            "Distances are computed by broadcasting",
            took=took,
            account=f"All pairs of points of {dimensions:,} dimensions or more are subtracted, squared and summed. "
            f"That takes {duration(took / time.steps)} of the {duration(time.step_ns / time.steps)} of a step.",
            remedy=DISTANCES_BY_PRODUCT,
            culprit=line_or_operator(analysis, time, "aten::sub", spans),
            evidence=longest_of(time, spans, "differences of all pairs"),
        )
