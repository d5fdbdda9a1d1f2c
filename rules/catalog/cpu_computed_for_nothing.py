"""Programs on the CPU alone that compute what nobody needs: passes and weights again, unused gradients, dropout."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL, I64, EventKind
from parsers.model.late import regex
from parsers.model.names.per_name import named
from parsers.model.units import duration, percent
from rules.analysis.arithmetic.innermost import Innermost
from rules.analysis.arithmetic.intervals import Intervals, clip, contains, union
from rules.analysis.cpu.cpu_time import CpuTime
from rules.analysis.names.operators import FORWARD, is_autograd_function
from rules.analysis.stretches.backward_again import backward_again
from rules.analysis.stretches.unneeded_gradients import unneeded_gradients
from rules.findings.base import Category, Finding, rule
from rules.kernels.recorded_shapes import Shape, inputs_of_events
from rules.losses.cpu_work import (
    MAX_NAMED,
    MIN_SHARE,
    MIN_STEPS,
    CostlyWork,
    CpuRule,
    active_dropouts,
    gradients_of,
    line_or_operator,
    longest_of,
)
from rules.losses.lost_time import event_evidence
from rules.remedies.costly_forms import NORMALISE_ONCE, ONE_MODEL
from rules.remedies.cpu_work import COMPUTED_ONCE
from rules.remedies.gradients import NO_UNUSED_GRADIENTS, ONE_BACKWARD
from rules.remedies.remedy import pytorch_remedy
from rules.terms import Culprit, CulpritKind
from rules.wording.words import times_said


@rule
class CpuBackwardAgain(CpuRule):
    id = "cpu-backward-again"
    category = Category.SLOW_OPERATOR
    steps_needed = 0
    explanation = f"""
What it found
    Only the CPU was recorded, and several losses are sent back through the same layers one by one.

Why it costs time
    Each pass computes the gradients of the shared layers again. Gradients of a sum are the sum of the gradients, so
    that one pass of the added losses gives the same.

How it decides
    A function of the backward pass has the number of its operator of the forward pass. The same number comes again
    without an update of the parameters in between, and the gradients are added to those of the pass before. Below
    {percent(MIN_SHARE)} of the step nothing is reported.

What to try
    Add up the losses, and call backward() once without retain_graph=True.

When it is wrong
    If each task's gradients are needed for themselves, for weights or clipping by task.
"""

    def of_steps(self, time: CpuTime) -> Iterable[Finding]:
        found = backward_again(time.analysis)
        if not len(found.functions):
            return
        table, events = time.trace.events, found.functions
        lost = time.without_recorder(clip(union(*table.spans(events)), *time.window))
        if lost < MIN_SHARE * time.step_ns:
            return
        steps = time.steps
        yield self.lost(
            time,
            lost,
            f"The backward pass runs {found.passes} times through the same layers",
            account="Several losses are sent back one after another through layers that they share. The passes after "
            f"the first take {duration(lost / steps)} of the {duration(time.step_ns / steps)} of a step.",
            remedy=ONE_BACKWARD,
            culprit=Culprit(CulpritKind.OPERATOR, "backward passes through the same layers"),
            evidence=event_evidence(time.trace, events, MAX_NAMED),
            unknown=("Whether each loss needs gradients of its own, for weights or clipping by task.",),
        )


@rule
class CpuComputedTwice(CpuRule):
    id = "cpu-computed-twice"
    category = Category.SLOW_OPERATOR
    explanation = f"""
What it found
    Only the CPU was recorded, and operators of the forward pass run again inside functions of the backward pass, as
    activation checkpointing makes them.

Why it costs time
    The forward pass is computed twice. That saves memory, of which a CPU's machine usually has enough.

How it decides
    In each function of the backward pass, the time from its first operator of the forward pass (linear, conv2d,
    layer_norm, softmax ...) to its last one. Below {percent(MIN_SHARE)} of the step nothing is reported, nor if fewer
    than {MIN_STEPS} steps were found.

What to try
    Keep the activations: call the blocks directly, or checkpoint only as many of them as memory requires.

When it is wrong
    If the machine's memory has no room for the activations; how full it is was not recorded.
"""

    def of_steps(self, time: CpuTime) -> Iterable[Finding]:
        again = _computed_again(time)
        lost = time.without_recorder(again)
        if lost < MIN_SHARE * time.step_ns:
            return
        steps = time.steps
        yield self.lost(
            time,
            lost,
            "Activations are computed twice",
            account="The backward pass computes parts of the forward pass again, "
            f"{times_said(len(again[0]) / steps)} a step. That takes {duration(lost / steps)} of the "
            f"{duration(time.step_ns / steps)} of a step.",
            remedy=COMPUTED_ONCE,
            culprit=line_or_operator(time, "activation checkpointing", again),
            evidence=longest_of(time, again, "forward pass inside the backward pass"),
            unknown=("Whether memory has room for the activations.",),
        )


def _computed_again(time: CpuTime) -> Intervals:
    """From the first to the last operator of the forward pass in each function of the backward pass."""
    trace, table = time.trace, time.trace.events
    events = time.activity.of_kind(EventKind.CPU_OP)
    functions = events[named(trace, events, is_autograd_function)]
    forward = events[named(trace, events, FORWARD.__contains__)]
    around = Innermost.of(trace, functions).at(table.start[forward])
    forward, around = forward[around >= 0], around[around >= 0]
    found, which = np.unique(around, return_inverse=True)
    first, last = np.full(len(found), np.iinfo(np.int64).max), np.zeros(len(found), np.int64)
    np.minimum.at(first, which, table.start[forward])
    np.maximum.at(last, which, table.end[forward])
    return clip(union(first, last), *time.window)


@rule
class CpuUnusedGradients(CpuRule):
    id = "cpu-unused-gradients"
    category = Category.SLOW_OPERATOR
    steps_needed = 0
    explanation = f"""
