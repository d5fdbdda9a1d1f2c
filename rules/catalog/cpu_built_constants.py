"""A program on the CPU alone that builds the same constants in each step."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, length, measure
from rules.analysis.cpu.cpu_time import CpuTime
from rules.findings.base import Finding, rule
from rules.losses.built_constants import MAX_LENGTH, Built, built
from rules.losses.cpu_rule import CpuRule, line_or_operator, unknown_lines
from rules.losses.cpu_work import MAX_NAMED, MIN_SHARE, MIN_STEPS, longest_of
from rules.remedies.constants import BUILT_ONCE
from rules.wording.phrases import listed


@rule
class CpuBuiltConstants(CpuRule):
    """Tables of positions, masks, windows and grids."""

    id = "cpu-built-constants"
    explanation = f"""
What it found
    Only the CPU was recorded, and each step builds the same tensors again from sizes alone: a table of positions, a
    mask, a window, a grid of coordinates.

Why it costs time
    The result is the same each time. Such tables are often computed with sines, powers and copies that cost as much as
    a layer.

How it decides
    From an operator that is handed no tensor (arange, linspace, full, eye, hann_window ...) on, the following ones that
    are handed nothing but tensors of the shapes made so far, at most {MAX_LENGTH} of them, and none that autograd
    numbers in between. At least one must be more than an allocation: zeros alone do not count, as they may hold
    state or results, nor do random numbers. Below {percent(MIN_SHARE)} of the step nothing is reported, nor if fewer
    than {MIN_STEPS} steps were found, or a step builds none. Shapes must be recorded.

What to try
    Build them once and keep them: register_buffer in __init__, or functools.cache on a function of the sizes.

When it is wrong
    If sizes are new in each call, as with batches of other lengths: keep the largest and slice it.
"""

    def of_steps(self, analysis: Analysis, time: CpuTime) -> Iterable[Finding]:
        trace, steps = analysis.trace, time.steps
        made = built(trace, time.operators)
        if not len(made.operators) or (measure(made.spans, *_steps(time)) == 0).any():
            return
        # few records in much time: less of it is the profiler's than of other operators
        as_recorded = length(made.spans) / max(time.window_ns, 1) * time.step_ns
        lost = max(time.without_recorder(made.spans), round(as_recorded))
        if lost < MIN_SHARE * time.step_ns:
            return
        yield self.lost(
            analysis,
            time,
            lost,
            "Constants are built again in each step",
            account=(
                f"{len(made.operators) / steps:,.0f} operators a step, such as {_longest(analysis, made)}, are handed "
                f"no data: they build the same tensors again. That takes {duration(lost / steps)} of the "
                f"{duration(time.step_ns / steps)} of a step."
            ),
            remedy=BUILT_ONCE,
            culprit=line_or_operator(analysis, time, trace.name(int(made.operators[0])), made.spans),
            evidence=longest_of(time, made.spans, "builds a constant"),
            unknown=unknown_lines(analysis.trace, "build them"),
        )


def _steps(time: CpuTime) -> Intervals:
    begins = time.step_begins
    return begins, np.append(begins[1:], time.window[1])


def _longest(analysis: Analysis, made: Built) -> str:
    table = analysis.trace.events
    names, which = np.unique(table.name[made.operators], return_inverse=True)
    spent = np.bincount(which.reshape(-1), table.duration[made.operators])
    order = np.argsort(-spent, kind="stable")[:MAX_NAMED]
    return listed([analysis.trace.strings[names[each]] for each in order.tolist()])
