"""A program on the CPU alone that drops values at random though it trains nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from parsers.model import EventKind
from parsers.model.late.regex import regex
from parsers.model.names.per_name import named
from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.innermost import Innermost
from rules.analysis.arithmetic.intervals import Intervals, clip, union
from rules.analysis.cpu.cpu_time import CpuTime, cpu_time
from rules.analysis.names.operators import AUTOGRAD_FUNCTION
from rules.findings.base import Category, Finding, Need, Rule, rule
from rules.losses.cpu_work import MIN_SHARE, MIN_STEPS, culprit_of, longest_of, own_lines
from rules.remedies.remedy import remedy
from rules.terms.culprit import Culprit, CulpritKind
from rules.wording.headline import Headline
from rules.wording.phrases import of_every_step
from rules.wording.words import for_pytorch

_DROPOUT = regex(r"aten::(native_|feature_|alpha_|feature_alpha_)?dropout_?$")
_DRAWS = regex(r"aten::(bernoulli_?|native_dropout)$")
EVALUATE = remedy(
    for_pytorch("Call model.eval() before the model is used: dropout then does nothing, and results repeat."),
    for_pytorch("Run it under torch.inference_mode(): autograd then keeps nothing for a backward pass."),
    code=for_pytorch("""model.eval()
with torch.inference_mode():
    answers = model(batch)"""),
)


@rule
class CpuActiveDropout(Rule):
    """A model in training mode that only answers."""

    id: ClassVar[str] = "cpu-active-dropout"
    category: ClassVar[Category] = Category.HOST_BOUND
    needs: ClassVar[frozenset[Need]] = frozenset({Need.CPU_EVENTS})
    explanation: ClassVar[str] = f"""
What it found
    Only the CPU was recorded, and layers of dropout draw random numbers though no backward pass runs.

Why it costs time
    A random number for each value takes longer than many layers. Outside training it also makes answers worse, and
    different each time.

How it decides
    The time of dropouts inside of which random numbers are drawn, where the recording has no function of a backward
    pass. Below {percent(MIN_SHARE)} of the step nothing is reported, nor if fewer than {MIN_STEPS} steps were found.

What to try
    model.eval(), and torch.inference_mode() around the calls.

When it is wrong
    If dropout is wanted, as to estimate how sure a model is.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        time = cpu_time(analysis)
        if time is None or not time.is_all or time.steps < MIN_STEPS:
            return
        drops = _dropping(time)
        lost = time.without_recorder(drops)
        if lost < MIN_SHARE * time.step_ns:
            return
        trace, steps = analysis.trace, time.steps
        lane = int(trace.events.lane[time.operators[0]])
        yield self.finding(
            analysis,
            ceiling_ns=lost,
            window_ns=time.step_ns,
            headline=Headline(
                "Dropout is active, though nothing is trained", of_every_step(analysis, lost / time.step_ns)
            ),
            account="No backward pass was recorded, but random numbers are drawn for "
            f"{_times(len(drops[0]) / steps)} a step. That takes {duration(lost / steps)} of the "
            f"{duration(time.step_ns / steps)} of a step.",
            remedy=EVALUATE,
            culprit=culprit_of(
                analysis, own_lines(analysis, time, drops), Culprit(CulpritKind.OPERATOR, "aten::dropout")
            ),
            evidence=longest_of(lane, drops, "dropout"),
            unknown=("Whether dropout is wanted, as to estimate how sure a model is.",),
        )


def _times(count: float) -> str:
    return "one dropout" if round(count) == 1 else f"{count:,.0f} dropouts"


def _dropping(time: CpuTime) -> Intervals:
    """Dropouts that draw random numbers, where nothing runs backward."""
    trace, table = time.trace, time.trace.events
    everywhere = table.of_kind(EventKind.CPU_OP)
    events = time.activity.events[time.activity.kind == EventKind.CPU_OP]
    if named(trace, everywhere, lambda name: name.startswith(AUTOGRAD_FUNCTION)).any():
        events = events[:0]
    dropouts = events[named(trace, events, lambda name: _DROPOUT.match(name) is not None)]
    draws = events[named(trace, events, lambda name: _DRAWS.match(name) is not None)]
    around = Innermost.of(trace, dropouts).at(table.start[draws])
    found = np.unique(around[around >= 0])
    return clip(union(table.start[found], table.end[found]), *time.window)
