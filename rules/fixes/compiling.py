"""What torch.compile costs while a program runs: compiling again in most steps, and graphs that read-backs break."""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL, F64, Attribute, EventKind, derived
from parsers.model.late import regex
from rules.analysis.analysis import Analysis
from rules.analysis.names.compilers import is_compiling
from rules.analysis.recording.training import is_training
from rules.fixes.backward import autograd_functions
from rules.replay.replay import replay_of
from rules.replay.surroundings import surroundings_of
from rules.terms import MAJORITY

MIN_NS = 1_000_000.0  # of a step
MIN_STEPS = 2  # a single one may be the first of its kind
# "Torch-Compiled Region" also holds what Python does behind a graph that was broken
_COMPILED = regex(r"## Call CompiledFxGraph|CompiledFunction$|inductor_root")
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
    wanted = _READS if is_training(analysis) else (_CONDITION,)
    reads = around.inside(wanted.__contains__) & (compiled < 0)
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
