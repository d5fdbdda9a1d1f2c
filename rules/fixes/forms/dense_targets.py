"""Distributions over all classes that are built from one label for each row, for a loss that would take the labels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from parsers.model import I64, derived
from parsers.model.arrays import distinct_values
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.fixes.forms.written import called_in_order
from rules.kernels.fitting_shapes import Shapes, elements, fitting

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
