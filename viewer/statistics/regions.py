"""Annotated regions: their time on the CPU, what they launched, and where that lay on the GPU."""

from __future__ import annotations

import numpy as np

from parsers.model import I64, LaneKind, Trace, derived
from parsers.model.arrays import rows_by
from viewer.statistics.operators import OperatorTimes, launched_by, nested_times, thread_of

NEVER = -1
Process = tuple[int | None, int | None]  # rank and process


@derived
def region_times(trace: Trace) -> OperatorTimes:
    """Times of every annotated range, as of operators; steps are ranges too."""
    return nested_times(trace, LaneKind.REGION, LaneKind.STEPS)


@derived
def autograd_work(trace: Trace) -> tuple[I64, I64]:
    """For each row of ``region_times``: GPU time (ns) and number of what autograd's threads launched meanwhile.

    They work for the thread of their process that spends most time in ranges; what is nested counts in all around it.
    """
    events = region_times(trace).event
    gpu, count = np.zeros(len(events), np.int64), np.zeros(len(events), np.int64)
    table = trace.events
    lane_of = table.lane[events]
    spent: dict[Process, tuple[int, int]] = {}
    of_lane = dict(rows_by(lane_of))
    for lane, mine in of_lane.items():
        home = trace.lanes[lane]
        if home.kind is LaneKind.REGION and not home.is_autograd:
            taken = int(table.duration[events[mine]].sum())
            key = home.rank, home.process
            spent[key] = max(spent.get(key, (0, -1)), (taken, lane))
    helpers = {thread_of(lane) for lane in trace.lanes if lane.is_autograd}
    for thread in helpers:
        work, (_, lane) = launched_by(trace, thread), spent.get(thread[:2], (0, -1))
        if work is None:
            continue
        mine = of_lane.get(lane, np.empty(0, np.int64))
        low = np.searchsorted(work.begin, table.start[events[mine]])
        high = np.searchsorted(work.begin, table.end[events[mine]])
        gpu[mine] += work.gpu_before[high] - work.gpu_before[low]
        count[mine] += high - low
    return gpu, count


def gpu_spans(trace: Trace, events: I64) -> tuple[I64, I64]:
    """Start of the first and end of the last operation launched while each event ran, on its thread.

    ``NEVER`` where there was none; of what belongs to no thread, such as steps, the whole process counts.

    This is what Nsight Systems calls the projection of a range on the GPU.
    """
    first = np.full(len(events), NEVER, np.int64)
    last = np.full(len(events), NEVER, np.int64)
    table = trace.events
    lane_of = table.lane[events]
    for lane, mine in rows_by(lane_of):
        launched = launched_by(trace, thread_of(trace.lanes[lane]))
        if launched is None:
            continue
        low = np.searchsorted(launched.begin, table.start[events[mine]])
        high = np.searchsorted(launched.begin, table.end[events[mine]])
        some = high > low
        mine, low, high = mine[some], low[some], high[some]
        first[mine] = _extreme(table.start[launched.operation], low, high, np.minimum)
        last[mine] = _extreme(table.end[launched.operation], low, high, np.maximum)
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
