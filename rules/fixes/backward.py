"""What runs inside the backward pass and inside optimizers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL, F64, I64, Attribute, EventKind, derived
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.names.operators import AUTOGRAD_FUNCTION
from rules.replay.replay import Replay, replay_of
from rules.replay.surroundings import surroundings_of


@derived
def autograd_functions(analysis: Analysis) -> I64:
    """The event of the innermost autograd function around each call of the replay; -1 outside the backward pass."""
    return surroundings_of(analysis).around(lambda name: name.startswith(AUTOGRAD_FUNCTION))


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
        events = events[trace.events.kind[events] == EventKind.CPU_OP]
        number = trace.attribute(Attribute.SEQUENCE, events, -1)
        kept = (number >= 0) & ~named(trace, events, lambda name: name.startswith(AUTOGRAD_FUNCTION))
        order = np.argsort(trace.events.start[events[kept]], kind="stable")
        found.append((trace.events.start[events[kept]][order], number[kept][order]))
    return tuple(found)


@derived
def optimizers_ns(analysis: Analysis) -> F64:
    """How much of the time before each call of the replay passed inside a range of an optimizer."""
    return surroundings_of(analysis).time_inside(_is_optimizer, EventKind.REGION)


@derived
def backward_ns(analysis: Analysis) -> F64:
    """How much of it passed inside functions of autograd."""
    return surroundings_of(analysis).time_inside(
        lambda name: name.startswith(AUTOGRAD_FUNCTION), EventKind.CPU_OP
    )


def _is_optimizer(name: str) -> bool:
    return name.startswith("Optimizer.")
