"""Memory traffic of pointwise kernels, estimated from the recorded shapes, against the GPU's peak bandwidth."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from parsers.model import Attribute
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.durations import durations
from rules.analysis.facts.inside_window import operator_of
from rules.analysis.names.families import Family
from rules.kernels.gpu_peaks import peaks_of

I64 = npt.NDArray[np.int64]

LOOKED_AT = 20  # of the longest kernels
IMPOSSIBLE = 1.1  # times the peak: the data came from the L2 cache, or the estimate is wrong
_SIZES = (
    (("double", "int64", "long", "complex64"), 8),
    (("half", "bfloat16", "short", "int16", "uint16"), 2),
    (("bool", "int8", "uint8", "char", "byte", "float8"), 1),
)
USUAL_SIZE = 4


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes per second that the longest pointwise kernels move, and the GPU's peak (0 where it is not known)."""

    bandwidth: float
    peak: float

    @property
    def share(self) -> float:
        return self.bandwidth / self.peak if self.peak else 0.0


def pointwise_traffic(analysis: Analysis, device: int, kernels: I64) -> Traffic | None:
    """The traffic of the longest pointwise kernels among some; None without shapes, or where it cannot be right."""
    trace = analysis.trace
    family = analysis.family_of_string[trace.events.name[kernels]]
    pointwise = kernels[np.isin(family, (Family.ELEMENTWISE, Family.COPY_CAST))]
    longest = pointwise[np.argsort(-durations(trace, pointwise), kind="stable")][:LOOKED_AT]
    moved = time = 0
    for kernel in longest.tolist():
        operator = operator_of(analysis, kernel)
        size = operator_bytes(analysis, operator) if operator >= 0 else 0
        if size:
            moved += size
            time += int(durations(trace, kernel))
    if not time:
        return None
    found = trace.devices[device]
    peaks = peaks_of(found.name)
    peak = found.memory_bandwidth or (peaks.bandwidth if peaks else 0.0) or 0.0
    traffic = Traffic(moved / time * 1e9, float(peak))
    return None if peak and traffic.bandwidth > IMPOSSIBLE * peak else traffic


def operator_bytes(analysis: Analysis, operator: int) -> int:
    """What a pointwise operator reads and writes: its inputs, and an output as large as the largest; 0 if unknown.

    A copy's target is among its inputs.
    """
    trace = analysis.trace
    dims = _parsed(trace.text_attribute(Attribute.INPUT_DIMS, operator))
    types = _parsed(trace.text_attribute(Attribute.INPUT_TYPES, operator))
    sizes = []
    for place, shape in enumerate(dims):
        if isinstance(shape, list) and shape and all(isinstance(each, int) for each in shape):
            dtype = str(types[place]) if place < len(types) else ""
            sizes.append(math.prod(shape) * _item_size(dtype))
    if not sizes:
        return 0
    return sum(sizes) + (0 if trace.name(operator) == "aten::copy_" else max(sizes))


def _item_size(dtype: str) -> int:
    lower = dtype.lower()
    return next((size for names, size in _SIZES if any(name in lower for name in names)), USUAL_SIZE)


def _parsed(text: str) -> list[object]:
    try:
        found = json.loads(text) if text else []
    except ValueError:
        return []
    return found if isinstance(found, list) else []
