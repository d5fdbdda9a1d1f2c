"""What the program itself called for each call of a replay: in the backward pass, what it computes the gradient of."""

from __future__ import annotations

import numpy as np

from parsers.model import I64, Attribute, EventKind, derived
from parsers.model.arrays import distinct_values, numbered_values
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.innermost import Innermost
from rules.analysis.names.operators import is_autograd_function
from rules.analysis.stretches.program_frames import FRAMES, program_frames
from rules.replay.replay import replay_of
from rules.replay.surroundings import surroundings_of


@derived
def called_operators(analysis: Analysis) -> I64:
    """For each host node the operator of ATen that the program called; -1 where none is known.

    A function of autograd has the sequence number of the operator of the forward pass that it belongs to, the last one
    that began with it. Of the recorded operators inside of one another the outermost counts.
    """
    around = surroundings_of(analysis)
    found = around.whole_operator.copy()
    function = around.around(is_autograd_function)
    backward = np.flatnonzero(function >= 0)
    functions, which = numbered_values(function[backward])
    forward = _forward_of(analysis, functions)[which]
    found[backward[forward >= 0]] = forward[forward >= 0]
    return found


@derived
def calling_frames(analysis: Analysis) -> I64:
    """For each host node the program's deepest function around what it called; -1 without stacks."""
    if analysis.trace.kinds.isdisjoint(FRAMES):
        return np.full(len(replay_of(analysis).host), -1, np.int64)
    table, (events, which) = analysis.trace.events, _called(analysis)
    found = np.full(len(events), -1, np.int64)
    thread = analysis.threads.of_events(events)
    for each in distinct_values(thread[thread >= 0]).tolist():
        mine = thread == each
        found[mine] = program_frames(analysis, each).around(*table.spans(events[mine]))
    return np.asarray(found[which])


@derived
def calling_ranges(analysis: Analysis) -> I64:
    """For each host node the innermost range of the program around what it called; -1 where none is open there."""
    table, (events, which) = analysis.trace.events, _called(analysis)
    found = np.full(len(events), -1, np.int64)
    for activity, mine in analysis.threads.by_thread(events):
        found[mine] = activity.user_regions.at(table.start[events[mine]])
    return np.asarray(found[which])


@derived
def _called(analysis: Analysis) -> tuple[I64, I64]:
    """The operators that the program called, or calls without one, and the place of that of each host node."""
    operator = called_operators(analysis)
    return numbered_values(np.where(operator >= 0, operator, replay_of(analysis).host.event))


def _forward_of(analysis: Analysis, functions: I64) -> I64:
    """The operators of the forward pass to which functions of autograd belong; -1 for those that state none."""
    trace, table = analysis.trace, analysis.trace.events
    found = np.full(len(functions), -1, np.int64)
    operators = table.of_kind(EventKind.CPU_OP)
    sequence = trace.attribute(Attribute.SEQUENCE, operators, -1)
    forward = (sequence >= 0) & ~named(analysis.trace, operators, is_autograd_function)
    operators, sequence = operators[forward], sequence[forward]
    wanted = trace.attribute(Attribute.SEQUENCE, functions, -1)
    if not len(operators) or not len(functions):
        return found
    rank = trace.lane_rank
    keys = np.column_stack(
        (
            np.concatenate((rank[table.lane[operators]], rank[table.lane[functions]])),
            np.append(sequence, wanted),
        )
    )
    _, key = np.unique(keys, axis=0, return_inverse=True)
    key = key.reshape(-1)
    start = np.append(table.start[operators], table.start[functions])
    # ordered by number and time, the last operator before each function is the one that it belongs to
    order = np.lexsort((start, key))
    is_operator = order < len(operators)
    last = np.maximum.accumulate(np.where(is_operator, np.arange(len(order)), -1))
    asked = order[~is_operator] - len(operators)
    before = last[~is_operator]
    known = (before >= 0) & (key[order[before]] == key[order[~is_operator]]) & (wanted[asked] >= 0)
    found[asked[known]] = operators[order[before[known]]]
    return _outermost(analysis, found)


def _outermost(analysis: Analysis, operators: I64) -> I64:
    """The whole operators that these are part of; -1 stays."""
    table, found = analysis.trace.events, np.full(len(operators), -1, np.int64)
    known = np.flatnonzero(operators >= 0)
    for activity, mine in analysis.threads.by_thread(operators[known]):
        inside = known[mine]
        whole = Innermost.of(activity.trace, activity.whole_operators)
        found[inside] = whole.at(table.start[operators[inside]])
    return found