What it found
    Only the CPU was recorded, and a part of the backward pass computes gradients that no optimizer uses.

Why it costs time
    A backward pass takes about twice as long as its forward pass. For a network that is not trained, such as a frozen
    backbone or a teacher, it is done for nothing.

How it decides
    An optimizer clears its parameters' gradients, so in each step they are stored anew. Gradients that are added to
    older ones in every step belong to no optimizer. In a step with one backward pass, what belongs to operators of the
    forward pass before the first parameter with a stored gradient can only lead to such gradients. Below
    {percent(MIN_SHARE)} of the step nothing is reported.

What to try
    Run that part under torch.no_grad(), or call requires_grad_(False) on it.

When it is wrong
    If a hook uses these gradients, or code that runs less often than each step.
"""

    def of_steps(self, time: CpuTime) -> Iterable[Finding]:
        found = unneeded_gradients(time.analysis)
        if not len(found.functions):
            return
        table, events = time.trace.events, found.functions
        lost = time.without_recorder(clip(union(*table.spans(events)), *time.window))
        if lost < MIN_SHARE * time.step_ns:
            return
        parameters = f"{found.parameters:,} parameter{'s' if found.parameters != 1 else ''}"
        steps = time.steps
        yield self.lost(
            time,
            lost,
            "Gradients are computed that nobody uses",
            account=f"The backward pass goes on to {parameters} whose gradients only add up from "
            "step to step: no optimizer updates or clears them. "
            f"That takes {duration(lost / steps)} of the {duration(time.step_ns / steps)} of a step.",
            remedy=NO_UNUSED_GRADIENTS,
            culprit=Culprit(CulpritKind.OPERATOR, "gradients that nobody uses"),
            evidence=event_evidence(time.trace, events, MAX_NAMED),
            unknown=("Whether a hook, or code that runs less often, uses these gradients.",),
        )


EVALUATE = pytorch_remedy(
    "Call model.eval() before the model is used: dropout then does nothing, and results repeat.",
    "Run it under torch.inference_mode(): autograd then keeps nothing for a backward pass.",
    code="""model.eval()
with torch.inference_mode():
    answers = model(batch)""",
)


@rule
class CpuActiveDropout(CpuRule):
    id = "cpu-active-dropout"
    explanation = f"""
What it found
    Only the CPU was recorded, and layers of dropout draw random numbers though no backward pass runs.

Why it costs time
    A random number for each value takes longer than many layers. Outside training it also makes answers worse, and
    different each time.

How it decides
    The time of dropouts inside of which random numbers are drawn, where the recording has no function of a backward
    pass. Below {percent(MIN_SHARE)} of the step nothing is reported, nor if fewer than {MIN_STEPS} steps were found.

What to try
    model.eval(), and torch.inference_mode() around the calls.

When it is wrong
    If dropout is wanted, as to estimate how sure a model is.
"""

    def of_steps(self, time: CpuTime) -> Iterable[Finding]:
        drops = active_dropouts(time)
        lost = time.without_recorder(drops)
        if lost < MIN_SHARE * time.step_ns:
            return
        steps = time.steps
        yield self.lost(
            time,
            lost,
            "Dropout is active, though nothing is trained",
            account="No backward pass was recorded, but random numbers are drawn for "
            f"{_dropped_times(len(drops[0]) / steps)} a step. That takes {duration(lost / steps)} of the "
            f"{duration(time.step_ns / steps)} of a step.",
            remedy=EVALUATE,
            culprit=line_or_operator(time, "aten::dropout", drops),
            evidence=longest_of(time, drops, "dropout"),
            unknown=("Whether dropout is wanted, as to estimate how sure a model is.",),
        )


def _dropped_times(count: float) -> str:
    return "one dropout" if round(count) == 1 else f"{count:,.0f} dropouts"


_NORMALISES = regex(r"aten::(_weight_norm|_weight_norm_interface)$")
_GATHERS = "torch::autograd::AccumulateGrad"
MIN_CALLS = 2  # for each layer and step


@rule
class CpuWeightsAgain(CostlyWork):
    id = "cpu-weights-again"
    category = Category.RECOMPUTATION
    explanation = f"""
What it found
    Only the CPU was recorded, and the weights of a layer are normalised (weight_norm) several times in a step.

