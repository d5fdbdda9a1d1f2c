"""Functions of the backward pass that run again for several losses, and forward passes for each update."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

import numpy as np

from parsers.model import BOOL, I64, Attribute, EventKind, Trace, derived
from parsers.model.arrays import distinct_values, median_of, without
from parsers.model.late import dataclass
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.innermost import holding
from rules.analysis.arithmetic.intervals import union
from rules.analysis.names.operators import is_autograd_function
from rules.analysis.names.regions import is_optimizer_step

_GATHERS = "AccumulateGrad"
_ADDS = "aten::add_"


@dataclass(frozen=True, slots=True, eq=False)
class BackwardAgain:
    """Functions of the backward pass (events) that ran before for the same operator of the forward pass.

    ``passes`` is how many passes lead through an operator that several of them lead through: the usual number.
    ``apart`` are such functions of passes that keep their gradients for themselves, ``first`` those of the first of
    these passes: where there are any, ``functions`` is empty.
    """

    functions: I64
    passes: int
    apart: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    first: I64 = field(default_factory=lambda: np.empty(0, np.int64))


NONE = BackwardAgain(np.empty(0, np.int64), 0)


@derived
def backward_again(analysis: Analysis) -> BackwardAgain:
    """What one backward pass of the added losses would not compute.

    A function has the sequence number of its operator of the forward pass, counted up in each thread, so the same one
    comes twice only in two passes through one graph. Passes with an update of the parameters between them are two
    steps, and what notes down a graph of its own (``create_graph``) that has a pass, too, is differentiated again on
    purpose. Only where the later passes add their gradients to those of the earlier ones is the sum what the program is
    after: of Jacobians and of gradients by task it is not, and no pass gathers any.
    """
    trace, table = analysis.trace, analysis.trace.events
    operators = table.of_kind(EventKind.CPU_OP)
    functions = operators[named(trace, operators, is_autograd_function)]
    if not len(functions) or Attribute.SEQUENCE not in trace.attributes:
        return NONE
    functions = functions[np.lexsort((table.start[functions], table.lane[functions]))]
    sequence = trace.attribute(Attribute.SEQUENCE, functions, -1)
    gathers = named(trace, functions, lambda name: name.endswith(_GATHERS))
    numbered = operators[trace.attribute(Attribute.SEQUENCE, operators, -1) >= 0]
    numbered = without(numbered, functions)
    numbered = numbered[trace.attribute(Attribute.FORWARD_THREAD, numbered, 0) == 0]
    numbered = numbered[_differentiated(trace, numbered, functions)]
    once = (sequence >= 0) & ~gathers & ~holding(trace, functions, numbered)
    if not once.any():
        return NONE
    key = _graph_nodes(trace, functions, sequence)
    key[~once] = -1
    mine = np.flatnonzero(once)
    order = mine[np.lexsort((table.start[functions[mine]], key[mine]))]
    first = np.append(True, np.diff(key[order]) != 0)
    again = np.zeros(len(functions), bool)
    again[order[~first]] = True
    counts = np.diff(np.append(np.flatnonzero(first), len(order)))
    if not again.any():
        return NONE
    before = np.maximum.accumulate(np.where(gathers, 0, np.arange(len(functions))))
    gathering = gathers & again[before] & (table.lane[functions[before]] == table.lane[functions])
    adds = operators[named(trace, operators, _ADDS.__eq__)]
    passes = int(median_of(counts[counts > 1]))
    # of a leaf that autograd.grad() is asked for, nothing is stored
    stores = gathering.any() and holding(trace, functions[gathering], without(operators, functions)).any()
    if not stores:
        begins = order[first][counts > 1]
        return BackwardAgain(NONE.functions, passes, np.sort(functions[again]), np.sort(functions[begins]))
    if not holding(trace, functions[gathering], adds).all():
        return NONE
    return BackwardAgain(np.sort(functions[again | gathering]), passes)


def _differentiated(trace: Trace, operators: I64, functions: I64) -> BOOL:
    """Which operators of the forward pass have functions among these, in the thread that has most of a function's."""
    number, lane = trace.attribute(Attribute.SEQUENCE, operators), trace.events.lane[operators]
    sequence = trace.attribute(Attribute.SEQUENCE, functions, -1)
    thread = trace.attribute(Attribute.FORWARD_THREAD, functions, -1)
    found = np.zeros(len(operators), bool)
    for each in distinct_values(thread[sequence >= 0]).tolist():
        wanted = np.isin(number, sequence[thread == each])
        if wanted.any():
            found |= wanted & (lane == np.bincount(lane[wanted]).argmax())
    return found


def _graph_nodes(trace: Trace, functions: I64, sequence: I64) -> I64:
    """A number for each function: the same for those of one operator of the forward pass, up to the next update."""
    table = trace.events
    ranges = table.of_kind(EventKind.REGION)
    updates = ranges[named(trace, ranges, is_optimizer_step)]
    ranks = trace.lane_rank
    thread = trace.attribute(Attribute.FORWARD_THREAD, functions, -1)
    name, rank = table.name[functions], ranks[table.lane[functions]]
    step = np.zeros(len(functions), np.int64)
    for each in distinct_values(rank).tolist():
        of_rank = np.sort(table.start[updates[ranks[table.lane[updates]] == each]])
        step[rank == each] = np.searchsorted(of_rank, table.start[functions[rank == each]])
    _, found = np.unique(np.stack((rank, step, thread, sequence, name)), axis=1, return_inverse=True)
    return np.asarray(found.reshape(-1))


def passes_of_an_update(trace: Trace, *forward: str) -> int:
    """How many forward passes come to one update, by ranges whose names begin so; 1 where nothing tells."""
    updates = _count(trace, is_optimizer_step)
    return round(_count(trace, lambda name: name.startswith(forward)) / updates) if updates else 1


def _count(trace: Trace, wanted: Callable[[str], bool]) -> int:
    """How many ranges there are; those inside of one another, and those that touch, count once."""
    ranges = trace.events.of_kind(EventKind.REGION)
    mine = ranges[named(trace, ranges, wanted)]
    lanes = trace.events.lane[mine]
    return sum(len(union(*trace.events.spans(mine[lanes == lane]))[0]) for lane in distinct_values(lanes))
