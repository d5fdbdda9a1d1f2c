"""Self and total time of CPU operators and of the modules of a model, on the CPU and on the GPU."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from parsers.model import BOOL, I64, EventKind, Lane, LaneKind, Trace, derived, derived_by
from parsers.model.arrays import rows_by, stable_order
from parsers.model.late import dataclass
from parsers.model.names.per_name import named
from rules.memory.operators import MODULE
from viewer.statistics.kernels import longest_events, ordered, totals

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
    """What one thread launched, by the start of the launch: that start (ns), and the event on the GPU.

    ``gpu_before[i]`` is the GPU time of the first ``i`` operations, ns.
    """

    begin: I64
    operation: I64
    gpu_before: I64


@derived
def operator_times(trace: Trace) -> OperatorTimes:
    """Times of every operator; GPU time is that of the operations launched while it ran, on its own thread."""
    return nested_times(trace, LaneKind.CPU_THREAD)


def nested_times(trace: Trace, *kinds: LaneKind) -> OperatorTimes:
    """The same for everything that is nested on lanes of these kinds: operators, Python frames, regions."""
    allocated = allocated_by_thread(trace)
    parts = [
        _lane_times(
            trace, index, launched_by(trace, thread_of(lane)), allocated.get((lane.rank, lane.thread))
        )
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
    count = np.bincount(name)
    keys = np.flatnonzero(count)
    outer = times.outer[mine]

    def summed(column: I64, only_outer: bool) -> I64:
        weight = np.where(outer, column[mine], 0) if only_outer else column[mine]
        return totals(name, weight, keys)

    duration = trace.events.duration[event]
    columns = {
        "name": np.array([trace.strings[key] for key in keys.tolist()], object),
        "calls": count[keys],
        "cpu_self_ns": summed(times.cpu_self, False),
        "cpu_total_ns": summed(times.cpu_total, True),
        "gpu_self_ns": summed(times.gpu_self, False),
        "gpu_total_ns": summed(times.gpu_total, True),
        "launches": summed(times.launches, True),
        "memory_self_bytes": summed(times.memory_self, False),
        "memory_total_bytes": summed(times.memory_total, True),
        "event": longest_events(name, duration, event, keys),
    }
    return ordered(columns, "cpu_self_ns")


Thread = tuple[int | None, int | None, int | None]


def thread_of(lane: Lane) -> Thread:
    """Rank, process and thread of a lane."""
    return lane.rank, lane.process, lane.thread


@derived
def _launches_of_lanes(trace: Trace) -> dict[Thread, list[I64]]:
    """By thread, and by process where the thread is None: the links of each lane that launched anything."""
    found: dict[Thread, list[I64]] = {}
    for index, rows in rows_by(trace.events.lane[trace.links.launch]):
        lane = trace.lanes[index]
        for thread in {thread_of(lane), (lane.rank, lane.process, None)}:
            found.setdefault(thread, []).append(rows)
    return found


@derived_by
def launched_by(trace: Trace, thread: Thread) -> Launched | None:
    """What one thread launched, or its whole process where the thread is None; None where that is nothing."""
    links, events = trace.links, trace.events
    mine = np.concatenate((np.empty(0, np.int64), *_launches_of_lanes(trace).get(thread, ())))
    if not len(mine):
        return None
    if (order := stable_order(events.start[links.launch[mine]])) is not None:
        mine = mine[order]
    operation = links.operation[mine]
    ran = np.cumsum(events.end[operation] - events.start[operation])
    begin = events.start[links.launch[mine]]
    return Launched(begin, operation, np.concatenate(([0], ran)))


@derived
def allocated_by_thread(trace: Trace) -> dict[tuple[int | None, int | None], tuple[I64, I64]]:
    """By rank and thread: when it asked for GPU memory (ns, ascending), the bytes before each time and after all."""
    found: dict[tuple[int | None, int | None], tuple[I64, I64]] = {}
    for memory in trace.memory:
        table = memory.allocations
        rank = np.array([-1 if each.rank is None else each.rank for each in trace.devices])[table.device]
        for key, mine in rows_by(np.stack([rank, table.thread], axis=1)):
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
    start, end = events.spans(where)
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
    mine = named(trace, found.event, lambda name: name.startswith(MODULE))
    return OperatorTimes(**{each.name: getattr(found, each.name)[mine] for each in fields(OperatorTimes)})
