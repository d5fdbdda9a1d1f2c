"""A program on the CPU alone that computes its forward pass a second time inside the backward pass."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import EventKind
from parsers.model.names.per_name import named
from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.innermost import Innermost
from rules.analysis.arithmetic.intervals import Intervals, clip, union
from rules.analysis.cpu.cpu_time import CpuTime
from rules.analysis.names.operators import FORWARD, is_autograd_function
from rules.findings.base import Category, Finding, rule
from rules.losses.cpu_rule import CpuRule, line_or_operator
from rules.losses.cpu_work import MIN_SHARE, MIN_STEPS, longest_of
from rules.remedies.cpu_work import COMPUTED_ONCE


@rule
class CpuComputedTwice(CpuRule):
    """Activation checkpointing on the CPU."""

    id = "cpu-computed-twice"
    category = Category.SLOW_OPERATOR
    explanation = f"""
What it found
    Only the CPU was recorded, and operators of the forward pass run again inside functions of the backward pass, as
    activation checkpointing makes them.

Why it costs time
    The forward pass is computed twice. That saves memory, of which a CPU's machine usually has enough.

How it decides
    In each function of the backward pass, the time from its first operator of the forward pass (linear, conv2d,
    layer_norm, softmax ...) to its last one. Below {percent(MIN_SHARE)} of the step nothing is reported, nor if fewer
    than {MIN_STEPS} steps were found.

What to try
    Keep the activations: call the blocks directly, or checkpoint only as many of them as memory requires.

When it is wrong
    If the machine's memory has no room for the activations; how full it is was not recorded.
"""

    def of_steps(self, analysis: Analysis, time: CpuTime) -> Iterable[Finding]:
        again = _computed_again(time)
        lost = time.without_recorder(again)
        if lost < MIN_SHARE * time.step_ns:
            return
        steps = time.steps
        yield self.lost(
            analysis,
            time,
            lost,
            "Activations are computed twice",
            account="The backward pass computes parts of the forward pass again, "
            f"{_times(len(again[0]) / steps)} a step. That takes {duration(lost / steps)} of the "
            f"{duration(time.step_ns / steps)} of a step.",
            remedy=COMPUTED_ONCE,
            culprit=line_or_operator(analysis, time, "activation checkpointing", again),
            evidence=longest_of(time, again, "forward pass inside the backward pass"),
            unknown=("Whether memory has room for the activations.",),
        )


def _times(count: float) -> str:
    return "once" if round(count) == 1 else f"{count:,.0f} times"


def _computed_again(time: CpuTime) -> Intervals:
    """From the first to the last operator of the forward pass in each function of the backward pass."""
    trace, table = time.trace, time.trace.events
    events = time.activity.of_kind(EventKind.CPU_OP)
    functions = events[named(trace, events, is_autograd_function)]
    forward = events[named(trace, events, FORWARD.__contains__)]
    around = Innermost.of(trace, functions).at(table.start[forward])
    forward, around = forward[around >= 0], around[around >= 0]
    found, which = np.unique(around, return_inverse=True)
    first, last = np.full(len(found), np.iinfo(np.int64).max), np.zeros(len(found), np.int64)
    np.minimum.at(first, which, table.start[forward])
    np.maximum.at(last, which, table.end[forward])
    return clip(union(first, last), *time.window)
