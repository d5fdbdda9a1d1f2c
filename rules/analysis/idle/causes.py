"""Why a GPU can be idle: the classes of causes, and one device's time as disjoint sets of intervals."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import numpy as np

from parsers.model import BOOL, I32, I64, U8, EventKind, Trace, derived_by
from parsers.model.events import of_kinds
from parsers.model.late import dataclass
from parsers.model.names.per_name import distinct
from rules.analysis.arithmetic.intervals import EMPTY, Intervals, subtract, union
from rules.terms import Culprit


class Cause(IntEnum):
    """Cause of one idle interval; ``key`` is its name in results, ``label`` what the window says."""

    LAUNCH = 0
    INPUT = 1
    HOST = 2
    SYNCHRONIZATION = 3
    ALLOCATOR = 4
    DEPENDENCY = 5
    UNKNOWN = 6
    NEIGHBOURS = 7

    @property
    def key(self) -> str:
        return _KEYS[self]

    @property
    def label(self) -> str:
        return _LABELS[self]


OF_HOST = (Cause.INPUT, Cause.HOST, Cause.LAUNCH, Cause.SYNCHRONIZATION, Cause.ALLOCATOR)
_KEYS = {
    Cause.LAUNCH: "launch-bound",
    Cause.INPUT: "input-bound",
    Cause.HOST: "host-bound",
    Cause.SYNCHRONIZATION: "synchronization",
    Cause.ALLOCATOR: "allocator",
    Cause.DEPENDENCY: "dependency",
    Cause.UNKNOWN: "unknown",
    Cause.NEIGHBOURS: "pipeline-bubble",
}
_LABELS = {
    Cause.LAUNCH: "launching small kernels",
    Cause.INPUT: "waiting for data",
    Cause.HOST: "waiting for Python",
    Cause.SYNCHRONIZATION: "blocked by a synchronisation",
    Cause.ALLOCATOR: "allocating memory",
    Cause.DEPENDENCY: "between queued operations",
    Cause.UNKNOWN: "idle, cause unknown",
    Cause.NEIGHBOURS: "waiting for other pipeline stages",
}


@dataclass(frozen=True, slots=True, eq=False)
class IdleTable:
    """Idle intervals of all devices, one cause each, as equal columns sorted by (device, start).

    A gap whose time several causes share appears as several adjacent rows. Rows of one device never overlap and
    together cover exactly the time in which the device ran nothing, inside the analysed window.
    """

    start: I64  # ns from the trace start
    end: I64
    device: I64  # index into Trace.devices
    cause: U8  # Cause
    culprit: I32  # index into culprits
    event: I64  # the culprit's event in the trace's table; -1 when there is none
    next_operation: I64  # the GPU operation that ended the gap; -1 at the end of the window
    culprits: tuple[Culprit, ...]
    host: str = "Python"  # what the CPU runs: "Python", or "the CPU" where the program is none of Python's
    # in most of the time in which the GPU waits for it, so that there is no work of its own
    sleeps: bool = False

    def __len__(self) -> int:
        return len(self.start)

    def label(self, cause: Cause) -> str:
        """What the window says for a cause in this recording."""
        if cause is Cause.HOST and self.sleeps:
            return "waiting for a sleeping thread"
        return f"waiting for {self.host}" if cause is Cause.HOST else cause.label

    def culprit_of(self, row: int) -> Culprit:
        return self.culprits[int(self.culprit[row])]


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
        if not len(start):
            return 0
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
    collective = trace.communicates[operations]

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
    parts = dict.fromkeys(Cause, EMPTY)
    for cause in map(Cause, distinct(of_cause).tolist()):
        rows = of_kinds(of_cause, cause)
        parts[cause] = union(start[rows], end[rows])
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
