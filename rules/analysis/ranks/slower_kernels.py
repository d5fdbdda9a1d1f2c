"""Whether one GPU takes longer for the very same kernels as others: then it is slow, and not given more to do."""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL, F64, Attribute, EventKind
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.durations import durations
from rules.analysis.facts.inside_window import operations

ALIKE = 0.05  # counts and grids that differ by less are the same work
LEAST_MATCHED = 0.8  # of the slow GPU's kernel time must be in kernels that the others run as often


def times_as_long(analysis: Analysis, device: int, others: list[int]) -> float:
    """How many times as long the same kernels take as on the others' median; 0 where the work is not the same.

    The same work is the same kernels, equally often, with equally large grids; grids must have been recorded.
    """
    if not others:
        return 0.0
    count, time, grid = _by_name(analysis, device)
    theirs = [_by_name(analysis, other) for other in others]
    usual_count, usual_time, usual_grid = (
        np.median([each[part] for each in theirs], axis=0) for part in range(3)
    )
    same = (count > 0) & _alike(count, usual_count) & _alike(grid, usual_grid) & (grid > 0)
    if time[same].sum() < LEAST_MATCHED * time.sum() or not usual_time[same].sum():
        return 0.0
    return float(time[same].sum() / usual_time[same].sum())


def _by_name(analysis: Analysis, device: int) -> tuple[F64, F64, F64]:
    """For each string of the trace: how often a kernel of this name runs in the window, ns, and blocks."""
    trace = analysis.trace
    kernels = operations(analysis, device, EventKind.KERNEL)
    kernels = kernels[~np.isin(kernels, trace.collective_kernels)]
    names, length = trace.events.name[kernels], len(trace.strings)
    blocks = trace.attribute(Attribute.GRID, kernels)
    return (
        np.bincount(names, minlength=length).astype(np.float64),
        np.bincount(names, durations(trace, kernels), minlength=length).astype(np.float64),
        np.bincount(names, blocks, minlength=length).astype(np.float64),
    )


def _alike(own: F64, usual: F64) -> BOOL:
    return np.asarray(np.abs(own - usual) <= ALIKE * np.maximum(own, usual))
