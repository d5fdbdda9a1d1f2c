"""Self and total time of CPU operators and of the modules of a model, on the CPU and on the GPU."""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from parsers.model import BOOL, I64, EventKind, Lane, LaneKind, Trace, derived
from parsers.model.names.per_name import named
from viewer.statistics.kernels import grouped, longest_events, ordered

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, eq=False)
class OperatorTimes:
    """Equal columns, one row for each CPU operator event; ns. ``outer`` is False inside an operator of its own name."""

    event: I64
    cpu_total: I64
    cpu_self: I64
    gpu_total: I64
    gpu_self: I64
    launches: I64
    memory_total: I64  # bytes of GPU memory that were asked for while it ran, on its own thread
    memory_self: I64
    outer: BOOL


@dataclass(frozen=True, slots=True, eq=False)
class Launched:
    """What one thread launched, by the start of the launch: that start, and start and end on the GPU; ns.

    ``gpu_before[i]`` is the GPU time of the first ``i`` operations.
    """

    begin: I64
    start: I64
    end: I64
    gpu_before: I64


@derived
def operator_times(trace: Trace) -> OperatorTimes:
    """Times of every operator; GPU time is that of the operations launched while it ran, on its own thread."""
    return nested_times(trace, LaneKind.CPU_THREAD)


def nested_times(trace: Trace, *kinds: LaneKind) -> OperatorTimes:
    """The same for everything that is nested on lanes of these kinds: operators, Python frames, regions."""
    launched = launched_by_thread(trace)
    allocated = allocated_by_thread(trace)
    parts = [
        _lane_times(trace, index, launched.get(thread_of(lane)), allocated.get((lane.rank, lane.thread)))
        for index, lane in enumerate(trace.lanes)
        if lane.kind in kinds
    ]
    if not parts:
        empty = np.empty(0, np.int64)
        return OperatorTimes(empty, empty, empty, empty, empty, empty, empty, empty, np.empty(0, bool))
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return OperatorTimes(*columns)


def operator_table(trace: Trace, times: OperatorTimes, t0: int, t1: int) -> pd.DataFrame:
    """``operator_columns`` as a frame."""
    import pandas as pd

    return pd.DataFrame(operator_columns(trace, times, t0, t1))


def operator_columns(trace: Trace, times: OperatorTimes, t0: int, t1: int) -> dict[str, Any]:
    """Equal columns, one row for each name of operators that start in [t0, t1), most time of their own first."""
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
    columns = {
        "name": np.array([trace.strings[key] for key in own.key], object),
        "calls": own.count,
        "cpu_self": own.total,
        "cpu_total": summed(times.cpu_total, True),
        "gpu_self": summed(times.gpu_self, False),
        "gpu_total": summed(times.gpu_total, True),
        "launches": summed(times.launches, True),
        "memory_self": summed(times.memory_self, False),
        "memory_total": summed(times.memory_total, True),
        "event": longest_events(name, duration, event, own.key),
    }
    return ordered(columns, "cpu_self")


Thread = tuple[int | None, int | None, int | None]


def thread_of(lane: Lane) -> Thread:
    """Rank, process and thread of a lane."""
    return lane.rank, lane.process, lane.thread


@derived
def launched_by_thread(trace: Trace) -> dict[Thread, Launched]:
    """For each thread that launched anything what it launched; with thread None what its whole process did."""
    links, events = trace.links, trace.events
    if not len(links.operation):
        return {}
    lane, begin = events.lane[links.launch], events.start[links.launch]
    order = np.lexsort((begin, lane))
    lane = lane[order]
    found: dict[Thread, list[I64]] = {}
    edges = np.concatenate(([0], np.flatnonzero(np.diff(lane)) + 1, [len(lane)]))
    for first, last in pairwise(edges.tolist()):
        key = thread_of(trace.lanes[lane[first]])
        for each in {key, (*key[:2], None)}:
            found.setdefault(each, []).append(order[first:last])
    joined = {}
    for key, parts in found.items():
        mine = np.concatenate(parts)
        mine = mine[np.argsort(begin[mine], kind="stable")]
        start, end = events.start[links.operation[mine]], events.end[links.operation[mine]]
        joined[key] = Launched(begin[mine], start, end, np.concatenate(([0], np.cumsum(end - start))))
    return joined


@derived
def allocated_by_thread(trace: Trace) -> dict[tuple[int | None, int | None], tuple[I64, I64]]:
    """By rank and thread: when it asked for GPU memory (ns, ascending), the bytes before each time and after all."""
    found: dict[tuple[int | None, int | None], tuple[I64, I64]] = {}
    for memory in trace.memory:
        table = memory.allocations
        rank = np.array([-1 if each.rank is None else each.rank for each in trace.devices])[table.device]
        for key in np.unique(np.stack([rank, table.thread], axis=1), axis=0).tolist():
            mine = (rank == key[0]) & (table.thread == key[1])
            if key[1] >= 0:
                size = table.size[mine]
                before = np.concatenate(([0], np.cumsum(size)))
                found[None if key[0] < 0 else key[0], key[1]] = table.start[mine], before
    return found


def _lane_times(
    trace: Trace, lane: int, launched: Launched | None, allocated: tuple[I64, I64] | None
) -> tuple[npt.NDArray[np.generic], ...]:
    events = trace.events
    where = events.lane_slice(lane)
    start, end = events.start[where], events.end[where]
    total = end - start
    gpu, count = np.zeros(len(start), np.int64), np.zeros(len(start), np.int64)
    if launched is not None:
        low, high = np.searchsorted(launched.begin, start), np.searchsorted(launched.begin, end)
        gpu, count = launched.gpu_before[high] - launched.gpu_before[low], high - low
    memory = np.zeros(len(start), np.int64)
    if allocated is not None:
        begin, before = allocated
        memory = before[np.searchsorted(begin, end)] - before[np.searchsorted(begin, start)]
    parent = parents_on_lane(trace, lane, where.start)
    has_parent = parent >= 0
    inner_cpu, inner_gpu, inner_memory = (np.zeros(len(start), np.int64) for _ in range(3))
    np.add.at(inner_cpu, parent[has_parent], total[has_parent])
    np.add.at(inner_gpu, parent[has_parent], gpu[has_parent])
    np.add.at(inner_memory, parent[has_parent], memory[has_parent])
    name = events.name[where]
    outer = ~(has_parent & (name == name[np.maximum(parent, 0)]))
    return (
        np.arange(where.start, where.stop, dtype=np.int64),
        total,
        np.maximum(total - inner_cpu, 0),
        gpu,
        np.maximum(gpu - inner_gpu, 0),
        count,
        memory,
        np.maximum(memory - inner_memory, 0),
        outer,
    )


def parents_on_lane(trace: Trace, lane: int, base: int) -> I64:
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


@derived
def module_times(trace: Trace) -> OperatorTimes:
    """Times of every call of a module; ``cpu_self`` and ``gpu_self`` are without any inner frame."""
    found = nested_times(trace, LaneKind.PYTHON)
    mine = named(trace, found.event, lambda name: name.startswith("nn.Module: "))
    return OperatorTimes(**{each.name: getattr(found, each.name)[mine] for each in fields(OperatorTimes)})
