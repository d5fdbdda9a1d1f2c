"""The tables of what the CPU did: operators, regions, calls of the GPU's interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from parsers.model import BOOL, I64, Attribute, EventKind, LaneKind, Trace, derived
from parsers.model.arrays import distinct_values, rows_by
from parsers.model.events import of_kinds
from parsers.model.names.calls import Call
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import EMPTY, complement, covered_before, union
from viewer.statistics.operators import (
    OperatorTimes,
    launched_by,
    module_times,
    nested_times,
    operator_times,
    thread_of,
)
from viewer.tables.columns import (
    EVENT,
    ON_GPU,
    ON_THREAD,
    STEP,
    TIMES,
    columns,
    innermost,
    known,
    names_of,
    on_gpu,
    on_thread,
    steps_of_events,
    text,
    times,
)
from viewer.tables.rows.gpu_work import REGION
from viewer.tables.table import Column, RowTable, row_table

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


CALLED = (EVENT, Column("name", "name as recorded"), *TIMES)
LAUNCHED = (
    Column("self_ns", "without events of the same kind nested in it"),
    Column("gpu_ns", "time on the GPU of everything launched while it ran"),
    Column("gpu_self_ns", "the same without what was launched inside inner ones"),
    Column("launches", "number of operations launched while it ran"),
    Column("memory_bytes", "GPU memory that was asked for while it ran, on its thread; 0 where not recorded"),
    Column("memory_self_bytes", "the same without what inner ones asked for"),
)
NESTED = (*ON_THREAD, Column("depth", "how deep it is nested on its lane"))


def _called(trace: Trace, events: I64) -> dict[str, Any]:
    return {"event": events, "name": names_of(trace, events), **times(trace, events)}


def _nested(trace: Trace, events: I64) -> dict[str, Any]:
    return {**on_thread(trace, events), "depth": trace.events.depth[events]}


def _launched(found: OperatorTimes, mine: BOOL) -> dict[str, I64]:
    return {
        "self_ns": found.cpu_self[mine],
        "gpu_ns": found.gpu_total[mine],
        "gpu_self_ns": found.gpu_self[mine],
        "launches": found.launches[mine],
        "memory_bytes": found.memory_total[mine],
        "memory_self_bytes": found.memory_self[mine],
    }


@row_table
class Operators(RowTable):
    """Operators of a framework; other events on the same lanes are left out."""

    name = "operators"
    about = "one call of an operator, such as aten::mm, on the CPU"
    columns = (
        *CALLED,
        *LAUNCHED,
        Column("outermost", "whether it runs outside of an operator of its own name: sum only those"),
        Column("input_shapes", "shapes of its inputs, where recorded"),
        Column("input_types", "types of its inputs, where recorded"),
        REGION,
        *NESTED,
    )

    def rows(self, analysis: Analysis) -> Mapping[str, Any]:
        trace = analysis.trace
        found = operator_times(trace)
        mine = trace.events.kind[found.event] == EventKind.CPU_OP
        events = found.event[mine]
        return columns(
            _called(trace, events),
            _launched(found, mine),
            {
                "outermost": found.outer[mine],
                "input_shapes": text(trace, Attribute.INPUT_DIMS, events),
                "input_types": text(trace, Attribute.INPUT_TYPES, events),
                "region": names_of(trace, innermost(analysis, events, "regions")),
            },
            _nested(trace, events),
        )


@row_table
class Regions(RowTable):
    """NVTX ranges, record_function and the like, and steps."""

    name = "regions"
    about = "one annotated range on the CPU, and where its work lay on the GPU"
    columns = (
        *CALLED,
        *LAUNCHED,
        Column("gpu_start_ns", "start of the first operation launched inside"),
        Column("gpu_end_ns", "end of the last operation launched inside"),
        Column(
            "autograd_gpu_ns", "time on the GPU of what autograd's threads launched meanwhile; not in gpu_ns"
        ),
        Column("autograd_launches", "number of operations that they launched"),
        Column("outermost", "whether it lies outside of a range of its own name: sum only those"),
        Column("domain", "NVTX domain, where recorded"),
        *NESTED,
    )

    def rows(self, analysis: Analysis) -> Mapping[str, Any]:
        trace = analysis.trace
        found = region_times(trace)
        mine = of_kinds(trace.events.kind[found.event], EventKind.REGION, EventKind.STEP)
        events = found.event[mine]
        first, last = gpu_spans(trace, events)
        autograd_ns, autograd_launches = autograd_work(trace)
        return columns(
            _called(trace, events),
            _launched(found, mine),
            {
                "gpu_start_ns": known(first),
                "gpu_end_ns": known(last),
                "autograd_gpu_ns": autograd_ns[mine],
                "autograd_launches": autograd_launches[mine],
                "outermost": found.outer[mine],
                "domain": text(trace, Attribute.NVTX_DOMAIN, events),
            },
            _nested(trace, events),
        )


@row_table
class ApiCalls(RowTable):
    """Runtime and driver calls."""

    name = "api_calls"
    about = "one call of the GPU's runtime or driver"
    columns = (
        *CALLED,
        Column("gpu_idle_ns", "how long all GPUs of its rank ran nothing meanwhile"),
        Column("operations", "number of operations it launched"),
        REGION,
        Column("operator", "the innermost operator around it"),
        *ON_THREAD,
    )

    def rows(self, analysis: Analysis) -> Mapping[str, Any]:
        trace = analysis.trace
        events = trace.events.of_kind(EventKind.API)
        return columns(
            _called(trace, events),
            {
                "gpu_idle_ns": idle_during(analysis, events),
                "operations": _started_by(trace, events),
                "region": names_of(trace, innermost(analysis, events, "regions")),
                "operator": names_of(trace, innermost(analysis, events, "operators")),
            },
            on_thread(trace, events),
        )


def _started_by(trace: Trace, calls: I64) -> I64:
    launches = np.sort(trace.links.launch)
    return np.searchsorted(launches, calls, "right") - np.searchsorted(launches, calls, "left")


def idle_during(analysis: Analysis, calls: I64) -> pd.arrays.IntegerArray:
    """Time inside each call in which no GPU of its rank ran anything, between the first and the last operation."""
    trace = analysis.trace
    start, end = trace.events.spans(calls)
    rank = trace.lane_rank[trace.events.lane[calls]]
    idle = np.full(len(calls), -1, np.int64)
    for each in distinct_values(rank).tolist():
        devices = [
            device
            for device, known_as in enumerate(trace.devices)
            if (-1 if known_as.rank is None else known_as.rank) == each
            and len(trace.operations_of_device(device))
        ]
        if not devices:
            continue
        parts = [analysis.busy(device) for device in devices] or [EMPTY]
        busy = union(*(np.concatenate(side) for side in zip(*parts, strict=True)))
        free = complement(busy, int(busy[0][0]), int(busy[1][-1]))
        mine = rank == each
        idle[mine] = covered_before(free, end[mine]) - covered_before(free, start[mine])
    return known(idle)


@row_table
class Modules(RowTable):
    """Modules of a model, where Python frames of them were recorded."""

    name = "modules"
    about = "one call of a module (nn.Module), where stacks were recorded"
    columns = (*CALLED, LAUNCHED[1], LAUNCHED[3], *NESTED)

    def rows(self, analysis: Analysis) -> Mapping[str, Any]:
        trace = analysis.trace
        found = module_times(trace)
        events = found.event
        return columns(
            _called(trace, events),
            {"gpu_ns": found.gpu_total, "launches": found.launches},
            _nested(trace, events),
        )


WAITING_CALLS = (Call.SYNCHRONIZE, Call.BLOCKING_COPY)


@row_table
class Synchronisations(RowTable):
    """Calls that return only when the GPU has done something."""

    name = "synchronisations"
    about = "one call in which the CPU waited for the GPU"
    columns = (
        EVENT,
        Column("name", "name of the call"),
        *TIMES,
        Column("gpu_idle_ns", "how long all GPUs of its rank ran nothing meanwhile"),
        Column("operator", "the innermost operator around it"),
        REGION,
        *ON_THREAD,
        STEP,
    )

    def rows(self, analysis: Analysis) -> Mapping[str, Any]:
        trace = analysis.trace
        calls = trace.events.of_kind(EventKind.API)
        events = calls[of_kinds(analysis.threads.call_class[trace.events.name[calls]], *WAITING_CALLS)]
        return columns(
            {"event": events, "name": names_of(trace, events)},
            times(trace, events),
            {
                "gpu_idle_ns": idle_during(analysis, events),
                "operator": names_of(trace, innermost(analysis, events, "operators")),
                "region": names_of(trace, innermost(analysis, events, "regions")),
            },
            on_thread(trace, events),
            {"step": steps_of_events(analysis, events)},
        )


@row_table
class LaunchWaits(RowTable):
    """Each operation whose launch is known; the times are those of the call."""

    name = "launch_waits"
    about = "one launch: how long its call took, its operation waited, and the GPU waited for it"
    columns = (
        Column("event", "the event of the call"),
        Column("call", "name of the call"),
        Column("operation", "the event on the GPU"),
        Column("name", "name of the operation"),
        *TIMES,
        Column("queued_ns", "from the end of the call to the start of its operation"),
        Column("gpu_idle_ns", "how long the GPU had nothing to do just before the operation"),
        *ON_GPU,
        STEP,
    )

    def rows(self, analysis: Analysis) -> Mapping[str, Any]:
        trace, links = analysis.trace, analysis.trace.links
        calls, operations = links.launch, links.operation
        queued = trace.events.start[operations] - trace.events.end[calls]
        return columns(
            {
                "event": calls,
                "call": names_of(trace, calls),
                "operation": operations,
                "name": names_of(trace, operations),
            },
            times(trace, calls),
            {"queued_ns": np.maximum(queued, 0), "gpu_idle_ns": _idle_before(analysis, operations)},
            on_gpu(trace, operations),
            {"step": steps_of_events(analysis, operations)},
        )


def _idle_before(analysis: Analysis, operations: I64) -> I64:
    """The length of the gap that each operation ended, ns; 0 where it ended none."""
    idle = analysis.idle
    ended = idle.next_operation >= 0
    after, place = np.unique(idle.next_operation[ended], return_inverse=True)
    length = np.bincount(place, (idle.end - idle.start)[ended], len(after)).astype(np.int64)
    if not len(after):
        return np.zeros(len(operations), np.int64)
    at = np.minimum(np.searchsorted(after, operations), len(after) - 1)
    return np.where(after[at] == operations, length[at], 0)
