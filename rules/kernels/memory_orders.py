"""In which order the elements of an operator's tensors lie in memory, where the recording has their strides."""

from __future__ import annotations

import json
import math
from typing import Any

from parsers.model import Attribute, Trace

STRIDES = "Input Strides"  # as PyTorch's profiler calls them
MIN_ELEMENTS = 1_024  # smaller tensors come from a cache in any order


def orders_differ(trace: Trace, event: int) -> bool:
    """Whether the largest tensors of one call lie in memory in different orders: neighbours of one are far apart in
    another. Not known, and so not told, where strides were not recorded; the file is read for them.
    """
    shapes, strides = (
        _lists(each)
        for each in (trace.text_attribute(Attribute.INPUT_DIMS, event), trace.arguments(event).get(STRIDES))
    )
    tensors = [
        (shape, stride)
        for shape, stride in zip(shapes, strides, strict=False)
        if shape and len(shape) == len(stride) and all(isinstance(each, int) for each in (*shape, *stride))
    ]
    largest = max((math.prod(shape) for shape, _ in tensors), default=0)
    if largest < MIN_ELEMENTS:
        return False
    innermost = {
        min((place for place, side in enumerate(shape) if side > 1), key=stride.__getitem__) - len(shape)
        for shape, stride in tensors
        if math.prod(shape) == largest and 0 not in stride
    }
    return len(innermost) > 1


def _lists(stated: Any) -> list[list[Any]]:
    try:
        read = json.loads(stated) if isinstance(stated, str) else stated
    except ValueError:
        return []
    return [each if isinstance(each, list) else [] for each in read] if isinstance(read, list) else []
