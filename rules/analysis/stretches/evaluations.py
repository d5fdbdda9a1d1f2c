"""When a thread evaluated the model between steps of its training."""

from __future__ import annotations

import re

import numpy as np

from parsers.model import I64, Attribute, EventKind, derived, derived_by
from parsers.model.late import regex
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, clip, subtract, union
from rules.analysis.stretches.worker_starts import worker_starts
from rules.terms import NEARLY_ALL

MIN_LAYERS = 3  # that run in it: fewer are a sum or a projection, not a model
ALIKE = 0.25  # by which part the layers' counts may differ from a multiple of the forward pass
FEW_AFTER = 16  # operators after the last layer: the loss, the accuracy
_LAYERS = regex(
    r"aten::(linear|addmm|matmul|embedding|embedding_bag|conv\dd|conv_transpose\dd|convolution|layer_norm|"
    r"group_norm|rms_norm|batch_norm|instance_norm|scaled_dot_product_attention|lstm|gru|rnn_\w+)$"
)
_OF_OPTIMIZER = regex(r"^Optimizer\.(step|zero_grad)#")
_OF_TRAINING = regex(r"^autograd::engine|^Optimizer\.step#")
_EVALUATES = regex(
    r"(?<![a-z])(eval(uate|uation|uating)?|validat(e|ion|ing)|(val|valid|test)_(step|epoch|loop))(?![a-z])",
    re.IGNORECASE,
)
_FRAME = regex(r"^.*\(\d+\): ")  # what stands before a function's name
_NONE: Intervals = (np.empty(0, np.int64), np.empty(0, np.int64))


@derived_by
def evaluations(analysis: Analysis, thread: int) -> Intervals:
    """Stretches of one thread (ns, disjoint) inside the analysed time; none where nothing says that it is evaluating.

    Two things say so. A range or a function of Python of such a name holds layers and no backward pass. Or, in a step
    that the program marks, all layers of the trained model run without gradients after the optimizer's last step: what
    runs so before the backward pass, such as a teacher or an actor, may be part of the training. The start of workers
    that load the data is left out.
    """
    if not len(_trains(analysis)):
        return _NONE
    trace, table = analysis.trace, analysis.trace.events
    events = analysis.threads.events(thread)
    operators = trace.events.by_start(table.only(events, EventKind.CPU_OP))
    around = np.append(np.int64(-1), np.maximum.accumulate(table.end[operators]))[: len(operators)]
    operators = operators[table.start[operators] >= around]
    layers = np.flatnonzero(named(trace, operators, _LAYERS.match))
    if len(layers) < MIN_LAYERS:
        return _NONE
    found = _named(analysis, events, operators[layers]), _behind_training(analysis, events, operators, layers)
    starts, ends = (np.concatenate(edges) for edges in zip(*found, strict=True))
    return clip(subtract(union(starts, ends), worker_starts(analysis, thread).whole), *analysis.window)


@derived
def _trains(analysis: Analysis) -> I64:
    """When a backward pass worked, or an optimizer began a step, in any thread."""
    trace = analysis.trace
    events = trace.events.of_kind(EventKind.CPU_OP, EventKind.REGION)
    events = events[named(trace, events, _OF_TRAINING.match)]
    return np.sort(trace.events.start[events])


def _named(analysis: Analysis, events: I64, layers: I64) -> Intervals:
    """What is called an evaluation."""
    trace, table = analysis.trace, analysis.trace.events
    ranges = table.only(events, EventKind.REGION, EventKind.PYTHON)
    ranges = ranges[named(trace, ranges, lambda name: _EVALUATES.search(_FRAME.sub("", name)) is not None)]
    start, end = table.spans(ranges)
    held, trained = (
        np.searchsorted(at, end) - np.searchsorted(at, start)
        for at in (table.start[layers], _trains(analysis))
    )
    part = end - start < NEARLY_ALL * analysis.window_ns
    mine = (held >= MIN_LAYERS) & (trained == 0) & part
    return start[mine], end[mine]


def _behind_training(analysis: Analysis, events: I64, operators: I64, layers: I64) -> Intervals:
    """Whole forward passes without gradients, from the optimizer's last step to the end of a marked step."""
    trace, table = analysis.trace, analysis.trace.events
    marks = np.array([step.event for step in analysis.steps if step.event >= 0], np.int64)
    updates = table.only(events, EventKind.REGION)
    updates = trace.events.by_start(updates[named(trace, updates, _OF_OPTIMIZER.match)])
    with_gradient = trace.attribute(Attribute.SEQUENCE, operators[layers], -1) >= 0
    if not (len(marks) and len(updates) and with_gradient.any()) or with_gradient.all():
        return _NONE
    trained = np.bincount(table.name[operators[layers[with_gradient]]], minlength=len(trace.strings))
    begin, end = table.spans(marks)
    last = np.searchsorted(table.start[updates], end) - 1
    updated = table.end[updates[np.maximum(last, 0)]]
    has_update = (last >= 0) & (table.start[updates[np.maximum(last, 0)]] >= begin)
    at = table.start[operators[layers]]
    first = np.searchsorted(at, updated)
    count = np.searchsorted(at, end) - first
    inside = np.searchsorted(table.start[operators], end)
    starts, ends = [], []
    for step in np.flatnonzero(has_update & (count >= MIN_LAYERS)).tolist():
        mine = layers[first[step] : first[step] + count[step]]
        if with_gradient[first[step] : first[step] + count[step]].any():
            continue
        run = np.bincount(table.name[operators[mine]], minlength=len(trace.strings))
        if (run[trained == 0] > 0).any():
            continue
        passes = run[trained > 0] / trained[trained > 0]
        if passes.min() <= 0 or passes.max() > (1 + ALIKE) * passes.min():
            continue
        final = min(int(mine[-1]) + FEW_AFTER, int(inside[step]) - 1)
        starts.append(int(updated[step]))
        ends.append(int(table.end[operators[final]]))
    return np.array(starts, np.int64), np.array(ends, np.int64)
