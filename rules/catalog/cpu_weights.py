"""Programs on the CPU alone that normalise or copy their weights again for each call."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL, I64, EventKind
from parsers.model.late import regex
from parsers.model.names.per_name import named
from parsers.model.units import percent
from rules.analysis.arithmetic.intervals import Intervals, contains, union
from rules.analysis.cpu.cpu_time import CpuTime
from rules.analysis.names.operators import is_autograd_function
from rules.findings.base import Category, Finding, rule
from rules.kernels.recorded_shapes import Shape, inputs_of_events
from rules.losses.cpu_work import MIN_SHARE, MIN_STEPS, CostlyWork, gradients_of
from rules.remedies.costly_forms import NORMALISE_ONCE, ONE_MODEL

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
        gathers = events[named(trace, events, _GATHERS.__eq__) & contains(_window(time), table.start[events])]
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


def _window(time: CpuTime) -> Intervals:
    return np.array([time.window[0]], np.int64), np.array([time.window[1]], np.int64)


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
            f"{'Once' if round(times) == 1 else f'{times:,.0f} times'} a step a tensor as large as weights of a "
            "layer is copied.",
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
