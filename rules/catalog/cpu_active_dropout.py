"""A program on the CPU alone that drops values at random though it trains nothing."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import EventKind
from parsers.model.late.regex import regex
from parsers.model.names.per_name import named
from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.innermost import Innermost
from rules.analysis.arithmetic.intervals import Intervals, clip, union
from rules.analysis.cpu.cpu_time import CpuTime
from rules.analysis.names.operators import is_autograd_function
from rules.findings.base import Finding, rule
from rules.losses.cpu_rule import CpuRule, line_or_operator
from rules.losses.cpu_work import MIN_SHARE, MIN_STEPS, longest_of
from rules.remedies.remedy import remedy
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
class CpuActiveDropout(CpuRule):
    """A model in training mode that only answers."""

    id = "cpu-active-dropout"
    explanation = f"""
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

    def of_steps(self, analysis: Analysis, time: CpuTime) -> Iterable[Finding]:
        drops = _dropping(time)
        lost = time.without_recorder(drops)
        if lost < MIN_SHARE * time.step_ns:
            return
        steps = time.steps
        yield self.lost(
            analysis,
            time,
            lost,
            "Dropout is active, though nothing is trained",
            account="No backward pass was recorded, but random numbers are drawn for "
            f"{_times(len(drops[0]) / steps)} a step. That takes {duration(lost / steps)} of the "
            f"{duration(time.step_ns / steps)} of a step.",
            remedy=EVALUATE,
            culprit=line_or_operator(analysis, time, "aten::dropout", drops),
            evidence=longest_of(time, drops, "dropout"),
            unknown=("Whether dropout is wanted, as to estimate how sure a model is.",),
        )


def _times(count: float) -> str:
    return "one dropout" if round(count) == 1 else f"{count:,.0f} dropouts"


def _dropping(time: CpuTime) -> Intervals:
    """Dropouts that draw random numbers, where nothing runs backward."""
    trace, table = time.trace, time.trace.events
    everywhere = table.of_kind(EventKind.CPU_OP)
    events = time.activity.of_kind(EventKind.CPU_OP)
    if named(trace, everywhere, is_autograd_function).any():
        events = events[:0]
    dropouts = events[named(trace, events, _DROPOUT.match)]
    draws = events[named(trace, events, _DRAWS.match)]
    around = Innermost.of(trace, dropouts).at(table.start[draws])
    found = np.unique(around[around >= 0])
    return clip(union(*table.spans(found)), *time.window)
