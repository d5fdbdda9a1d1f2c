"""The tables of calls that made the CPU wait for the GPU, and of operations that waited after their launch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from parsers.model import I64, EventKind
from parsers.model.events import of_kinds
from parsers.model.names.calls import Call
from rules.analysis.analysis import Analysis
from viewer.tables.columns import (
    EVENT,
    ON_GPU,
    ON_THREAD,
    STEP,
    TIMES,
    columns,
    innermost,
    names_of,
    on_gpu,
    on_thread,
    steps_of_events,
    times,
)
from viewer.tables.rows.cpu_work import idle_during
from viewer.tables.rows.gpu_work import REGION
from viewer.tables.table import Column, RowTable, row_table

WAITING_CALLS = (Call.SYNCHRONIZE, Call.BLOCKING_COPY)


@row_table
class Synchronisations(RowTable):
    """Calls that return only when the GPU has done something."""

    name: ClassVar[str] = "synchronisations"
    about: ClassVar[str] = "one call in which the CPU waited for the GPU"
    columns: ClassVar[tuple[Column, ...]] = (
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

    name: ClassVar[str] = "launch_waits"
    about: ClassVar[str] = (
        "one launch: how long its call took, its operation waited, and the GPU waited for it"
    )
    columns: ClassVar[tuple[Column, ...]] = (
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
