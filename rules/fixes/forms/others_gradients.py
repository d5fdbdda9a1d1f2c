"""Gradients for nothing: of another optimizer's parameters, which clears them, and of an input that needs none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from parsers.model import I64, Attribute, EventKind, Trace, derived
from parsers.model.arrays import distinct_values
from parsers.model.late import dataclass, regex
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.names.operators import is_autograd_function
from rules.analysis.names.regions import is_optimizer_step
from rules.analysis.stretches.unneeded_gradients import MIN_STEPS, adding, gathering, right_before, sequences
from rules.fixes.backward import autograd_functions
from rules.kernels.recorded_shapes import inputs_of_event, inputs_of_events
from rules.replay.replay import replay_of

MIN_PASSES = 2  # of a step, each with an optimizer's step behind it
_CLEARS = "Optimizer.zero_grad"
_OF_LISTS = ("aten::_fused_", "aten::_foreach_")


@dataclass(frozen=True, slots=True, eq=False)
class OthersGradients:
    """Functions of the backward pass (events): ``leading`` ones only lead to gradients that are cleared unused.

    ``beside`` are those right before other such gradients: what computes these is in them, with what the pass needs.
    ``gathers`` stored the latter (events, with their shapes).
    """

    leading: I64
    beside: I64
    gathers: I64
    parameters: int  # of a step: gradients that are computed for nothing


_NOTHING = np.empty(0, np.int64)
NONE = OthersGradients(_NOTHING, _NOTHING, _NOTHING, 0)


@derived
def others_gradients(analysis: Analysis) -> OthersGradients:
    """What backward passes compute for parameters that the optimizer behind them does not own.

    Each step has several passes, each with an optimizer that clears its gradients before and updates behind, and with
    the shapes of what that updates. What a pass stores anew was cleared, so it must be what its optimizer owns; what it
    adds to is another one's, which clears that before its own pass stores it anew: nobody has used it by then.
    """
    trace = analysis.trace
    if len({each.rank for each in trace.lanes}) > 1 or Attribute.SEQUENCE not in trace.attributes:
        return NONE
    table, steps = trace.events, analysis.steady_steps
    operators = table.of_kind(EventKind.CPU_OP)
    functions = operators[named(trace, operators, is_autograd_function)]
    if len(steps) < MIN_STEPS or len(distinct_values(table.lane[functions])) != 1:
        return NONE
    within = (table.start[functions] >= steps[0].start) & (table.start[functions] < steps[-1].end)
    functions = table.by_start(functions[within])
    updates = _ranges(trace, is_optimizer_step, steps[0].start, steps[-1].end)
    edges = [each.start for each in steps]
    a_step, left = divmod(len(updates), len(steps))
    in_step = np.searchsorted(edges, table.start[updates], side="right") - 1
    if left or a_step < MIN_PASSES or (in_step != np.repeat(np.arange(len(steps)), a_step)).any():
        return NONE
    number = np.searchsorted(table.start[updates], table.start[functions])
    sequence, gathers = sequences(trace, functions)
    added = gathers & adding(trace, operators, functions)
    shaped = gathering(trace, operators, functions)
    clears = table.start[_ranges(trace, lambda name: name.startswith(_CLEARS), steps[0].start, steps[-1].end)]
    leading, beside = np.zeros(len(functions), bool), np.zeros(len(functions), bool)
    owned: dict[int, Counter[str]] = {}
    foreign: dict[int, Counter[str]] = {}
    counted: dict[int, set[tuple[int, int]]] = {}
    for index in range(len(updates)):
        mine = number == index
        stored, adds = mine & gathers & ~added, mine & added
        own = sequence[mine & ~gathers & (sequence >= 0)]
        if not stored.any() or not len(own) or (np.diff(own) >= 0).any():
            return NONE
        begin = table.start[updates[index - 1]] if index else steps[0].start
        if not ((clears > begin) & (clears < table.start[functions[stored]].min())).any():
            return NONE
        shapes = [_shapes(trace, shaped[each]) for each in (stored, adds)]
        if shapes[0] not in _updated(trace, operators, int(updates[index])):
            return NONE
        place = index % a_step
        owned[place], foreign[place] = shapes
        counted.setdefault(place, set()).add((int(stored.sum()), int(adds.sum())))
        ends = mine & (sequence >= 0) & (sequence < sequence[stored].min())
        leading |= ends
        beside |= right_before(gathers, adds & ~ends) & mine
    if any(len(each) > 1 for each in counted.values()):
        return NONE
    for place, shapes_of in foreign.items():
        others = sum((each for other, each in owned.items() if other != place), Counter[str]())
        if shapes_of - others:
            return NONE
    stray = added & ~leading
    return OthersGradients(
        functions[leading | stray],
        functions[beside & ~leading & ~stray],
        shaped[stray],
        sum(foreign[place].total() for place in foreign),
    )


def _ranges(trace: Trace, wanted: Callable[[str], object], start: int, end: int) -> I64:
    table = trace.events
    ranges = table.of_kind(EventKind.REGION)
    ranges = ranges[(table.start[ranges] >= start) & (table.start[ranges] < end)]
    return table.by_start(ranges[named(trace, ranges, wanted)])


def _shapes(trace: Trace, events: I64) -> Counter[str]:
    return Counter(str((each or [[]])[0]) for each in inputs_of_events(trace, events[events >= 0]))


def _updated(trace: Trace, operators: I64, update: int) -> list[Counter[str]]:
    """The shapes of the lists of tensors that operators of an optimizer's step were handed first, by their names."""
    table = trace.events
    inside = (table.start[operators] >= table.start[update]) & (table.end[operators] <= table.end[update])
    found: dict[int, Counter[str]] = {}
    for event in operators[
        inside & named(trace, operators, lambda name: name.startswith(_OF_LISTS))
    ].tolist():
        first = (inputs_of_event(trace, event) or [[]])[0]
        found.setdefault(int(table.name[event]), Counter()).update(str(each) for each in first)
    return list(found.values())


