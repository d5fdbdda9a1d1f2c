"""Launches that a page of unified memory held up: what they take says nothing of how they were launched."""

from __future__ import annotations

import numpy as np

from parsers.model import I64, EventKind, Trace, derived_by
from parsers.model.arrays import distinct_values, median_of
from parsers.model.names.kernels import is_migration
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import durations, measure, union

MUCH_LONGER = 10  # times as long as the same kernel takes otherwise
MIN_OTHERS = 2  # launches that tell how long it takes otherwise


@derived_by
def held_up_by_pages(analysis: Analysis, device: int) -> I64:
    """Kernels of a device during which a page moves, and that take many times as long as their launches without.

    One fault can hold a kernel up for hundreds of microseconds, of which the page itself moves for two.
    """
    trace = analysis.trace
    table = trace.events
    moves = _on(trace, device, EventKind.MEMCPY)
    moves = moves[named(trace, moves, is_migration)]
    if not len(moves):
        return np.asarray(moves)
    kernels = _on(trace, device, EventKind.KERNEL)
    touched = measure(union(*table.spans(moves)), *table.spans(kernels)) > 0
    names, took = table.name[kernels], durations(trace, kernels)
    held = np.zeros(len(kernels), bool)
    for name in distinct_values(names[touched]).tolist():
        others = took[(names == name) & ~touched]
        if len(others) >= MIN_OTHERS:
            held |= touched & (names == name) & (took >= MUCH_LONGER * median_of(others))
    return np.asarray(kernels[held])


def _on(trace: Trace, device: int, kind: EventKind) -> I64:
    events = trace.events.of_kind(kind)
    return np.asarray(events[trace.lane_device[trace.events.lane[events]] == device])
