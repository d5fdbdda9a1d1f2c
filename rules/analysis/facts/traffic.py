"""Memory traffic of pointwise kernels, estimated from the recorded shapes, against the GPU's peak bandwidth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parsers.model.arrays import I64
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.durations import durations
from rules.analysis.facts.inside_window import operator_of
from rules.analysis.names.families import Family
from rules.kernels.gpu_peaks import peaks_of
from rules.kernels.operator_roofs import stated_work

LOOKED_AT = 20  # of the longest kernels
IMPOSSIBLE = 1.1  # times the peak: the data came from the L2 cache, or the estimate is wrong


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
    moved, time = 0.0, 0
    for kernel in longest.tolist():
        operator = operator_of(analysis, kernel)
        work = stated_work(trace, operator, kernel) if operator >= 0 else None
        if work is not None:
            moved += work.moved
            time += int(durations(trace, kernel))
    if not time:
        return None
    found = trace.devices[device]
    peaks = peaks_of(found.name)
    peak = found.memory_bandwidth or (peaks.bandwidth if peaks else 0.0) or 0.0
    traffic = Traffic(moved / time * 1e9, float(peak))
    return None if peak and traffic.bandwidth > IMPOSSIBLE * peak else traffic
