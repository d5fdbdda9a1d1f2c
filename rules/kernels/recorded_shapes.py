"""The sizes of the tensors that operators were handed, as profilers write them: JSON lists."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from parsers.model import BOOL, I64, Attribute, Trace
from parsers.model.arrays import distinct_values
from rules.kernels.operator_work import inputs_of

Shape = tuple[int, ...]


def inputs_in(dims: str) -> list[Any]:
    """An entry for each input: its sizes, a list of them for a list of tensors, [] for all else."""
    try:
        found = json.loads(dims)
    except ValueError:
        return []
    return [each if isinstance(each, list) else [] for each in found] if isinstance(found, list) else []


def inputs_of_event(trace: Trace, event: int) -> list[Any]:
    """The same of one operator, or of -1; empty where no shapes were recorded."""
    return inputs_in(trace.text_attribute(Attribute.INPUT_DIMS, event)) if event >= 0 else []


def first_shape(trace: Trace, event: int) -> list[int]:
    """The sizes of the first tensor that one operator was handed; empty for a list, and where there is none."""
    shape: list[int] = next(iter(inputs_of_event(trace, event)), [])
    return shape if all(isinstance(side, int) for side in shape) else []


def first_shapes(trace: Trace, events: I64) -> set[Shape]:
    """The same of several operators: which there are."""
    dims = distinct_values(trace.attribute(Attribute.INPUT_DIMS, events, -1))
    inputs = (inputs_in(trace.strings[each])[:1] for each in dims[dims >= 0].tolist())
    return {tuple(first) for each in inputs for first in each if all(isinstance(side, int) for side in first)}


def inputs_of_events(trace: Trace, events: I64) -> list[list[Any]]:
    """The same of several operators."""
    dims = trace.attribute(Attribute.INPUT_DIMS, events, -1).tolist()
    read = {each: inputs_in(trace.strings[each]) if each >= 0 else [] for each in set(dims)}
    return [read[each] for each in dims]


def tensors_in(dims: str) -> list[Shape]:
    """The sizes of every tensor, those of a list of tensors one by one."""
    return list(_flat(inputs_in(dims)))


def tensors_by_dims(trace: Trace, dims: I64) -> dict[int, list[Shape]]:
    """The sizes of every tensor by the strings that state them, -1 for none."""
    return {
        each: tensors_in(trace.strings[each]) if each >= 0 else [] for each in distinct_values(dims).tolist()
    }


def single_tensors_in(dims: str) -> list[Shape]:
    """The sizes of the tensors that are not handed over in a list."""
    return [tuple(each) for each in inputs_in(dims) if each and all(isinstance(size, int) for size in each)]


def _flat(inputs: list[Any]) -> Iterable[Shape]:
    for each in inputs:
        if isinstance(each, list) and each:
            yield from _flat(each) if isinstance(each[0], list) else (tuple(each),)


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


def begin_alike(one: Shapes, other: Shapes) -> bool:
    """Whether two operators are handed tensors of the same sizes first."""
    return one[0] == other[0]


def _fits(trace: Trace, group: tuple[int, ...], fits: Callable[..., bool]) -> bool:
    inputs = [inputs_of(trace.strings[each], "", 1) if each >= 0 else None for each in group]
    try:
        return all(each is not None for each in inputs) and fits(*(each.shapes for each in inputs if each))
    except (IndexError, TypeError, ValueError):
        return False


def elements(shape: list[int]) -> int:
    """How many numbers a tensor has; 0 for what is none."""
    return math.prod(shape) if shape else 0
