"""The operators table: self and total time of CPU operators, on the CPU and on the GPU."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pandas as pd

from parsers.model import EventKind, Lane, LaneKind, Trace
from viewer.statistics.grouping import grouped
from viewer.statistics.kernels import longest_events

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class OperatorTimes:
    """Equal columns, one row for each CPU operator event; ns. ``outer`` is False inside an operator of its own name."""

    event: I64
    cpu_total: I64
    cpu_self: I64
    gpu_total: I64
    gpu_self: I64
    launches: I64
    outer: npt.NDArray[np.bool_]


def operator_times(trace: Trace) -> OperatorTimes:
    """Times of every operator; GPU time is that of the operations launched while it ran, on its own thread."""
    launched = _launched_by_thread(trace)
    parts = [
        _lane_times(trace, index, launched.get(_thread(lane)))
        for index, lane in enumerate(trace.lanes)
        if lane.kind is LaneKind.CPU_THREAD
    ]
    if not parts:
        empty = np.empty(0, np.int64)
        return OperatorTimes(empty, empty, empty, empty, empty, empty, np.empty(0, bool))
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return OperatorTimes(*columns)


def operator_table(trace: Trace, times: OperatorTimes, t0: int, t1: int) -> pd.DataFrame:
    """One row for each operator name, of operators that start in [t0, t1)."""
    start = trace.events.start[times.event]
    kind = trace.events.kind[times.event]
    mine = (start >= t0) & (start < t1) & (kind == EventKind.CPU_OP)
    event, name = times.event[mine], trace.events.name[times.event[mine]]
    own = grouped(name, times.cpu_self[mine])
    outer = times.outer[mine]

    def summed(column: I64, only_outer: bool) -> I64:
        weight = np.where(outer, column[mine], 0) if only_outer else column[mine]
        return grouped(name, weight).total

    duration = trace.events.duration[event]
    return pd.DataFrame(
        {
            "name": [trace.strings[key] for key in own.key],
            "calls": own.count,
            "cpu_self": own.total,
            "cpu_total": summed(times.cpu_total, True),
            "gpu_self": summed(times.gpu_self, False),
            "gpu_total": summed(times.gpu_total, True),
            "launches": summed(times.launches, True),
            "event": longest_events(name, duration, event, own.key),
        }
    ).sort_values("cpu_self", ascending=False, ignore_index=True)


Thread = tuple[int | None, int | None, int | None]


def _thread(lane: Lane) -> Thread:
    return lane.rank, lane.process, lane.thread


def _launched_by_thread(trace: Trace) -> dict[Thread, tuple[I64, I64, I64]]:
    """For each thread its launches by time: start, and running sums of GPU time and of operations."""
    links, events = trace.links, trace.events
    if not len(links.operation):
        return {}
    lane, start = events.lane[links.launch], events.start[links.launch]
    gpu = events.duration[links.operation]
    order = np.lexsort((start, lane))
    lane, start, gpu = lane[order], start[order], gpu[order]
    found: dict[Thread, list[tuple[I64, I64]]] = {}
    edges = np.concatenate(([0], np.flatnonzero(np.diff(lane)) + 1, [len(lane)]))
    for first, last in pairwise(edges.tolist()):
        key = _thread(trace.lanes[lane[first]])
        found.setdefault(key, []).append((start[first:last], gpu[first:last]))
    joined = {}
    for key, parts in found.items():
        begin = np.concatenate([part[0] for part in parts])
        time = np.concatenate([part[1] for part in parts])
        by_time = np.argsort(begin, kind="stable")
        sums = np.concatenate(([0], np.cumsum(time[by_time])))
        joined[key] = (begin[by_time], sums, np.arange(len(begin) + 1))
    return joined


def _lane_times(
    trace: Trace, lane: int, launched: tuple[I64, I64, I64] | None
) -> tuple[npt.NDArray[np.generic], ...]:
    events = trace.events
    where = events.lane_slice(lane)
    start, end = events.start[where], events.end[where]
    total = end - start
    gpu, count = np.zeros(len(start), np.int64), np.zeros(len(start), np.int64)
    if launched is not None:
        begin, sums, numbers = launched
        low, high = np.searchsorted(begin, start), np.searchsorted(begin, end)
        gpu, count = sums[high] - sums[low], numbers[high] - numbers[low]
    parent = _parents(trace, lane, where.start)
    has_parent = parent >= 0
    inner_cpu, inner_gpu = np.zeros(len(start), np.int64), np.zeros(len(start), np.int64)
    np.add.at(inner_cpu, parent[has_parent], total[has_parent])
    np.add.at(inner_gpu, parent[has_parent], gpu[has_parent])
    name = events.name[where]
    outer = ~(has_parent & (name == name[np.maximum(parent, 0)]))
    return (
        np.arange(where.start, where.stop, dtype=np.int64),
        total,
        np.maximum(total - inner_cpu, 0),
        gpu,
        np.maximum(gpu - inner_gpu, 0),
        count,
        outer,
    )


def _parents(trace: Trace, lane: int, base: int) -> I64:
    """For each event of a lane the event directly around it, as an offset from ``base``; -1 at the top."""
    rows, events = trace.events.rows(lane), trace.events
    parts = []
    above: slice | None = None
    for row in rows.values():
        if above is None:
            parts.append(np.full(row.stop - row.start, -1, np.int64))
        else:
            at = np.searchsorted(events.start[above], events.start[row], side="right") - 1
            around = above.start + np.maximum(at, 0)
            inside = (at >= 0) & (events.end[row] <= events.end[around])
            parts.append(np.where(inside, around - base, -1))
        above = row
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
