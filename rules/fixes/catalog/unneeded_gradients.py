"""What a backward pass need not compute: a layer several times, untrained parameters, the forward pass again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from parsers.model import BOOL, I64, Attribute, EventKind, derived
from parsers.model.arrays import distinct_values, without
from parsers.model.events import of_kinds
from parsers.model.late import dataclass
from parsers.model.names.per_name import named
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.innermost import Innermost
from rules.analysis.gpu.memory_bound import FUSABLE
from rules.analysis.names.operators import is_autograd_function
from rules.analysis.names.regions import is_optimizer_step
from rules.analysis.stretches.backward_again import backward_again
from rules.analysis.stretches.unneeded_gradients import unneeded_gradients
from rules.findings.category import Category
from rules.fixes.backward import autograd_functions, noting_ns_for
from rules.fixes.base import MIN_GPU_SHARE, Proposal, Remedy, fix, remedy
from rules.fixes.changes import (
    durations_times,
    host_time_times,
    less_host_time,
    of_nodes,
    share_of,
    together,
    without_calls,
)
from rules.fixes.forms.graph_passes import computed_again, computed_again_in_graphs, saving_ns
from rules.fixes.forms.others_gradients import others_gradients, runs_for_nothing
from rules.fixes.loops.filled import filled, joined
from rules.kernels.recorded_shapes import Shape, elements, inputs_of_event, inputs_of_events
from rules.memory.summary import is_nearly_full
from rules.remedies.gradients import (
    GRADIENTS_AT_ONCE,
    NO_GRADIENTS_FOR_OTHERS,
    NO_UNUSED_GRADIENTS,
    ONE_BACKWARD,
)
from rules.replay.replay import Replay, replay_of
from rules.replay.surroundings import surroundings_of
from rules.terms import MAJORITY
from rules.wording.words import for_pytorch

_FOR_NOTHING = (Category.SLOW_OPERATOR, Category.GPU_BOUND, Category.LAUNCH_BOUND)
_COMPUTED_AGAIN = (*_FOR_NOTHING, Category.RECOMPUTATION)


def without_gradients(
    replay: Replay,
    nodes: BOOL,
    parameters: int,
    whose: str = "that no optimizer updates",
    how: Remedy = NO_UNUSED_GRADIENTS,
    categories: tuple[Category, ...] = _FOR_NOTHING,
) -> Proposal:
    """What these calls of the backward pass compute is for so many parameters ``whose`` gradients nobody uses."""
    share = share_of(replay, nodes[replay.device.launch])
    counted = f"{parameters:,} parameter{'s' if parameters != 1 else ''}"
    return Proposal(
        title=(f"Do not compute gradients for {counted} {whose}: {percent(share)} of the GPU's time"),
        categories=categories,
        culprit="gradients that nobody uses",
        problem="Gradients are computed that nobody uses",
        remedy=how,
        expected=without_calls(replay, nodes),
    )


MIN_FUNCTIONS = 10  # of a step that run again: fewer are a shared head


@fix
class AddUpLosses:
    id = "add-up-losses"
    explanation = """
When it applies
    At least 10 functions of the backward pass in a step run again for the same operators of the forward pass, without
    an update of the parameters in between, and the gradients are added to those of the pass before.

What is changed in the replay
    Each function runs once for an operator; the later passes through it are gone, with what they add up.

What makes it more or less
    Whether each pass needs gradients of its own, for weights or clipping by task: then they cannot be one.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        found = backward_again(analysis)
        nodes = np.isin(autograd_functions(analysis), found.functions)
        steps = max(replay.steps * len(replay.spans), 1)
        again = len(distinct_values(autograd_functions(analysis)[nodes]))
        if again < MIN_FUNCTIONS * steps:
            return
        yield Proposal(
            title=f"Add up the losses: the backward pass runs {found.passes} times through the same layers",
            categories=_COMPUTED_AGAIN,
            culprit="backward passes through the same layers",
            problem=f"The backward pass runs {found.passes} times through the same layers",
            remedy=ONE_BACKWARD,
            expected=without_calls(replay, nodes),
        )


BATCHED, BATCHED_AT_MOST = 4.0, 6.0  # times the CPU's time for a pass: each operator is batched anew