MIN_RUN = 4  # functions of a run through the network: fewer are alike by chance
LEADING = 8  # functions of a run before the first one with parameters
_OF_PARAMETERS = regex(r"(ToCopy|T|Transpose|Permute|View)Backward0$|AccumulateGrad$")


def runs_for_nothing(analysis: Analysis, beside: I64) -> I64:
    """Functions of a run through a network, out of those ``beside`` gradients that nobody uses, that lead to no others.

    The network is run on two inputs, as on what is wanted beside what was made of it: the same functions are called for
    one right before those of the other. Its parameters' gradients are gathered with the latter. The last function of
    the former launches fewer operations than its like: it computes no gradient for its input.
    """
    trace, table, replay = analysis.trace, analysis.trace.events, replay_of(analysis)
    functions = table.by_start(beside)
    gathers = np.append(named(trace, functions, lambda name: name.endswith("AccumulateGrad")), False)
    own = np.flatnonzero(~named(trace, functions, _OF_PARAMETERS.search))
    launched = np.bincount(autograd_functions(analysis)[replay.device.launch] + 1, minlength=len(table) + 1)[
        functions[own] + 1
    ]
    name, sequence = (
        table.name[functions[own]].astype(np.int64),
        trace.attribute(Attribute.SEQUENCE, functions[own], -1),
    )
    behind = np.append(np.cumsum(gathers)[own[1:] - 1], gathers.sum()) if len(own) else own
    gathered = np.diff(behind, prepend=0) > 0
    found = [_NOTHING]
    for run in np.split(np.arange(len(own)), np.flatnonzero(np.diff(sequence) > 0) + 1):
        first = int(np.append(np.flatnonzero(gathered[run]), 0)[0])
        begins = range(max(first - LEADING, 0), first + 1)
        length, begin = max(((_alike(name[run], each), each) for each in begins), default=(0, 0))
        if length >= MIN_RUN and launched[run[begin - 1]] < launched[run[begin + length - 1]]:
            found.append(functions[own[run[begin - length : begin]]])
    return np.concatenate(found)


def _alike(name: I64, begin: int) -> int:
    """How many functions before a place have the names of as many from there on: the most there are."""
    for length in range(min(begin, len(name) - begin), 0, -1):
        if (name[begin - length : begin] == name[begin : begin + length]).all():
            return length
    return 0
