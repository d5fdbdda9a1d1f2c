"""Dropouts that draw random numbers though nothing is trained."""

from __future__ import annotations

from parsers.model import EventKind
from parsers.model.arrays import distinct_values
from parsers.model.late import regex
from parsers.model.names.per_name import named
from rules.analysis.arithmetic.innermost import Innermost
from rules.analysis.arithmetic.intervals import Intervals, clip, union
from rules.analysis.cpu.cpu_time import CpuTime
from rules.analysis.names.operators import is_autograd_function

_DROPOUT = regex(r"aten::(native_|feature_|alpha_|feature_alpha_)?dropout_?$")
_DRAWS = regex(r"aten::(bernoulli_?|native_dropout)$")


def active_dropouts(time: CpuTime) -> Intervals:
    """Where they run, in a recording without a function of a backward pass."""
    trace, table = time.trace, time.trace.events
    everywhere = table.of_kind(EventKind.CPU_OP)
    events = time.activity.of_kind(EventKind.CPU_OP)
    if named(trace, everywhere, is_autograd_function).any():
        events = events[:0]
    dropouts = events[named(trace, events, _DROPOUT.match)]
    draws = events[named(trace, events, _DRAWS.match)]
    around = Innermost.of(trace, dropouts).at(table.start[draws])
    found = distinct_values(around[around >= 0])
    return clip(union(*table.spans(found)), *time.window)
