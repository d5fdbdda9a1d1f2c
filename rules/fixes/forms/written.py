"""The operators that a program calls, thread by thread in order, and the shapes of what it hands to them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from parsers.model import BOOL, I64, Attribute, Trace
from rules.analysis.analysis import Analysis
from rules.fixes.base import MIN_GPU_SHARE
from rules.kernels.operator_work import inputs_of
from rules.replay.origins import called_operators
from rules.replay.replay import Replay
from rules.replay.surroundings import whole_operators

Shapes = list[list[int]]


def called_in_order(analysis: Analysis) -> Iterator[I64]:
    """The operators that lie inside no other, by start, of each thread that makes calls of the replay."""
    found = called_operators(analysis)
    for activity, _ in analysis.threads.by_thread(np.unique(found[found >= 0])):
        yield whole_operators(activity)


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


def calls_of(analysis: Analysis, operators: I64) -> BOOL:
    """The host nodes of these operators, and of what computes their gradients."""
    return np.isin(called_operators(analysis), operators)


def costly_calls(analysis: Analysis, replay: Replay, operators: I64) -> tuple[BOOL, float]:
    """The host nodes as ``calls_of`` has them, and the part of the GPU's time in what they launch.

    It is 0 where that is too little for a fix.
    """
    nodes, device = calls_of(analysis, operators), replay.device
    share = float(device.duration[nodes[device.launch]].sum() / max(device.duration.sum(), 1.0))
    return nodes, share if share >= MIN_GPU_SHARE else 0.0
