"""The part of the backward pass whose gradients nobody uses: of a network that is run with them but not trained."""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL, I64, Attribute, EventKind, Trace, derived
from parsers.model.arrays import without
from parsers.model.late import dataclass
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.innermost import Innermost, holding
from rules.analysis.names.operators import is_autograd_function
from rules.analysis.names.regions import is_optimizer_step

MIN_STEPS = 2  # of one, nobody knows whether its gradients are cleared before the next
_GATHERS = "AccumulateGrad"
_INNER = "torch::autograd::AccumulateGrad"
_ADDS = "aten::add_"


@dataclass(frozen=True, slots=True, eq=False)
class UnneededGradients:
    """Functions of the backward pass (events, by start) that only lead to gradients which add up from step to step.

    Others that add up come from functions which the pass needs for something else, too: what computes these gradients
    lies in the functions ``beside``. ``gathers`` stored them (events, with their shapes), ``more`` in a step.
    """

    functions: I64
    parameters: int  # of a step: those whose gradients add up there
    beside: I64
    gathers: I64
    more: int


_NOTHING = np.empty(0, np.int64)
NONE = UnneededGradients(_NOTHING, 0, _NOTHING, _NOTHING, 0)


@derived
def unneeded_gradients(analysis: Analysis) -> UnneededGradients:
    """What the backward pass computes for parameters that no optimizer owns.

    An optimizer clears the gradients of its parameters, so theirs are stored in each step; gradients that are added
    to older ones in each step are nobody's. A step ends with the optimizer's. A gradient flows from later operators of
    the forward pass to earlier ones: what belongs to operators before the first one with a stored gradient leads to
    none. Steps with more than one pass are not judged, as gradients of several passes are added up on purpose; nor are
    fewer than two steps.
    """
    trace, operators = analysis.trace, analysis.trace.events.of_kind(EventKind.CPU_OP)
    functions = operators[named(trace, operators, is_autograd_function)]
    if not len(functions):
        return NONE
    found = [
        _of_rank(analysis, rank, operators, functions)
        for rank in sorted({each.rank for each in trace.lanes}, key=lambda each: -1 if each is None else each)
    ]
    functions, beside, gathers = (
        np.sort(np.concatenate(each))
        for each in zip(*((each.functions, each.beside, each.gathers) for each in found), strict=True)
    )
    parameters, more = (
        max(each) for each in zip(*((each.parameters, each.more) for each in found), strict=True)
    )
    return UnneededGradients(functions, parameters, beside, gathers, more)


def _of_rank(analysis: Analysis, rank: int | None, operators: I64, functions: I64) -> UnneededGradients:
    trace, table = analysis.trace, analysis.trace.events
    lanes = np.array([number for number, each in enumerate(trace.lanes) if each.rank == rank], np.int64)
    functions = functions[np.isin(table.lane[functions], lanes)]
    steps = [each for each in analysis.steady_steps if each.rank in (rank, None)]
    if not len(functions) or len(steps) < MIN_STEPS:
        return NONE
    operators = operators[np.isin(table.lane[operators], lanes)]
    forward = operators[trace.attribute(Attribute.SEQUENCE, operators, -1) >= 0]
    if len(without(table.lane[forward], table.lane[functions])) > 1:
        return NONE  # numbers of several threads are no order
    functions = functions[np.lexsort((table.start[functions], table.lane[functions]))]
    sequence, gathers = sequences(trace, functions)
    added = gathers & adding(trace, operators, functions)
    edges = _updates(trace, lanes, functions)
    steady = np.flatnonzero((edges >= steps[0].start) & (edges < steps[-1].end))
    if len(steady) < MIN_STEPS:
        return NONE
    window = np.searchsorted(edges, table.start[functions])
    unneeded, stray, counted = np.zeros(len(functions), bool), np.zeros(len(functions), bool), set()
    for number in steady.tolist():
        mine = window == number
        stored = mine & gathers & ~added
        if not stored.any() or not _is_one_pass(trace, forward, functions[mine], int(sequence[mine].max())):
            return NONE
        leads_nowhere = mine & (sequence >= 0) & (sequence < sequence[stored].min())
        others = mine & added & ~leads_nowhere
        counted.add((int(stored.sum()), int((leads_nowhere & added).sum()), int(others.sum())))
        unneeded |= leads_nowhere
        stray |= others
    if len(counted) > 1:
        return NONE
    _, parameters, more = counted.pop()
    inner = gathering(trace, operators, functions)[stray]
    return UnneededGradients(
        functions[unneeded] if parameters else _NOTHING,
        parameters,
        functions[right_before(gathers, stray) | stray],
        inner[inner >= 0],
        more,
    )


def gathering(trace: Trace, operators: I64, functions: I64) -> I64:
    """The operator inside each function that gathers a gradient, which has its shape; -1 for the others."""
    inner = operators[named(trace, operators, _INNER.__eq__)]
    found = np.full(len(trace.events), -1, np.int64)
    around = Innermost.of(trace, functions).at(trace.events.start[inner])
    found[around[around >= 0]] = inner[around >= 0]
    return np.asarray(found[functions])


def right_before(gathers: BOOL, wanted: BOOL) -> BOOL:
    """The functions between two that gather, where the second one is wanted."""
    place = np.arange(len(gathers))
    following = np.minimum.accumulate(np.where(gathers, place, len(gathers))[::-1])[::-1]
    return np.asarray(np.append(wanted, False)[following] & ~gathers)


def sequences(trace: Trace, functions: I64) -> tuple[I64, BOOL]:
    """The number of the forward operator of each function, and which ones gather a gradient: that of the one before."""
    sequence = trace.attribute(Attribute.SEQUENCE, functions, -1)
    gathers = named(trace, functions, lambda name: name.endswith(_GATHERS))
    place = np.arange(len(functions))
    before = np.maximum.accumulate(np.where(gathers, -1, place))
    lane = trace.events.lane[functions]
    known = (before >= 0) & (lane[before] == lane)
    return np.where(known, sequence[before], -1), gathers


def adding(trace: Trace, operators: I64, functions: I64) -> BOOL:
    """Which functions add in place, as one does that finds an older gradient."""
    return holding(trace, functions, operators[named(trace, operators, _ADDS.__eq__)])


def _is_one_pass(trace: Trace, forward: I64, functions: I64, last: int) -> bool:
    """Whether all of the forward pass, up to the operator with the ``last`` number, ran before the backward pass."""
    table = trace.events
    begun = table.start[forward[trace.attribute(Attribute.SEQUENCE, forward, -1) == last]]
    return last >= 0 and len(begun) > 0 and bool(begun.min() < table.start[functions].min())


def _updates(trace: Trace, lanes: I64, functions: I64) -> I64:
    """Where optimizers' steps begin, one behind each backward pass.

    The CPU may run ahead of steps that were found on the GPU, so that these part no passes.
    """
    table = trace.events
    ranges = table.of_kind(EventKind.REGION)
    ranges = ranges[np.isin(table.lane[ranges], lanes)]
    begins = np.sort(table.start[ranges[named(trace, ranges, is_optimizer_step)]])
    passed = np.searchsorted(np.sort(table.start[functions]), begins)
    return begins[np.diff(passed, prepend=0) > 0]
