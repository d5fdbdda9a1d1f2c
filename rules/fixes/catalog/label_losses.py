"""Losses that compare scores with a distribution over all classes, built from one label for each row."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from parsers.model import I64, derived
from parsers.model.arrays import distinct_values
from parsers.model.names.per_name import named
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import durations_times, together, without_calls
from rules.fixes.forms.written import called_in_order, calls_of, costly_calls
from rules.kernels.recorded_shapes import Shapes, elements, fitting
from rules.remedies.remedy import pytorch_remedy
from rules.replay.replay import Replay

FAR = 32  # operators from writing the labels' places to the loss: padding is found and cleared meanwhile
BEFORE = 8  # operators from making the tensor to that
_LOSSES = frozenset({"aten::kl_div", "aten::cross_entropy_loss"})
_WRITES_LABELS = frozenset({"aten::scatter_", "aten::scatter"})
_FILLS = (
    frozenset(
        f"aten::{name}"
        for name in (
            "clone",
            "full_like",
            "zeros_like",
            "fill_",
            "zero_",
            "index_fill_",
            "masked_fill_",
            "masked_fill",
        )
    )
    | _WRITES_LABELS
)


_FINDS_PADDING = frozenset({"aten::eq", "aten::nonzero", "aten::masked_select", "aten::item"})


class DenseTargets(NamedTuple):
    """Operators, ascending and each once: that build a distribution or compare with it, and that look for padding."""

    distribution: I64
    padding: I64


@derived
def dense_targets(analysis: Analysis) -> DenseTargets:
    """Where a program builds one before a loss."""
    trace = analysis.trace
    found, padding = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for operators in called_in_order(analysis):
        losses = np.flatnonzero(named(trace, operators, _LOSSES.__contains__))
        fills = named(trace, operators, _FILLS.__contains__)
        looks = named(trace, operators, _FINDS_PADDING.__contains__)
        writes = np.flatnonzero(named(trace, operators, _WRITES_LABELS.__contains__))
        following = np.searchsorted(losses, writes)
        writes, following = writes[following < len(losses)], following[following < len(losses)]
        loss = losses[following]
        fits = (loss - writes <= FAR) & fitting(trace, operators[writes], operators[loss], fits=_are_labels)
        writes, loss = writes[fits], loss[fits]
        found.append(operators[loss])
        for far in range(-BEFORE, FAR):
            near = (writes + far >= 0) & (writes + far < loss)
            place, behind = writes[near] + far, loss[near]
            if far > 0:
                padding.append(operators[place[looks[place]]])
            place, behind = place[fills[place]], behind[fills[place]]
            same = fitting(trace, operators[place], operators[behind], fits=_is_target)
            found.append(operators[place[same]])
    return DenseTargets(*(distinct_values(np.concatenate(each)) for each in (found, padding)))


def _are_labels(written: Shapes, loss: Shapes) -> bool:
    """Whether one place of each row is written in a tensor of the target's sizes."""
    target, index = loss[1], next((each for each in written[1:] if each), [])
    return (
        len(target) == 2
        and target == loss[0] == written[0]
        and elements(index) == target[0] < elements(target)
    )


def _is_target(filled: Shapes, loss: Shapes) -> bool:
    return filled[0] == loss[1]


# of the time of building the distribution, comparing it and its gradients, once labels are smoothed by the loss: it
# still reads all scores for their sum, and adds two gradients. One translation model of 37,000 words: 4.9 ms to 0.9
LEFT, LEFT_AT_MOST = 0.2, 0.5

_SMOOTHING_CODE = """loss = torch.nn.functional.cross_entropy(scores, labels, label_smoothing=0.1, ignore_index=padding)
# not F.kl_div(scores.log_softmax(-1), distribution), with a number for each class of each row"""


@fix
class SmoothLabelsInLoss:
    id = "smooth-labels-in-loss"
    explanation = f"""
When it applies
    At most 32 operators before a loss (kl_div, cross_entropy), one place of each row is written in a tensor of the
    sizes of its target. With what fills that tensor, the loss and its gradients take at least 5 % of the GPU's time.
    Shapes must be recorded.

What is changed in the replay
    Of this time, {percent(LEFT)} remains: a loss that takes the labels still reads all scores. Nothing looks for rows
    of padding before it.

What makes it more or less
    How the distribution was made, and compared: {percent(LEFT_AT_MOST)} remains at most, and so does what looks for
    padding.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        found = dense_targets(analysis)
        nodes, share = costly_calls(analysis, replay, found.distribution)
        if not share:
            return
        looks = without_calls(replay, calls_of(analysis, found.padding), gaps=0.0)
        operations = nodes[replay.device.launch]
        yield Proposal(
            title=f"Smooth labels in the loss: {percent(share)} of the GPU's time builds a distribution from them",
            categories=(Category.MEMORY_BOUND_KERNELS, Category.SLOW_OPERATOR),
            culprit="a distribution over all classes",
            problem="A distribution is built from labels for the loss",
            remedy=pytorch_remedy(
                "Pass the labels: cross_entropy smooths them itself (label_smoothing), and leaves out padding "
                "(ignore_index).",
                code=_SMOOTHING_CODE,
            ),
            expected=together(durations_times(operations, LEFT), looks),
            low=durations_times(operations, LEFT_AT_MOST),
            depends_on="how the distribution is made",
        )
