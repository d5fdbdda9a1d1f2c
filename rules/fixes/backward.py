"""What runs inside the backward pass and optimizers, what anomaly detection adds, and what torch.compile costs."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL, F64, I64, Attribute, EventKind, derived
from parsers.model.arrays import distinct_values
from parsers.model.late import regex
from parsers.model.names.calls import Call
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.innermost import Innermost
from rules.analysis.arithmetic.intervals import Intervals
from rules.analysis.names.operators import is_autograd_function, is_compiling
from rules.analysis.recording.recording_costs import MAX_FRAME_SHARE, USUAL_FRAME_NS
from rules.analysis.recording.training import is_training
from rules.replay.chance import time_within
from rules.replay.replay import Replay, replay_of
from rules.replay.surroundings import surroundings_of
from rules.terms import MAJORITY

MIN_CHECKING = 20  # functions of autograd that ask for NaN in a step
MIN_STACK_NS = 50_000  # between two records inside an operator: a stack is noted down there
MAX_STACK_NS = 1_000_000  # what takes longer is something else
OPERATOR_NS = 10_000  # what passes there anyway

_CHECKS = ("aten::isnan", "aten::_is_any_true", "aten::is_nonzero", "aten::item", "aten::_local_scalar_dense")


@derived
def autograd_functions(analysis: Analysis) -> I64:
    """The event of the innermost autograd function around each call of the replay; -1 outside the backward pass."""
    return surroundings_of(analysis).around(is_autograd_function)


def assigns_to_part(name: str) -> bool:
    """Whether this function of autograd is that of a tensor of which a part was assigned: it copies the whole."""
    return "CopySlices" in name


def backward_of(analysis: Analysis, replay: Replay, stretches: Iterable[tuple[int, int]]) -> BOOL:
    """The calls of the backward passes of what is called behind a host node, up to another of its thread.

    An assignment to a part of a tensor has two functions, of which the one for the tensor has the next number. None
    where no sequence numbers were recorded.
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
    number = number - named(trace, function[inside], assigns_to_part)
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
    if not (analysis.trace.events.kind == EventKind.CPU_OP).any():
        return _checking_kernels(analysis)
    around, function = surroundings_of(analysis), autograd_functions(analysis)
    asks = (function >= 0) & around.inside(_CHECKS[0].__eq__)
    asking = len(distinct_values(function[asks]))
    steps = around.replay.steps * len(around.replay.spans)
    if asking < MIN_CHECKING * steps or asking < MAJORITY * len(distinct_values(function[function >= 0])):
        return np.zeros(len(function), bool)
    return np.asarray(np.isin(function, function[asks]) & around.inside(_CHECKS.__contains__))


_ASKS = regex(r"\bCompareEqFunctor<\s*(?:float|double|c10::(?:Half|BFloat16))\s*>")
_JOINS = regex(r"\bor_kernel_cuda\b")


def _checking_kernels(analysis: Analysis) -> BOOL:
    """The same by kernels: floating-point numbers are compared, whether any differs is joined, and that is read back.

    The backward pass has a thread of its own, so that a program's own checks, on the thread that calls the model, are
    none of these.
    """
    replay = replay_of(analysis)
    trace, host, device = analysis.trace, replay.host, replay.device
    asks = named(trace, device.event, _ASKS.search)
    joins = named(trace, device.event, _JOINS.search)
    reads = trace.attribute(Attribute.BYTES, device.event, 0) == 1
    part = np.select([asks, joins, reads], [1, 2, 3], 0)
    launching, first = np.unique(device.launch, return_index=True)
    kept = trace.events.kind[device.event[first]] != EventKind.MEMSET  # of a reduction by many blocks
    launching, part = launching[kept], part[first][kept]
    thread = analysis.threads.of_events(host.event[launching])
    mains = [analysis.threads.drivers(device)[1] for span in replay.spans for device in span.devices]
    asks = (part[:-2] == 1) & (part[1:-1] == 2) & (part[2:] == 3) & (thread[:-2] == thread[2:])
    asking = np.flatnonzero(asks & ~np.isin(thread[:-2], mains))
    if len(asking) < MIN_CHECKING * replay.steps * len(replay.spans):
        return np.zeros(len(host), bool)
    answered = np.minimum(launching[asking + 2] + 1, len(host) - 1)
    answered -= host.call[answered] != Call.SYNCHRONIZE
    edges = np.zeros(len(host) + 1, np.int64)
    edges[launching[asking]] += 1
    edges[answered + 1] -= 1
    return np.asarray(np.cumsum(edges[:-1]) > 0)


