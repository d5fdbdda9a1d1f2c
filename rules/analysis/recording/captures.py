"""Where CUDA graphs are captured: launches are then noted down in the graph and do not run."""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL, I64, EventKind, Trace, derived
from parsers.model.late import dataclass, regex
from parsers.model.names.calls import Call, call_of
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import contains, union
from rules.terms import MAJORITY

_BEGIN = regex(r"(cuda|cu|hip)\w*StreamBeginCapture")
_END = regex(r"(cuda|cu|hip)\w*StreamEndCapture")
MIN_STEPS = 2


@dataclass(frozen=True, slots=True, eq=False)
class Captures:
    """The call that begins each capture, where it begins, and where it ends; the call of a cut one is all of it."""

    call: I64
    start: I64
    end: I64


@derived
def captures_of(trace: Trace) -> Captures:
    """Every capture of a recording, in its threads' order of calls."""
    calls = trace.events.of_kind(EventKind.API)
    begins = calls[named(trace, calls, _BEGIN.match)]
    ends = calls[named(trace, calls, _END.match)]
    finishes = np.array([_next_end(trace, each, ends) for each in begins.tolist()], np.int64)
    return Captures(begins, trace.events.start[begins], finishes)


def noted_only(trace: Trace, launches: I64) -> BOOL:
    """Which launches were noted down in a graph: those that ran nothing while one was captured."""
    captures = captures_of(trace)
    inside = contains(union(captures.start, captures.end), trace.events.start[launches])
    return np.asarray(inside & ~trace.launched_something[launches])


@derived
def captures_in_steps(analysis: Analysis) -> bool:
    """Whether most steps, and at least two, capture a graph and launch one: a program does so, not its start."""
    trace, steps = analysis.trace, analysis.steady_steps
    calls = trace.events.of_kind(EventKind.API)
    launches = calls[named(trace, calls, lambda each: call_of(each) is Call.GRAPH_LAUNCH)]
    begins = [np.sort(captures_of(trace).start), np.sort(trace.events.start[launches])]
    edges = np.array([(step.start, step.end) for step in steps], np.int64).reshape(-1, 2)
    has_both = np.ones(len(steps), bool)
    for each in begins:
        place = np.searchsorted(each, edges)
        has_both &= place[:, 1] > place[:, 0]
    return bool(has_both.sum() >= max(MIN_STEPS, MAJORITY * len(steps)))


def _next_end(trace: Trace, begin: int, ends: I64) -> int:
    same = ends[
        (trace.events.lane[ends] == trace.events.lane[begin])
        & (trace.events.start[ends] >= trace.events.start[begin])
    ]
    return int(trace.events.end[same].min()) if len(same) else int(trace.events.end[begin])
