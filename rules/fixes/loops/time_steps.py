"""Recurrent layers that are called for one time step after another, though all of their inputs are known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from parsers.model import BOOL, F64, I64, Attribute, derived_by
from parsers.model.arrays import median_of
from parsers.model.late import dataclass, regex
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.names.operators import aten
from rules.fixes.backward import autograd_functions
from rules.fixes.forms.written import calls_of
from rules.kernels.gpu_peaks import peaks_of
from rules.kernels.recorded_shapes import inputs_of_events
from rules.replay.origins import called_operators
from rules.replay.replay import Replay

MIN_CALLS = 8  # in a step: fewer are layers of a model
RATE = 0.25  # of the peak in single precision: what a layer reaches over all time steps
STEP_NS = 5_000.0  # of the GPU for one time step of one layer at least; twice as long backwards
BACKWARD = 2.0  # times the work of the forward pass
UNSURE = 1.5  # both may be as much more or less
FAR = 3  # times the usual number of calls from one to the next: another loop
MAX_STACKED = 4  # layers that take in turn what the one before gave
_LAYER = regex(r"aten::(lstm|gru|rnn_tanh|rnn_relu)$")
_TAKES = aten("slice select narrow index_select")
_CUTS = aten("unbind split split_with_sizes chunk tensor_split unsafe_split")
# what becomes of an input on its way to the layer that takes it; nothing here has two inputs without weights
_ALONG = regex(
    r"aten::(linear|embedding|layer_norm|rms_norm|native_layer_norm|batch_norm|dropout|(leaky_)?relu_?|gelu|silu|tanh"
    r"|sigmoid|elu|addmm|t|to|contiguous|clone|view|reshape|flatten|unflatten|(un)?squeeze_?|transpose|permute|expand"
    r"|detach|zeros)$"
)
# what is made of an output, beside that
_OF_RESULTS = regex(r"aten::(softplus|exp|(log_)?softmax|split|chunk|unbind)$")
_PRODUCT = "aten::linear"


@dataclass(frozen=True, slots=True, eq=False)
class Stepwise:
    """Calls of layers for one time step each (operators), and the host nodes of all rounds but the first.

    ``left``: the part of the GPU's time that remains of each operation, as far as it is the layers' (else 1).
    """

    calls: I64
    later: BOOL
    layers: BOOL
    left: F64


@derived_by
def stepwise(analysis: Analysis, replay: Replay) -> Stepwise | None:
    """The layers that are called step by step in each step of a program; None where there are none.

    An input is known before where it is taken out of a sequence between the calls, or the sequence was cut before the
    first one, and nothing is put together with what another step gave. Shapes must be recorded.
    """
    if Attribute.INPUT_DIMS not in analysis.trace.attributes:
        return None
    host = replay.host
    calls = []
    later = np.zeros(len(host), bool)
    for thread, members in enumerate(host.members):
        operators = np.concatenate([analysis.threads.activity(each).whole_operators for each in members])
        operators = analysis.trace.events.by_start(operators)
        first, last = int(host.first[thread]), int(host.first[thread + 1])
        known = _known_before(analysis, operators)
        node = first + np.searchsorted(host.start[first:last], analysis.trace.events.start[known])
        known, node = known[node < last], node[node < last]
        for mine in _loops(node, host.step[node]):
            if len(mine) < MIN_CALLS:
                continue
            dims = analysis.trace.attribute(Attribute.INPUT_DIMS, known[mine], -1)
            starts = node[mine][dims == dims[0]]
            step_end = first + int(np.searchsorted(host.step[first:last], host.step[starts[0]], side="right"))
            end = min(int(starts[-1] + median_of(np.diff(starts))), step_end)
            calls.append(known[mine])
            later[starts[1] : end] = True
    if not calls:
        return None
    found = np.concatenate(calls)
    operators = called_operators(analysis)
    later |= calls_of(analysis, np.unique(operators[later & (operators >= 0)])) & (
        autograd_functions(analysis) >= 0
    )
    return Stepwise(found, later, calls_of(analysis, found), _left(analysis, replay, found))


def _loops(node: I64, step: I64) -> list[I64]:
    """The calls of each loop: of one step, with as much between them."""
    apart, same = np.diff(node), np.diff(step) == 0
    usual = apart[same].mean() if same.any() else 0.0
    edges = np.flatnonzero(~same | (apart > FAR * usual)) + 1
    return np.split(np.arange(len(node)), edges)


def _known_before(analysis: Analysis, operators: I64) -> I64:
    """The calls of layers, of these operators, that take one time step of a sequence that is known."""
    trace = analysis.trace
    layer = named(trace, operators, _LAYER.match)
    place = np.flatnonzero(layer)
    calls = [_Call.of(each) for each in inputs_of_events(trace, operators[place])]
    place = place[np.array([each is not None for each in calls], bool)]
    if len(place) < MIN_CALLS:
        return operators[:0]
    takes = named(trace, operators, _TAKES.__contains__)
    last_take, last_stop = (
        _last_before(each, place) for each in (takes, ~takes & ~named(trace, operators, _ALONG.match))
    )
    fed = last_take > last_stop
    for _ in range(MAX_STACKED - 1):
        fed |= np.isin(last_stop, place[fed])
    widths = {each.width for each in calls if each is not None}
    fed |= _is_cut(analysis, operators, place, widths)
    return np.asarray(operators[place[fed]])


def _last_before(wanted: BOOL, place: I64) -> I64:
    """The last wanted one before each of these places; -1 without any."""
    last = np.maximum.accumulate(np.where(wanted, np.arange(len(wanted)), -1))
    return np.append(-1, last)[place]


def _is_cut(analysis: Analysis, operators: I64, place: I64, widths: set[int]) -> BOOL:
    """Whether each call is one of as many as a sequence was cut into before, and no input is made of a result.

    A product with weights may make one where it gives as many numbers as a layer takes.
    """
    trace = analysis.trace
    found = np.zeros(len(place), bool)
    cuts = np.flatnonzero(named(trace, operators, _CUTS.__contains__))
    others = ~named(trace, operators, lambda name: bool(_ALONG.match(name) or _OF_RESULTS.match(name)))
    products = np.flatnonzero(named(trace, operators, _PRODUCT.__eq__))
    shapes = inputs_of_events(trace, operators[products])
    makes = [len(each) > 1 and bool(each[1]) and each[1][0] in widths for each in shapes]
    others[products[np.array(makes, bool)]] = True
    before = np.append(0, np.cumsum(others))
    follows = np.append(False, before[place[1:]] - before[place[:-1] + 1] == 0)
    first = np.searchsorted(place, cuts)
    dims = trace.attribute(Attribute.INPUT_DIMS, operators[cuts], -1)
    for number, shape in enumerate(inputs_of_events(trace, operators[cuts])):
        begin = int(first[number])
        ends = np.append(begin + 1 + np.flatnonzero(~follows[begin + 1 :]), len(place))
        again = number + 1 + np.flatnonzero(dims[number + 1 :] == dims[number])
        end = int(min(ends[0], first[again[0]] if len(again) else len(place)))
        if shape and end - begin in shape[0]:
            found[begin:end] = True
    return found


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of a layer for one time step: how many numbers it takes of each sample, its layers, and its operations."""

    width: int
    layers: int
    operations: float

    @classmethod
    def of(cls, inputs: list[Any]) -> _Call | None:
        """By the sizes of its input, its state and its weights; None where it takes several time steps."""
        if len(inputs) < 3 or not all(inputs[:3]):
            return None
        given, state, weights = inputs[:3]
        state = state[0] if isinstance(state[0], list) else state
        if not all(isinstance(each, list) for each in weights) or len(given) != len(state) or len(state) < 2:
            return None
        samples = state[1] if len(state) > 2 else 1
        if math.prod(given[:-1]) != samples:
            return None
        products = sum(math.prod(each) for each in weights if len(each) > 1)
        return cls(given[-1], state[0], 2.0 * samples * products)


def _left(analysis: Analysis, replay: Replay, calls: I64) -> F64:
    """The part of the time of each operation that remains in one call for all steps; 1 of all that is no layer's."""
    device, trace = replay.device, analysis.trace
    left = np.ones(len(device))
    peaks = peaks_of(next((each.name for each in trace.devices if each.name), None))
    if peaks is None or "fp32" not in peaks.operations:
        return left
    calls = np.sort(calls)
    told = [_Call.of(each) for each in inputs_of_events(trace, calls)]
    rate = RATE * peaks.operations["fp32"] / 1e9
    needed = np.array([max(each.operations / rate, each.layers * STEP_NS) if each else 0.0 for each in told])
    called = called_operators(analysis)[device.launch]
    backward = (autograd_functions(analysis) >= 0)[device.launch]
    for pass_, times in ((~backward, 1.0), (backward, BACKWARD)):
        mine = np.flatnonzero(np.isin(called, calls) & pass_)
        place = np.searchsorted(calls, called[mine])
        took = np.bincount(place, device.duration[mine], minlength=len(calls))
        left[mine] = np.minimum(needed * times / np.maximum(took, 1.0), 1.0)[place]
    return left
