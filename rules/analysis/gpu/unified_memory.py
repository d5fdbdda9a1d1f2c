"""Kernels that wait for pages of unified memory: pages move while they run, or the GPU reports page faults."""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL, I64, Attribute, CopyKind, EventKind, Trace, derived_by
from parsers.model.late import dataclass
from parsers.model.names.kernels import is_migration, is_page_fault
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import (
    EMPTY,
    Intervals,
    clip,
    durations,
    intersect,
    measure,
    subtract,
    union,
)
from rules.analysis.gpu.inside_window import operations

MIN_WAITING = 0.25  # of a kernel's time: less costs a long kernel little
# from one piece to the next of what a kernel touches: the driver takes tens of us for a group of page faults
MAX_FAULT_NS = 50_000
PREFETCHED_BYTES = 2_000_000  # in a piece, as a call moves them: of pages that are touched fewer come at once


@dataclass(frozen=True, slots=True, eq=False)
class KernelsOnPages:
    """``kernels`` of one device that wait for pages, the ``moves`` of pages and the ``faults`` that were recorded.

    ``waiting`` is when pages come to the GPU or a fault is handled, with what leaves for them, and up to
    ``MAX_FAULT_NS`` from one of these to the next. What only leaves the GPU, as the CPU touches it, stops no kernel.
    """

    device: int
    kernels: I64
    moves: I64
    faults: I64
    waiting: Intervals

    def inside(self, analysis: Analysis, events: I64, start: int, end: int) -> I64:
        """Those of its moves or faults that are under way in a time."""
        table = analysis.trace.events
        return events[(table.start[events] < end) & (table.end[events] > start)]


@derived_by
def pages_in_kernels(analysis: Analysis, device: int) -> KernelsOnPages:
    """What kernels of a device in the window wait for pages."""
    trace = analysis.trace
    table = trace.events
    copies = operations(analysis, device, EventKind.MEMCPY)
    moves = copies[named(trace, copies, is_migration)]
    moves = moves[trace.attribute(Attribute.BYTES, moves) < PREFETCHED_BYTES]
    others = table.of_kind(EventKind.OTHER)
    faults = others[(trace.lane_device[table.lane[others]] == device) & named(trace, others, is_page_fault)]
    kernels = operations(analysis, device, EventKind.KERNEL)
    needed = np.concatenate((moves[~_leave(trace, moves)], faults))
    if not len(needed):
        return KernelsOnPages(device, kernels[:0], moves, faults, EMPTY)
    start, end = table.spans(np.concatenate((moves, faults)))
    start, end = union(start, end + MAX_FAULT_NS)
    end = end - MAX_FAULT_NS
    begun = np.sort(table.start[needed])
    comes = np.searchsorted(begun, end, side="right") > np.searchsorted(begun, start)
    waiting = start[comes], end[comes]
    inside = measure(waiting, *table.spans(kernels))
    waits = (inside > 0) & (inside >= MIN_WAITING * durations(trace, kernels))
    return KernelsOnPages(device, kernels[waits], moves, faults, waiting)


@derived_by
def waiting_for_pages(analysis: Analysis, device: int) -> Intervals:
    """When kernels of a device that wait for pages do so: nothing that they could do faster would make it shorter."""
    found = pages_in_kernels(analysis, device)
    return intersect(found.waiting, union(*analysis.trace.events.spans(found.kernels)))


def without_pages(analysis: Analysis, device: int, within: Intervals) -> Intervals:
    """What kernels take inside the window, but for what they wait for pages: more blocks would not end that."""
    return clip(subtract(within, waiting_for_pages(analysis, device)), *analysis.window)


def mostly_leave(analysis: Analysis, moves: I64) -> bool:
    """Whether more of these moves take pages from the GPU than to it, by their time."""
    took = durations(analysis.trace, moves)
    return bool(2 * took[_leave(analysis.trace, moves)].sum() > took.sum())


def _leave(trace: Trace, moves: I64) -> BOOL:
    return np.asarray(trace.attribute(Attribute.COPY_KIND, moves) == CopyKind.D2H.value)