@fix
class GradientsAtOnce:
    id = "gradients-at-once"
    explanation = """
When it applies
    At least 10 functions of the backward pass in a step run again for the same operators of the forward pass, and no
    pass adds its gradients to those of parameters.

What is changed in the replay
    The CPU runs the first pass only, which takes it four times as long with all outputs, six times where least is
    gained, and nothing between the passes. The GPU work of the others remains as far as its blocks fill the GPU,
    without the 1.5 us that each kernel takes to start. At most, the first pass is gone as well.

What makes it more or less
    Whether all operators can be batched, and whether the gradients can be had without a backward pass: forward, by
    torch.func.jacfwd, or by a formula.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        found = backward_again(analysis)
        function = autograd_functions(analysis)
        again, first = np.isin(function, found.apart), np.isin(function, found.first)
        steps = max(replay.steps * len(replay.spans), 1)
        if len(distinct_values(function[again])) < MIN_FUNCTIONS * steps:
            return
        at_once = joined(replay, again | _between_passes(first, again), filled(replay))
        batched = [together(at_once, host_time_times(first, factor)) for factor in (BATCHED, BATCHED_AT_MOST)]
        yield Proposal(
            title=(
                f"Take the gradients of {found.passes} outputs at once: the backward pass runs {found.passes} times "
                "through the same graph"
            ),
            categories=(Category.LAUNCH_BOUND, Category.RECOMPUTATION),
            culprit="a backward pass for each output",
            problem=f"The backward pass runs {found.passes} times through the same graph",
            remedy=GRADIENTS_AT_ONCE,
            expected=batched[0],
            low=batched[1],
            high=together(at_once, without_calls(replay, first)),
            depends_on="whether the gradients can be had without a backward pass",
        )


def _between_passes(first: BOOL, again: BOOL) -> BOOL:
    """The calls from the first pass through one graph to the last, where most of them are of passes.

    They pick an output and keep its gradient: of all of them at once, nothing is picked.
    """
    found = np.zeros(len(again), bool)
    passes = np.flatnonzero(first | again)
    begins = np.flatnonzero(first[passes] & np.append(True, again[passes][:-1]))
    for mine in np.split(passes, begins[1:]):
        region = slice(int(mine[first[mine]].max(initial=mine[0])) + 1, int(mine[-1]) + 1)
        found[region] = np.count_nonzero(again[region]) > MAJORITY * (region.stop - region.start)
    return found


@fix
class SkipUnusedGradients:
    id = "skip-unused-gradients"
    explanation = """
When it applies
    In each of at least two steps with an optimizer's step and one backward pass, the gradients of some parameters are
    stored anew, and others are added to older ones: no optimizer clears those.

What is changed in the replay
    Where they come before all parameters whose gradients are stored, the backward pass ends before them: its functions
    for the operators of the forward pass up to there are gone, and what anomaly detection notes down for these. Of
    other parameters, as where a picture is changed by what a frozen network says of it, the products and convolutions
    that compute their gradients are gone, with what converts and adds them. If the network is also run on something
    that gets no gradient, such as the picture that is wanted, all functions of that run are. Shapes must be recorded
    for that.

What makes it more or less
    Without gradients, the forward pass of this part also takes less CPU time and keeps no activations, which is not
    counted. Where the gradients are used in a way that no recording shows, such as a hook, nothing can be left out.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        found = unneeded_gradients(analysis)
        function = autograd_functions(analysis)
        nodes, parameters = np.isin(function, found.functions), found.parameters
        if shapes := _shapes_of(analysis, found.gathers):
            beside = np.isin(function, found.beside) & _calls(analysis, shapes)
            beside |= np.isin(function, runs_for_nothing(analysis, found.beside))
            if share_of(replay, (nodes | beside)[replay.device.launch]) >= MIN_GPU_SHARE:
                nodes, parameters = nodes | beside, parameters + found.more
        if not nodes[replay.device.launch].any():
            return
        proposal = without_gradients(replay, nodes, parameters)
        noted = noting_ns_for(analysis, found.functions)
        yield replace(proposal, expected=together(proposal.expected, less_host_time(noted > 0, noted)))


