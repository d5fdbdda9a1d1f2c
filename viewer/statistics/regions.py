"""Annotated regions: their time on the CPU, what they launched, and where that lay on the GPU."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from parsers.model import LaneKind, Trace, derived
from viewer.statistics.operators import OperatorTimes, launched_by_thread, nested_times, thread_of

I64 = npt.NDArray[np.int64]
NEVER = -1


@derived
def region_times(trace: Trace) -> OperatorTimes:
    """Times of every annotated range, as of operators; steps are ranges too."""
    return nested_times(trace, LaneKind.REGION, LaneKind.STEPS)


def gpu_spans(trace: Trace, events: I64) -> tuple[I64, I64]:
    """Start of the first and end of the last operation launched while each event ran, on its thread.

    ``NEVER`` where there was none; of what belongs to no thread, such as steps, the whole process counts.

    This is what Nsight Systems calls the projection of a range on the GPU.
    """
    first = np.full(len(events), NEVER, np.int64)
    last = np.full(len(events), NEVER, np.int64)
    table = trace.events
    lane_of = table.lane[events]
    for lane in np.unique(lane_of).tolist():
        launched = launched_by_thread(trace).get(thread_of(trace.lanes[lane]))
        if launched is None:
            continue
        mine = np.flatnonzero(lane_of == lane)
        low = np.searchsorted(launched.begin, table.start[events[mine]])
        high = np.searchsorted(launched.begin, table.end[events[mine]])
        some = high > low
        mine, low, high = mine[some], low[some], high[some]
        first[mine] = _extreme(launched.start, low, high, np.minimum)
        last[mine] = _extreme(launched.end, low, high, np.maximum)
    return first, last


def _extreme(values: I64, low: I64, high: I64, which: np.ufunc) -> I64:
    """The least or greatest of ``values[low:high]`` for each pair, by halves that overlap (a sparse table)."""
    found = np.empty(len(low), np.int64)
    level = np.frexp((high - low).astype(np.float64))[1] - 1  # the largest power of two that fits
    table, width = values, 1
    for power in range(int(level.max(initial=0)) + 1):
        mine = level == power
        found[mine] = which(table[low[mine]], table[high[mine] - width])
        table, width = which(table[:-width], table[width:]), 2 * width
    return found
