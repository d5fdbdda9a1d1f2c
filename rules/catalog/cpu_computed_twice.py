"""A program on the CPU alone that computes its forward pass a second time inside the backward pass."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from parsers.model import EventKind
from parsers.model.names.per_name import named
from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.innermost import Innermost
from rules.analysis.arithmetic.intervals import Intervals, clip, union
from rules.analysis.cpu.cpu_time import CpuTime, cpu_time
from rules.analysis.names.operators import AUTOGRAD_FUNCTION, FORWARD
from rules.findings.base import Category, Finding, Need, Rule, rule
from rules.losses.cpu_work import MIN_SHARE, MIN_STEPS, culprit_of, longest_of, own_lines
from rules.remedies.cpu_work import COMPUTED_ONCE
from rules.terms.culprit import Culprit, CulpritKind
from rules.wording.headline import Headline
from rules.wording.phrases import of_every_step


@rule
class CpuComputedTwice(Rule):
    """Activation checkpointing on the CPU."""

    id: ClassVar[str] = "cpu-computed-twice"
    category: ClassVar[Category] = Category.SLOW_OPERATOR
    needs: ClassVar[frozenset[Need]] = frozenset({Need.CPU_EVENTS})
    explanation: ClassVar[str] = f"""
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

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        time = cpu_time(analysis)
        if time is None or not time.is_all or time.steps < MIN_STEPS:
            return
        again = _computed_again(time)
        lost = time.without_recorder(again)
        if lost < MIN_SHARE * time.step_ns:
            return
        trace, steps = analysis.trace, time.steps
        lane = int(trace.events.lane[time.operators[0]])
        yield self.finding(
            analysis,
            ceiling_ns=lost,
            window_ns=time.step_ns,
            headline=Headline("Activations are computed twice", of_every_step(analysis, lost / time.step_ns)),
            account="The backward pass computes parts of the forward pass again, "
            f"{_times(len(again[0]) / steps)} a step. That takes {duration(lost / steps)} of the "
            f"{duration(time.step_ns / steps)} of a step.",
            remedy=COMPUTED_ONCE,
            culprit=culprit_of(
                analysis,
                own_lines(analysis, time, again),
                Culprit(CulpritKind.OPERATOR, "activation checkpointing"),
            ),
            evidence=longest_of(lane, again, "forward pass inside the backward pass"),
            unknown=("Whether memory has room for the activations.",),
        )


def _times(count: float) -> str:
    return "once" if round(count) == 1 else f"{count:,.0f} times"


def _computed_again(time: CpuTime) -> Intervals:
    """From the first to the last operator of the forward pass in each function of the backward pass."""
    trace, table = time.trace, time.trace.events
    events = time.activity.events[time.activity.kind == EventKind.CPU_OP]
    functions = events[named(trace, events, lambda name: name.startswith(AUTOGRAD_FUNCTION))]
    forward = events[named(trace, events, FORWARD.__contains__)]
    around = Innermost.of(trace, functions).at(table.start[forward])
    forward, around = forward[around >= 0], around[around >= 0]
    found, which = np.unique(around, return_inverse=True)
    first, last = np.full(len(found), np.iinfo(np.int64).max), np.zeros(len(found), np.int64)
    np.minimum.at(first, which, table.start[forward])
    np.maximum.at(last, which, table.end[forward])
    return clip(union(first, last), *time.window)