@derived
def stacks_ns(analysis: Analysis) -> F64:
    """How much of the time before each call anomaly detection noted down stacks; 0 where it is off.

    It does so inside each operator for which the backward pass has a function, while nothing else is recorded there.
    Operators that need no gradient have the number of the next one that does: of those of a number the last is it.
    Where no operators were recorded, it is many such times between two calls of the threads that do not check.
    """
    replay = replay_of(analysis)
    checks, host = nan_checks(analysis), replay.host
    if not checks.any():
        return np.zeros(len(host))
    trace = analysis.trace
    if not (trace.events.kind == EventKind.CPU_OP).any():
        lane, gap = trace.events.lane[host.event], host.gap
        noted = (gap >= MIN_STACK_NS) & (gap <= MAX_STACK_NS) & ~np.isin(lane, lane[checks])
        notes = np.count_nonzero(noted) >= MIN_CHECKING * replay.steps * len(replay.spans)
        return np.where(noted & notes, gap - OPERATOR_NS, 0.0)
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
        whole = analysis.threads.activity(thread).whole_operators[::-1]
        of_whole, last = np.unique(trace.attribute(Attribute.SEQUENCE, whole, -1), return_index=True)
        if len(of_whole):
            at = np.minimum(np.searchsorted(of_whole, number), len(of_whole) - 1)
            before = trace.events.start[event] < trace.events.start[whole[last[at]]]
            forward &= ~before | (of_whole[at] != number)
        begin, end = inside.edges[known[forward]], inside.edges[known[forward] + 1]
        long = end - begin >= MIN_STACK_NS
        return begin[long], end[long] - OPERATOR_NS

    return time_within(replay.host, noting)


def noting_ns(analysis: Analysis) -> F64:
    """How much of ``stacks_ns`` noting down took: of frames that were recorded one by one, the least that is their own.

    A stack is a few dozen lines to Python, and hundreds of frames to the recorder.
    """
    stacks = stacks_ns(analysis)
    frames = replay_of(analysis).host.written.frames * USUAL_FRAME_NS
    return np.where(frames >= MAJORITY * stacks, (1 - MAX_FRAME_SHARE) * stacks, stacks)


def noting_ns_for(analysis: Analysis, functions: I64) -> F64:
    """``noting_ns`` in the operators of the forward pass that these functions of the backward pass belong to."""
    trace, operator = analysis.trace, surroundings_of(analysis).whole_operator
    forward = (operator >= 0) & (autograd_functions(analysis) < 0)
    numbers = distinct_values(trace.attribute(Attribute.SEQUENCE, functions, -1))
    number = np.where(forward, trace.attribute(Attribute.SEQUENCE, np.maximum(operator, 0), -1), -1)
    return np.where((number >= 0) & np.isin(number, numbers), noting_ns(analysis), 0.0)


MIN_NS = 1_000_000.0  # of a step
MIN_STEPS = 2  # a single one may be the first of its kind
# "Torch-Compiled Region" also holds what Python does behind a graph that was broken
_COMPILED = regex(r"## Call CompiledFxGraph|CompiledFunction$|inductor_root")
_REGION = "Torch-Compiled Region"
_CONDITION = "aten::is_nonzero"
_READS = (_CONDITION, "aten::item", "aten::_local_scalar_dense", "aten::equal")
MIN_BREAKS = 2.0  # in a step: one value that is read at its end breaks nothing
MAX_BETWEEN = 3  # calls of eager operators between the value that was read and the next graph


@derived
def compiling_ns(analysis: Analysis) -> F64:
    """How much of the time before each call of the replay a compiler ran; none where most steps run without one."""
    replay = replay_of(analysis)
    found = surroundings_of(analysis).time_inside(is_compiling, EventKind.CPU_OP, EventKind.REGION)
    host = replay.host
    _, step = np.unique(np.column_stack((host.thread, host.step)), axis=0, return_inverse=True)
    in_step = np.bincount(step.reshape(-1), found)
    compiled = int(np.count_nonzero(in_step >= MIN_NS))
    if compiled < max(MIN_STEPS, MAJORITY * replay.steps) * len(replay.spans):
        return np.zeros(len(host))
    return found