Why it costs time
    The result is the same until an optimizer changes the parameters. In a loop over time it is computed for each time
    step, and so are its gradients.

How it decides
    aten::_weight_norm is called at least {MIN_CALLS} times as often in a step as parameters of that shape get a
    gradient. What is called more often than they are counts, with its gradients. Below {percent(MIN_SHARE)} of the step
    nothing is reported, nor if fewer than {MIN_STEPS} steps were found. Shapes must be recorded.

What to try
    torch.nn.utils.parametrize.cached() around the loop.

When it is wrong
    If the parameters are changed within a step, as where several models are trained in it.
"""

    def of_steps(self, time: CpuTime) -> Iterable[Finding]:
        trace, table = time.trace, time.trace.events
        calls = time.operators[named(trace, time.operators, _NORMALISES.match)]
        events = time.activity.of_kind(EventKind.CPU_OP)
        gathers = events[named(trace, events, _GATHERS.__eq__) & contains(time.whole, table.start[events])]
        parameters = [tuple(each[0]) for each in inputs_of_events(trace, gathers) if each]
        shapes = [tuple(each[0]) if each else () for each in inputs_of_events(trace, calls)]
        often = {
            each: shapes.count(each) / max(parameters.count(each), 1)
            for each in set(shapes) & set(parameters)
        }
        again = np.array([often.get(each, 0.0) >= MIN_CALLS for each in shapes], bool)
        if not again.any():
            return
        mine = calls[again]
        spans = union(*table.spans(np.concatenate((mine, gradients_of(time, mine)))))
        times = max(often.values())
        yield from self.told_of(
            time,
            spans,
            1 / times,
            "Weights are normalised again for each call",
            f"The weights of a layer are normalised {times:,.0f} times a step, though they change once.",
            remedy=NORMALISE_ONCE,
        )


MIN_WEIGHTS = 10_000  # numbers: of smaller tensors nobody knows whether they are weights
_COPIES = regex(r"aten::(clone|copy_)$")
_BESIDE = regex(
    r"aten::(clone|copy_|detach|detach_|alias|empty|empty_like|empty_strided|set_|zeros|zeros_like)$"
)
_LAYERS = regex(r"aten::(linear|conv1d|conv2d|conv3d|embedding)$")


@rule
class CpuCopiedWeights(CostlyWork):
    id = "cpu-copied-weights"
    category = Category.MEMORY_BOUND_KERNELS
    explanation = f"""
What it found
    Only the CPU was recorded, nothing is trained, and the weights of a model are copied in each step.

Why it costs time
    A copy reads and writes all weights, and the copied ones have left the cache when they are used. copy.deepcopy also
    goes through every module in Python.

How it decides
    Tensors of the shape of a layer's weights (the second that linear or conv2d is handed, the first of embedding) with
    at least {MIN_WEIGHTS:,} numbers are copied, and no backward pass was recorded. From the first to the last of copies
    that follow one another, all of the time counts. Below {percent(MIN_SHARE)} of the step nothing is reported, nor if
    fewer than {MIN_STEPS} steps were found. Shapes must be recorded.

What to try
    Use one model for all calls.

When it is wrong
    If the weights are changed for each call.
"""

    def of_steps(self, time: CpuTime) -> Iterable[Finding]:
        trace, operators = time.trace, time.operators
        if named(trace, operators, is_autograd_function).any():
            return
        weights = _weights(time)
        copies = named(trace, operators, _COPIES.match)
        copies[copies] = [
            bool(each) and tuple(each[0]) in weights for each in inputs_of_events(trace, operators[copies])
        ]
        if not copies.any():
            return
        beside = named(trace, operators, _BESIDE.match)
        starts, ends, _ = _runs(beside)
        held = np.append(0, np.cumsum(copies))
        mine = held[ends] > held[starts]
        start, end = trace.events.spans(operators)
        times = int(copies.sum()) / time.steps
        spans = union(start[starts[mine]], end[ends[mine] - 1])
        yield from self.told_of(
            time,
            spans,
            0.0,
            "Weights are copied again in each step",
            f"{times_said(times).capitalize()} a step a tensor as large as weights of a layer is copied.",
            remedy=ONE_MODEL,
            unknown=("Whether the copies are changed.",),
        )


def _weights(time: CpuTime) -> set[Shape]:
    """The shapes of weights of layers."""
    trace, operators = time.trace, time.operators
    layers = operators[named(trace, operators, _LAYERS.match)]
    tables = named(trace, layers, "aten::embedding".__eq__)
    handed = [(*each, [], []) for each in inputs_of_events(trace, layers)]
    found = {tuple(each[0 if table else 1]) for each, table in zip(handed, tables.tolist(), strict=True)}
    return {each for each in found if math.prod(each) >= MIN_WEIGHTS}


def _runs(of: BOOL) -> tuple[I64, I64, I64]:
    edges = np.flatnonzero(np.diff(np.concatenate(([False], of, [False])).astype(np.int8)))
    return edges[::2], edges[1::2], edges[1::2] - edges[::2]
