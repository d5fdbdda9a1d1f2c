"""A sampled counter in pixel columns: the value at the end of each column, and the largest inside it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from parsers.model import Counter
from viewer.timeline.geometry.scale import Scale

F64 = npt.NDArray[np.float64]


def counter_columns(counter: Counter, scale: Scale) -> tuple[F64, F64] | None:
    """(value, peak) for each column, NaN before the first sample; None where the counter has no samples."""
    if not len(counter.time):
        return None
    edges = np.ceil(scale.t0 + np.arange(int(scale.width) + 1) * scale.ns_per_pixel).astype(np.int64)
    until = np.searchsorted(counter.time, edges, side="left")
    last = until[1:] - 1
    value = np.where(last >= 0, counter.value[np.maximum(last, 0)], np.nan)
    peak = value.copy()
    several = np.flatnonzero(until[1:] - until[:-1] > 1)
    if len(several):
        stop = int(until[several[-1] + 1])
        spans = np.column_stack((until[several], until[several + 1])).ravel()
        padded = np.append(counter.value[:stop], counter.value[stop - 1])
        peak[several] = np.maximum.reduceat(padded, spans)[::2]
    return value, np.fmax(value, peak)