@derived
def graph_breaks(analysis: Analysis) -> BOOL:
    """The calls that read a value back between two compiled graphs; none where there are fewer than two in a step."""
    replay = replay_of(analysis)
    host, around = replay.host, surroundings_of(analysis)
    none = np.zeros(len(host), bool)
    compiled = around.around(_is_compiled)
    if not (compiled >= 0).any():
        return none
    reads = around.inside(_READS.__contains__) & (compiled < 0)
    if not is_training(analysis):
        inside = around.around(lambda name: name.startswith(_REGION)) >= 0
        reads &= inside | around.inside(_CONDITION.__eq__)
    forward = (compiled >= 0) & (autograd_functions(analysis) < 0)
    place = np.arange(len(host))
    first = np.flatnonzero(reads & ~np.append(False, reads[:-1]))
    last = np.flatnonzero(reads & ~np.append(reads[1:], False))
    if not len(first):
        return none
    following = np.append(np.flatnonzero(forward), len(host))
    next_graph = following[np.searchsorted(following, last)]
    inside = (first > 0) & (next_graph - last <= MAX_BETWEEN + 1) & (next_graph < len(host))
    inside[inside] &= forward[first[inside] - 1]
    # of the last graph of a row, the value breaks what would come behind it as well
    chained = inside | (np.append(False, inside[:-1]) & (first > 0) & forward[np.maximum(first - 1, 0)])
    if np.count_nonzero(chained) < MIN_BREAKS * replay.steps * len(replay.spans):
        return none
    group = np.searchsorted(first, place, side="right") - 1
    return np.asarray(reads & (group >= 0) & chained[np.maximum(group, 0)])


@derived
def beside_graph_breaks(analysis: Analysis) -> BOOL:
    """The first call of each read-back that breaks a graph, and the one behind it: before them lies the joint."""
    nodes = graph_breaks(analysis)
    return np.asarray(nodes != np.append(False, nodes[:-1]))


@derived
def entering_broken_graphs(analysis: Analysis) -> BOOL:
    """The first call of each compiled graph of a program whose graphs are broken, forward and backward."""
    if not graph_breaks(analysis).any():
        return np.zeros(len(replay_of(analysis).host), bool)
    graph = surroundings_of(analysis).around(_is_compiled)
    return np.asarray((graph >= 0) & (graph != np.append(-1, graph[:-1])))


@derived
def entering_graphs_behind(analysis: Analysis) -> tuple[BOOL, BOOL]:
    """The first calls of graphs behind a read-back, and of those that only come later in the step than another one.

    The former would be one with the graph before them; the latter would if nothing else keeps them apart, such as
    layers that are compiled one by one. The backward pass of a graph has its sequence number.
    """
    host, breaks = replay_of(analysis).host, graph_breaks(analysis)
    function, entering = autograd_functions(analysis), entering_broken_graphs(analysis)
    forward = np.flatnonzero(entering & (function < 0))
    broken = np.cumsum(breaks)[forward]
    same = (np.diff(host.step[forward]) == 0) & (np.diff(host.thread[forward]) == 0)
    behind, later = (np.append(False, same & each) for each in (np.diff(broken) > 0, np.diff(broken) == 0))
    number = analysis.trace.attribute(Attribute.SEQUENCE, surroundings_of(analysis).around(_is_function), -1)
    backward = np.flatnonzero(entering & (function >= 0))
    of_backward = analysis.trace.attribute(Attribute.SEQUENCE, function[backward], -1)

    def with_backward(which: BOOL) -> BOOL:
        found = np.zeros(len(host), bool)
        numbers = number[forward[which]]
        found[forward[which]] = True
        found[backward[np.isin(of_backward, numbers[numbers >= 0])]] = True
        return found

    return with_backward(behind), with_backward(later)


def _is_compiled(name: str) -> bool:
    return _COMPILED.match(name) is not None


def _is_function(name: str) -> bool:
    """What autograd knows of a compiled graph."""
    return name == "CompiledFunction"
