"""What runs inside the backward pass and inside optimizers, and what anomaly detection adds to both passes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL, F64, I64, Attribute, EventKind, derived
from parsers.model.arrays import distinct_values
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.innermost import Innermost
from rules.analysis.arithmetic.intervals import Intervals
from rules.analysis.names.operators import is_autograd_function
from rules.replay.chance import time_within
from rules.replay.replay import Replay, replay_of
from rules.replay.surroundings import surroundings_of
from rules.terms import MAJORITY

MIN_CHECKING = 20  # functions of autograd that ask for NaN in a step
MIN_STACK_NS = 50_000  # between two records inside an operator: a stack is noted down there
OPERATOR_NS = 20_000  # what passes there anyway

_CHECKS = ("aten::isnan", "aten::_is_any_true", "aten::is_nonzero", "aten::item", "aten::_local_scalar_dense")


@derived
def autograd_functions(analysis: Analysis) -> I64:
    """The event of the innermost autograd function around each call of the replay; -1 outside the backward pass."""
    return surroundings_of(analysis).around(is_autograd_function)


def backward_of(analysis: Analysis, replay: Replay, stretches: Iterable[tuple[int, int]]) -> BOOL:
    """The calls of the backward passes of what is called behind a host node, up to another of its thread.

    None where no sequence numbers were recorded.
    """
    trace, host = analysis.trace, replay.host
    function = autograd_functions(analysis)
    inside = np.flatnonzero(function >= 0)
    found = np.zeros(len(host), bool)
    if not len(inside) or Attribute.SEQUENCE not in trace.attributes:
        return found
    numbers, operators = [], _numbered_operators(analysis)
    for before, last in stretches:
        start, number = operators[int(host.thread[before])]
        numbers.append(number[slice(*np.searchsorted(start, (host.end[before], host.end[last])))])
    number = trace.attribute(Attribute.SEQUENCE, function[inside], -1)
    found[inside] = np.isin(number, np.concatenate([*numbers, np.empty(0, np.int64)]))
    return found


@derived
def _numbered_operators(analysis: Analysis) -> tuple[tuple[I64, I64], ...]:
    """Starts and sequence numbers of the operators outside of the backward pass, by start, for each host thread."""
    trace, found = analysis.trace, []
    for members in replay_of(analysis).host.members:
        events = np.concatenate([analysis.threads.events(each) for each in members])
        events = trace.events.only(events, EventKind.CPU_OP)
        number = trace.attribute(Attribute.SEQUENCE, events, -1)
        kept = (number >= 0) & ~named(trace, events, is_autograd_function)
        order = np.argsort(trace.events.start[events[kept]], kind="stable")
        found.append((trace.events.start[events[kept]][order], number[kept][order]))
    return tuple(found)


@derived
def optimizers_ns(analysis: Analysis) -> F64:
    """How much of the time before each call of the replay passed inside a range of an optimizer."""
    return surroundings_of(analysis).time_inside(lambda name: name.startswith("Optimizer."), EventKind.REGION)


@derived
def backward_ns(analysis: Analysis) -> F64:
    """How much of it passed inside functions of autograd."""
    return surroundings_of(analysis).time_inside(is_autograd_function, EventKind.CPU_OP)


@derived
def nan_checks(analysis: Analysis) -> BOOL:
    """The calls of autograd's questions whether a gradient has a NaN in it; none where only some functions ask."""
    around, function = surroundings_of(analysis), autograd_functions(analysis)
    asks = (function >= 0) & around.inside(_CHECKS[0].__eq__)
    asking = len(distinct_values(function[asks]))
    steps = around.replay.steps * len(around.replay.spans)
    if asking < MIN_CHECKING * steps or asking < MAJORITY * len(distinct_values(function[function >= 0])):
        return np.zeros(len(function), bool)
    return np.asarray(np.isin(function, function[asks]) & around.inside(_CHECKS.__contains__))


@derived
def stacks_ns(analysis: Analysis) -> F64:
    """How much of the time before each call anomaly detection noted down stacks; 0 where it is off.

    It does so inside each operator for which the backward pass has a function, while nothing else is recorded there.
    """
    replay = replay_of(analysis)
    if not nan_checks(analysis).any():
        return np.zeros(len(replay.host))
    trace = analysis.trace
    function = autograd_functions(analysis)
    numbers = distinct_values(trace.attribute(Attribute.SEQUENCE, function[function >= 0], -1))

    def noting(thread: int) -> Intervals:
        events = analysis.threads.events(thread)
        events = trace.events.only(events, EventKind.CPU_OP, EventKind.API)
        inside = Innermost.of(trace, events)
        known = np.flatnonzero(inside.event[:-1] >= 0)
        event = inside.event[known].astype(np.int64)
        number = trace.attribute(Attribute.SEQUENCE, event, -1)
        forward = trace.attribute(Attribute.FORWARD_THREAD, event, 0) == 0
        forward &= (trace.events.kind[event] == EventKind.CPU_OP) & (number >= 0) & np.isin(number, numbers)
        forward &= ~named(trace, event, is_autograd_function)
        begin, end = inside.edges[known[forward]], inside.edges[known[forward] + 1]
        long = end - begin >= MIN_STACK_NS
        return begin[long], end[long] - OPERATOR_NS

    return time_within(replay.host, noting)
