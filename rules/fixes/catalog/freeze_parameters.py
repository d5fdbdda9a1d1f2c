"""No gradients are computed for parameters that are cleared in each step and that no optimizer owns."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL, I64, Attribute, EventKind, derived
from parsers.model.late.dataclass import dataclass
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.innermost import Innermost
from rules.analysis.names.operators import is_autograd_function
from rules.analysis.names.regions import is_optimizer_step
from rules.fixes.backward import autograd_functions
from rules.fixes.base import MIN_GPU_SHARE, Proposal, fix
from rules.fixes.changes import share_of
from rules.fixes.forms.unused_gradients import without_gradients
from rules.kernels.fitting_shapes import elements
from rules.kernels.recorded_shapes import Shape, inputs_of_event
from rules.replay.replay import Replay, replay_of
from rules.replay.surroundings import surroundings_of

BLOCK_ELEMENTS = (
    65_536  # of one tensor, for a block of a multi-tensor kernel (kChunkSize in ATen's ForeachUtils)
)
MARGIN = 2.0  # times as many blocks as there were, that updating parameters of one shape would take

_GATHERS = "torch::autograd::AccumulateGrad"
_ADDS = "aten::add_"
_UPDATING = "multi_tensor_apply_kernel"
_PRODUCT, _CONVOLUTION, _OF_WEIGHTS = "aten::mm", "aten::convolution_backward", "wgrad"


@dataclass(frozen=True, slots=True, eq=False)
class NotUpdated:
    """Shapes of parameters, sizes ascending, of which a step has this many that no optimizer can have updated."""

    shapes: frozenset[Shape]
    parameters: int


@fix
class FreezeParameters:
    """A model that is adapted with a few new parameters, while the others are neither trained nor frozen."""

    id = "freeze-parameters"
    explanation = """
When it applies
    Each step stores new gradients for parameters of a shape, and updating those would take more than twice as many
    blocks as all multi-tensor kernels of the optimizers have. Shapes must have been recorded. One rank with one
    backward pass in a step is judged, whose optimizers launch nothing but such kernels.

What is changed in the replay
    The products and convolutions that compute these gradients, and what converts them, are gone.

What makes it more or less
    Activations that are kept for these gradients need not be kept, either, which is not counted.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        found = not_updated(analysis)
        if not found.shapes:
            return
        nodes = _calls(analysis, found.shapes)
        if share_of(replay, nodes[replay.device.launch]) >= MIN_GPU_SHARE:
            yield without_gradients(replay, nodes, found.parameters)


@derived
def not_updated(analysis: Analysis) -> NotUpdated:
    """The parameters whose gradients no optimizer can have used, as its kernels are too small for them."""
    replay, none = replay_of(analysis), NotUpdated(frozenset(), 0)
    trace, steps = analysis.trace, replay.steps
    if len(replay.spans) != 1 or Attribute.COLLECTIVE in trace.attributes or not steps:
        return none  # ranks may share the parameters among them
    blocks = _blocks(analysis, replay)
    stored = _stored(analysis, replay)
    if not blocks or not len(stored):
        return none
    dims = trace.attribute(Attribute.INPUT_DIMS, stored, -1)
    _, first, count = np.unique(dims, return_index=True, return_counts=True)
    needed: dict[Shape, tuple[float, int]] = {}
    for event, times in zip(stored[first].tolist(), count.tolist(), strict=True):
        shape = (inputs_of_event(analysis.trace, event) or [[]])[0]
        if len(shape) > 1:  # others have gradients that are computed with something else
            key = tuple(sorted(shape))
            before = needed.get(key, (0.0, 0))
            needed[key] = before[0] + times * np.ceil(elements(shape) / BLOCK_ELEMENTS), before[1] + times
    gone = {shape: times for shape, (number, times) in needed.items() if number > MARGIN * blocks}
    return NotUpdated(frozenset(gone), round(sum(gone.values()) / steps))


