"""Programs on the CPU alone that make tensors from Python's numbers one after another."""

from __future__ import annotations

from collections.abc import Iterable

from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import clip
from rules.analysis.cpu.cpu_time import CpuTime
from rules.analysis.stretches.python_values import MAX_APART_NS, MIN_TIMES, from_python
from rules.findings.base import Finding, rule
from rules.losses.cpu_work import MIN_SHARE, MIN_STEPS, CpuRule, line_or_operator, longest_of, unknown_lines
from rules.remedies.host_work import ROWS_AT_ONCE


@rule
class CpuPythonValues(CpuRule):
    id = "cpu-python-values"
    explanation = f"""
What it found
    Only the CPU was recorded, and much of a step makes tensors from numbers or short lists of Python, one after
    another, as torch.stack([torch.tensor(row) for row in rows]) does.

Why it costs time
    Each torch.tensor() takes a few microseconds, and joining thousands of small tensors as long again. One tensor
    made of all rows takes one call.

How it decides
    torch.tensor() is called at least {MIN_TIMES} times in a row, with nothing in between but what moves and joins its
    results, and never {duration(MAX_APART_NS)} or more of anything else. All of that time is counted, less the
    profiler's overhead. Below {percent(MIN_SHARE)} of the step nothing is reported, nor if fewer than {MIN_STEPS} steps
    were found.

What to try
    Keep the data in arrays or tensors and pick a batch by index, or make one tensor of all rows.

When it is wrong
    If each value is computed by Python code that takes most of this time: that code stays.
"""

    def of_steps(self, analysis: Analysis, time: CpuTime) -> Iterable[Finding]:
        found = from_python(analysis.trace, time.operators)
        within = clip(found.spans, *time.window)
        lost = min(round(time.without_recorder(within) * time.slowed), time.step_ns)
        if lost < MIN_SHARE * time.step_ns:
            return
        steps, step_ns = time.steps, time.step_ns / time.steps
        yield self.lost(
            analysis,
            time,
            lost,
            "Tensors are built from Python values one at a time",
            account=f"torch.tensor() is called {found.made / steps:,.0f} times a step, each time for a number or a "
            f"few, and the results are joined. That takes {duration(lost / steps)} of the {duration(step_ns)} of a "
            f"step. Built all at once, a step would take {duration(step_ns - lost / steps)} at best.",
            remedy=ROWS_AT_ONCE,
            culprit=line_or_operator(analysis, time, "torch.tensor", within),
            evidence=longest_of(time, within, "tensors built one at a time"),
            unknown=unknown_lines(analysis.trace, "builds them"),
        )