@fix
class SkipOthersGradients:
    id = "skip-others-gradients"
    explanation = """
When it applies
    Each step has several backward passes, each with an optimizer that clears its gradients before and updates behind
    it: of one rank, with shapes, and an optimizer that updates lists of tensors. A pass stores the gradients of what
    its optimizer updates, and adds others to older ones, which are cleared before the pass of their own optimizer.

What is changed in the replay
    The backward pass ends before these parameters where nothing else lies behind them. Elsewhere the products and
    convolutions that compute their gradients are gone, with what converts and adds them.

What makes it more or less
    The forward pass, too, then keeps fewer activations, which is not counted.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        found = others_gradients(analysis)
        function = autograd_functions(analysis)
        nodes = np.isin(function, found.leading)
        if len(found.gathers):
            nodes |= np.isin(function, found.beside) & _calls(analysis, _shapes_of(analysis, found.gathers))
        if share_of(replay, nodes[replay.device.launch]) >= MIN_GPU_SHARE:
            whose = "whose own optimizer clears them unused"
            yield without_gradients(
                replay, nodes, found.parameters, whose, NO_GRADIENTS_FOR_OTHERS, _COMPUTED_AGAIN
            )


def _shapes_of(analysis: Analysis, gathers: I64) -> frozenset[Shape]:
    """The shapes of gathered gradients, sizes ascending."""
    inputs = inputs_of_events(analysis.trace, gathers)
    return frozenset(tuple(sorted(each[0])) for each in inputs if each and each[0])


# of one tensor, for a block of a multi-tensor kernel (kChunkSize in ATen's ForeachUtils)
BLOCK_ELEMENTS = 65_536
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
    for lane in distinct_values(table.lane[gathers]).tolist():
        of_lane = gathers[table.lane[gathers] == lane]
        adding = Innermost.of(trace, of_lane).at(table.start[adds[table.lane[adds] == lane]])
        stored = without(of_lane, adding)
        order = functions[table.lane[functions] == lane]
        order = table.by_start(order)
        if not len(order):
            return np.empty(0, np.int64)  # nobody knows how many passes there were
        begins = np.diff(trace.attribute(Attribute.SEQUENCE, order, -1), prepend=-1) >= 0
        number = np.cumsum(begins)[
            np.maximum(np.searchsorted(table.start[order], table.start[stored]) - 1, 0)
        ]
        passes += len(distinct_values(number))
        found.append(stored)
    return np.concatenate(found) if found and passes <= replay.steps else np.empty(0, np.int64)


def _calls(analysis: Analysis, shapes: frozenset[Shape]) -> BOOL:
    """The calls of the backward pass that compute gradients with these shapes, or convert them."""
    around, replay = surroundings_of(analysis), replay_of(analysis)
    operator = np.where(autograd_functions(analysis) >= 0, around.operator, -1)
    dims = np.where(operator >= 0, analysis.trace.attribute(Attribute.INPUT_DIMS, operator, -1), -1)
    name = np.where(operator >= 0, analysis.trace.events.name[operator], -1)
    _, first, which = np.unique(np.column_stack((name, dims)), axis=0, return_index=True, return_inverse=True)
    fits = [_makes(analysis, int(operator[each]), shapes) for each in first.tolist()]
    found = np.array(fits, bool)[which.reshape(-1)]
    of_weights = named(analysis.trace, replay.device.event, lambda name: _OF_WEIGHTS in name.lower())
    convolving = named(analysis.trace, operator, _CONVOLUTION.__eq__)
    return np.asarray(found & (~convolving | of_nodes(replay, of_weights)))


def _makes(analysis: Analysis, operator: int, shapes: frozenset[Shape]) -> bool:
    """Whether an operator of the backward pass works on a gradient of a parameter with one of these shapes."""
    inputs = inputs_of_event(analysis.trace, operator)
    given = [tuple(sorted(each)) if all(isinstance(side, int) for side in each) else () for each in inputs]
    name = analysis.trace.name(operator) if operator >= 0 else ""
    if name == _PRODUCT and len(inputs) > 1 and len(inputs[0]) == len(inputs[1]) == 2:
        return tuple(sorted((inputs[0][0], inputs[1][1]))) in shapes and shapes.isdisjoint(given)
    if name == _CONVOLUTION:
        return len(given) > 2 and given[2] in shapes
    return bool(given) and given[0] in shapes


_CODE = """# transformers: model.gradient_checkpointing_disable()
hidden = block(hidden)                       # instead of checkpoint(block, hidden)"""


@fix
class KeepActivations:
    id = "keep-activations"
    explanation = """
When it applies
    Operators of the forward pass run inside functions of the backward pass for at least 5 % of the GPU's time, and
    the GPU's memory, if it was recorded, is at most 70 % full. Or a CUDA graph has kernels of the forward pass, by
    their names, before the first one of the backward pass and again between those. So has a step where no operators
    were recorded; there eight or more launches in a row must come in an order of the forward pass.

What is changed in the replay
    Everything up to the last of these operators in each function is gone, and of a graph the time of its forward pass.
    So is the CPU time that torch.utils.checkpoint takes to keep the state of random numbers and to put it back.

What makes it more or less
    Whether the GPU's memory has room for the activations.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        device = replay.device
        again = computed_again(analysis, replay)
        in_graphs = computed_again_in_graphs(analysis, replay)
        saving = saving_ns(analysis, again)
        share = share_of(replay, again[device.launch])
        share += float(device.duration @ in_graphs) / max(float(device.duration.sum()), 1.0)
        if share < MIN_GPU_SHARE or is_nearly_full(analysis):
            return
        yield Proposal(
            title=f"Keep activations instead of recomputing them: {percent(share)} of the GPU's time",
            categories=_categories(analysis, replay, again[device.launch]),
            culprit="activation checkpointing",
            problem="Activations are computed twice",
            remedy=remedy(
                "The forward pass runs a second time inside the backward pass to save memory. If the GPU has room, "
                "keep the activations.",
                for_pytorch(
                    "Turn checkpointing off, or checkpoint only as many blocks as memory requires; "
                    "torch.cuda.max_memory_allocated() shows how much is used."
                ),
                code=for_pytorch(_CODE),
            ),
            expected=together(
                without_calls(replay, again),
                less_host_time(saving > 0, saving),
                durations_times(in_graphs > 0, 1 - in_graphs),
            ),
            depends_on="whether the GPU's memory has room for the activations",
        )


def _categories(analysis: Analysis, replay: Replay, again: BOOL) -> tuple[Category, ...]:
    """What it is told as: of kernels that only move memory, too, where most of what is computed again does."""
    family = analysis.family_of_string[analysis.trace.events.name[replay.device.event]]
    moving = share_of(replay, again & of_kinds(family, *FUSABLE))
    memory = (Category.MEMORY_BOUND_KERNELS,) if moving > MAJORITY * share_of(replay, again) else ()
    return *_COMPUTED_AGAIN, *memory