def _blocks(analysis: Analysis, replay: Replay) -> int:
    """How many blocks of the optimizers' kernels there were to update with; 0 where that is not known.

    An optimizer may go over its parameters several times with several operators: the largest of them counts.
    """
    trace, device, around = analysis.trace, replay.device, surroundings_of(analysis)
    ranges = around.around(is_optimizer_step)[device.launch]
    mine = np.flatnonzero((ranges >= 0) & (trace.events.kind[device.event] == EventKind.KERNEL))
    if not named(trace, device.event[mine], lambda name: _UPDATING in name).all():
        return 0
    updates, which = np.unique(ranges[mine], return_inverse=True)
    if len(updates) < replay.steps:
        return 0
    operator = around.operator[device.launch[mine]]
    operators, kind = np.unique(np.where(operator >= 0, trace.events.name[operator], -1), return_inverse=True)
    number = trace.attribute(Attribute.GRID, device.event[mine])
    sums = np.bincount(which * len(operators) + kind, number, minlength=len(updates) * len(operators))
    return int(sums.reshape(len(updates), -1).max(axis=1).sum())


def _stored(analysis: Analysis, replay: Replay) -> I64:
    """What stored a gradient instead of adding it to an older one; none where a step has several passes that did.

    In a pass the numbers of the forward pass only descend.
    """
    trace, table, (span,) = analysis.trace, analysis.trace.events, replay.spans
    operators = table.of_kind(EventKind.CPU_OP)
    within = (table.start[operators] >= span.start) & (table.start[operators] < span.end)
    operators = operators[within]
    gathers = operators[named(trace, operators, _GATHERS.__eq__)]
    adds = operators[named(trace, operators, _ADDS.__eq__)]
    functions = operators[named(trace, operators, is_autograd_function)]
    functions = functions[trace.attribute(Attribute.SEQUENCE, functions, -1) >= 0]
    found, passes = [], 0
    for lane in np.unique(table.lane[gathers]).tolist():
        of_lane = gathers[table.lane[gathers] == lane]
        adding = Innermost.of(trace, of_lane).at(table.start[adds[table.lane[adds] == lane]])
        stored = np.setdiff1d(of_lane, adding)
        order = functions[table.lane[functions] == lane]
        order = table.by_start(order)
        if not len(order):
            return np.empty(0, np.int64)  # nobody knows how many passes there were
        begins = np.diff(trace.attribute(Attribute.SEQUENCE, order, -1), prepend=-1) >= 0
        number = np.cumsum(begins)[
            np.maximum(np.searchsorted(table.start[order], table.start[stored]) - 1, 0)
        ]
        passes += len(np.unique(number))
        found.append(stored)
    return np.concatenate(found) if found and passes <= replay.steps else np.empty(0, np.int64)


def _calls(analysis: Analysis, shapes: frozenset[Shape]) -> BOOL:
    """The calls of the backward pass that compute gradients with these shapes, or convert them."""
    around, device = surroundings_of(analysis), replay_of(analysis).device
    operator = np.where(autograd_functions(analysis) >= 0, around.operator, -1)
    dims = np.where(operator >= 0, analysis.trace.attribute(Attribute.INPUT_DIMS, operator, -1), -1)
    name = np.where(operator >= 0, analysis.trace.events.name[operator], -1)
    _, first, which = np.unique(np.column_stack((name, dims)), axis=0, return_index=True, return_inverse=True)
    fits = [_makes(analysis, int(operator[each]), shapes) for each in first.tolist()]
    found = np.array(fits, bool)[which.reshape(-1)]
    of_weights = named(analysis.trace, device.event, lambda name: _OF_WEIGHTS in name.lower())
    convolving = named(analysis.trace, operator, _CONVOLUTION.__eq__)
    launching = np.zeros(len(found), bool)
    launching[device.launch[of_weights]] = True
    return np.asarray(found & (~convolving | launching))


def _makes(analysis: Analysis, operator: int, shapes: frozenset[Shape]) -> bool:
    """Whether an operator of the backward pass works on a gradient of a parameter with one of these shapes."""
    inputs = inputs_of_event(analysis.trace, operator)
    given = [tuple(sorted(each)) for each in inputs]
    name = analysis.trace.name(operator) if operator >= 0 else ""
    if name == _PRODUCT and len(inputs) > 1 and len(inputs[0]) == len(inputs[1]) == 2:
        return tuple(sorted((inputs[0][0], inputs[1][1]))) in shapes and shapes.isdisjoint(given)
    if name == _CONVOLUTION:
        return len(given) > 2 and given[2] in shapes
    return bool(given) and given[0] in shapes
