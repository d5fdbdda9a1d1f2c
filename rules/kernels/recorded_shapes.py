"""The sizes of the tensors that operators were handed, as profilers write them: JSON lists."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from parsers.model import I64, Attribute, Trace

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


def inputs_of_events(trace: Trace, events: I64) -> list[list[Any]]:
    """The same of several operators."""
    dims = trace.attribute(Attribute.INPUT_DIMS, events, -1).tolist()
    read = {each: inputs_in(trace.strings[each]) if each >= 0 else [] for each in set(dims)}
    return [read[each] for each in dims]


def tensors_in(dims: str) -> list[Shape]:
    """The sizes of every tensor, those of a list of tensors one by one."""
    return list(_flat(inputs_in(dims)))


def single_tensors_in(dims: str) -> list[Shape]:
    """The sizes of the tensors that are not handed over in a list."""
    return [tuple(each) for each in inputs_in(dims) if each and all(isinstance(size, int) for size in each)]


def _flat(inputs: list[Any]) -> Iterable[Shape]:
    for each in inputs:
        if isinstance(each, list) and each:
            yield from _flat(each) if isinstance(each[0], list) else (tuple(each),)
