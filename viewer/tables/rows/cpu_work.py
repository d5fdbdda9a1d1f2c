"""The tables of what the CPU did: operators, regions, calls of the GPU's interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from parsers.model import BOOL, I64, Attribute, EventKind, Trace
from parsers.model.events import of_kinds
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import EMPTY, complement, covered_before, union
from viewer.statistics.operators import OperatorTimes, module_times, operator_times
from viewer.statistics.regions import autograd_work, gpu_spans, region_times
from viewer.tables.columns import (
    EVENT,
    ON_THREAD,
    TIMES,
    columns,
    innermost,
    known,
    names_of,
    on_thread,
    text,
    times,
)
from viewer.tables.rows.gpu_work import REGION
from viewer.tables.table import Column, RowTable, row_table

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

    name: ClassVar[str] = "operators"
    about: ClassVar[str] = "one call of an operator, such as aten::mm, on the CPU"
    columns: ClassVar[tuple[Column, ...]] = (
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

    name: ClassVar[str] = "regions"
    about: ClassVar[str] = "one annotated range on the CPU, and where its work lay on the GPU"
    columns: ClassVar[tuple[Column, ...]] = (
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

    name: ClassVar[str] = "api_calls"
    about: ClassVar[str] = "one call of the GPU's runtime or driver"
    columns: ClassVar[tuple[Column, ...]] = (
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
    for each in np.unique(rank).tolist():
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

    name: ClassVar[str] = "modules"
    about: ClassVar[str] = "one call of a module (nn.Module), where stacks were recorded"
    columns: ClassVar[tuple[Column, ...]] = (*CALLED, LAUNCHED[1], LAUNCHED[3], *NESTED)

    def rows(self, analysis: Analysis) -> Mapping[str, Any]:
        trace = analysis.trace
        found = module_times(trace)
        events = found.event
        return columns(
            _called(trace, events),
            {"gpu_ns": found.gpu_total, "launches": found.launches},
            _nested(trace, events),
        )
