"""Whether the shapes of what operators that stand together are handed fit each other."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from parsers.model import BOOL, I64, Attribute, Trace
from rules.kernels.operator_work import inputs_of

Shapes = list[list[int]]


def fitting(trace: Trace, *operators: I64, fits: Callable[..., bool]) -> BOOL:
    """Whether operators that stand together have shapes that fit: ``fits`` gets ``Shapes`` of each of a group.

    It is asked once for each group of shapes. What hands over no tensor there, or has no shapes, does not fit.
    """
    which = np.zeros(len(operators[0]), np.int64)
    if not len(which):
        return which > 0
    dims = [trace.attribute(Attribute.INPUT_DIMS, each, -1) for each in operators]
    for each in dims:
        _, first, which = np.unique(
            which * (len(trace.strings) + 1) + each, return_index=True, return_inverse=True
        )
    groups = zip(*(each[first].tolist() for each in dims), strict=True)
    return np.array([_fits(trace, group, fits) for group in groups], bool)[which]


def _fits(trace: Trace, group: tuple[int, ...], fits: Callable[..., bool]) -> bool:
    inputs = [inputs_of(trace.strings[each], "", 1) if each >= 0 else None for each in group]
    try:
        return all(each is not None for each in inputs) and fits(*(each.shapes for each in inputs if each))
    except (IndexError, TypeError, ValueError):
        return False


def elements(shape: list[int]) -> int:
    """How many numbers a tensor has; 0 for what is none."""
    return math.prod(shape) if shape else 0
