"""One device's time as disjoint sets of intervals: compute, exposed communication, exposed copies, other, idle."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from parsers.model import BOOL, EventKind, Trace, derived_by
from parsers.model.arrays import among
from parsers.model.events import of_kinds
from parsers.model.late.dataclass import dataclass
from rules.analysis.arithmetic.intervals import EMPTY, Intervals, subtract, union
from rules.analysis.idle.causes import Cause, IdleTable


@dataclass(frozen=True, slots=True, eq=False)
class DeviceTime:
    """Each moment belongs to the first of: compute, communication, copies, other; idle time to one cause."""

    busy: Intervals
    compute: Intervals  # kernels that are no collectives, and opaque CUDA graphs
    communication: Intervals  # collectives that no compute covers
    copies: Intervals  # copies that neither covers
    other: Intervals  # memsets alone
    idle: Mapping[Cause, Intervals]

    @staticmethod
    def within(part: Intervals, t0: int, t1: int) -> int:
        """ns of a part inside [t0, t1)."""
        start, end = part
        low, high = int(np.searchsorted(end, t0, side="right")), int(np.searchsorted(start, t1, side="left"))
        if low >= high or t1 <= t0:
            return 0
        return int((np.minimum(end[low:high], t1) - np.maximum(start[low:high], t0)).sum())

    def idle_within(self, cause: Cause, t0: int, t1: int) -> int:
        """ns that the device idled for a cause inside [t0, t1)."""
        return self.within(self.idle[cause], t0, t1)


@derived_by
def busy_of(trace: Trace, device: int) -> Intervals:
    """When anything ran on one device."""
    operations = trace.operations_of_device(device)
    return union(*trace.events.spans(operations))


def busy_parts(trace: Trace, device: int) -> tuple[Intervals, Intervals, Intervals, Intervals, Intervals]:
    """(busy, compute, exposed communication, exposed copies, other) of one device."""
    operations = trace.operations_of_device(device)
    kind = trace.events.kind[operations]
    collective = among(operations, trace.collective_kernels)

    def covered(which: BOOL) -> Intervals:
        return union(*trace.events.spans(operations[which]))

    busy = busy_of(trace, device)
    compute = covered(of_kinds(kind, EventKind.KERNEL, EventKind.GRAPH) & ~collective)
    communication = subtract(covered(collective), compute)
    known = union(*(np.concatenate(side) for side in zip(compute, communication, strict=True)))
    copies = subtract(covered(of_kinds(kind, EventKind.MEMCPY)), known)
    other = subtract(subtract(covered(of_kinds(kind, EventKind.MEMSET)), known), copies)
    return busy, compute, communication, copies, other


def idle_parts(table: IdleTable, device: int) -> dict[Cause, Intervals]:
    """The idle intervals of one device by cause."""
    first, last = np.searchsorted(table.device, (device, device + 1)).tolist()
    start, end, of_cause = table.start[first:last], table.end[first:last], table.cause[first:last]
    parts = {}
    for cause in Cause:
        rows = of_kinds(of_cause, cause)
        parts[cause] = union(start[rows], end[rows]) if rows.any() else EMPTY
    return parts


@dataclass(frozen=True, slots=True)
class Budget:
    """All in ns; compute + exposed communication + exposed copies + other + idle + residual == end - start."""

    device: int  # index into Trace.devices
    start: int
    end: int
    compute_ns: int
    exposed_communication_ns: int
    exposed_copy_ns: int
    other_ns: int  # memsets and the like
    idle_ns: Mapping[Cause, int]
    residual_ns: int

    @property
    def window_ns(self) -> int:
        return self.end - self.start

    @property
    def total_idle_ns(self) -> int:
        return sum(self.idle_ns.values())

    @property
    def busy_ns(self) -> int:
        """The union of everything that ran on the device."""
        return self.compute_ns + self.exposed_communication_ns + self.exposed_copy_ns + self.other_ns


def budget_of(time: DeviceTime, device: int, t0: int, t1: int) -> Budget:
    """The budget of [t0, t1); time that belongs to no part is the residual."""
    t1 = max(t0, t1)
    compute, communication, copies, other = (
        time.within(part, t0, t1) for part in (time.compute, time.communication, time.copies, time.other)
    )
    idle = {cause: time.idle_within(cause, t0, t1) for cause in Cause}
    residual = t1 - t0 - compute - communication - copies - other - sum(idle.values())
    return Budget(device, t0, t1, compute, communication, copies, other, idle, residual)
