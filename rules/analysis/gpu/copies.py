"""Copies between host and device inside the window: size, memory kind, what they overlap, who asked for them."""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL, I64, Attribute, CopyKind, EventKind, MemoryKind, Trace, derived_by
from parsers.model.late import dataclass
from parsers.model.names.kernels import is_migration
from parsers.model.names.per_name import named, numbers_of
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, clip, durations, intersect, length, subtract, union
from rules.analysis.gpu.inside_window import operations
from rules.analysis.idle.threads import UserFrames
from rules.terms import MAJORITY

MIN_PAGEABLE = 0.01  # of the time spent copying
PREFETCHED_BYTES = 1_000_000  # in one piece, on average: pages that are touched move in smaller ones
_WORDS = {
    CopyKind.H2D: ("htod", "host to device", "h2d", "hosttodevice"),
    CopyKind.D2H: ("dtoh", "device to host", "d2h", "devicetohost"),
    CopyKind.D2D: ("dtod", "device to device", "d2d", "devicetodevice"),
    CopyKind.P2P: ("ptop", "peer to peer", "p2p", "peertopeer"),
}
MIN_TO_HIDE = 0.1  # of exposed copies: work that takes less hides hardly any of them


@dataclass(frozen=True, slots=True, eq=False)
class Copies:
    """Copies of one direction on one device inside the window."""

    device: int
    events: I64
    exposed: Intervals  # where no kernel ran, and no copy that stands alone longer
    both_ways_ns: int  # of that time: copies of the other direction run as well
    bytes: int
    time_ns: int
    pageable_ns: int  # of those whose host memory is pageable
    pinned_ns: int  # of those whose host memory is recorded as pinned
    asynchronous_ns: int  # of those for which the CPU does not wait
    migrated_ns: int  # of those that the driver makes when a page of unified memory is touched
    compiled_ns: int  # of those that a program compiled by XLA makes itself, and waits for
    computed_ns: int  # by kernels that could run beside them
    regions: tuple[str, ...]  # regions, else Python frames, that asked for them, most copied time first

    @property
    def can_be_hidden(self) -> bool:
        """Whether the GPU computes enough for a good part of them to pass meanwhile."""
        return self.computed_ns >= MIN_TO_HIDE * self.exposed_ns

    @property
    def exposed_ns(self) -> int:
        return length(self.exposed)

    @property
    def from_pageable(self) -> bool:
        """Whether pageable memory is more than a trifle of it."""
        return self.pageable_ns >= MIN_PAGEABLE * max(self.time_ns, 1)

    @property
    def from_pinned(self) -> bool:
        """Whether all but a trifle is recorded as pinned already."""
        return self.pinned_ns >= (1 - MIN_PAGEABLE) * max(self.time_ns, 1)

    @property
    def are_asynchronous(self) -> bool:
        """Whether the CPU waits for hardly any of it."""
        return self.asynchronous_ns >= (1 - MIN_PAGEABLE) * max(self.time_ns, 1)

    @property
    def are_migrations(self) -> bool:
        """Whether most of it is unified memory that moves."""
        return self.migrated_ns >= MAJORITY * max(self.time_ns, 1)

    @property
    def are_compiled(self) -> bool:
        """Whether most of it is copied inside a compiled program, whose arrays lie in host memory."""
        return self.compiled_ns >= MAJORITY * max(self.time_ns, 1)

    @property
    def are_prefetched(self) -> bool:
        """Whether they are moves of unified memory in pieces as large as only a call asks for."""
        return self.are_migrations and self.bytes >= PREFETCHED_BYTES * len(self.events)

    @property
    def bandwidth(self) -> float:
        """Bytes per second while copying; 0 when sizes were not recorded."""
        return self.bytes / self.time_ns * 1e9 if self.time_ns else 0.0


def worst_copies(analysis: Analysis, direction: CopyKind) -> Copies | None:
    """Those of the device on which this direction stands alone longest; None where no GPU worked."""
    every = [copies_of(analysis, device, direction) for device in analysis.active_devices]
    return max(every, key=lambda copies: copies.exposed_ns, default=None)


@derived_by
def copies_of(analysis: Analysis, device: int, direction: CopyKind) -> Copies:
    """The copies of one direction.

    Where both directions are under way at once, that time is claimed by the one that stands alone longer: shortening
    the other alone would leave the GPU as it is.
    """
    trace = analysis.trace
    to_gpu, from_gpu = (_exposed(analysis, device, each) for each in (CopyKind.H2D, CopyKind.D2H))
    (events, exposed), (_, opposite) = (to_gpu, from_gpu) if direction is CopyKind.H2D else (from_gpu, to_gpu)
    if (length(to_gpu[1]) >= length(from_gpu[1])) is (direction is CopyKind.D2H):
        exposed = subtract(exposed, opposite)
    pageable = events[_pageable(trace, events, direction)]
    pinned = events[_host_memory(trace, events, direction) == MemoryKind.PINNED.value]
    return Copies(
        device=device,
        events=events,
        exposed=exposed,
        both_ways_ns=length(intersect(exposed, opposite)),
        bytes=int(trace.attribute(Attribute.BYTES, events).sum()),
        time_ns=int(durations(trace, events).sum()),
        pageable_ns=int(durations(trace, pageable).sum()),
        pinned_ns=int(durations(trace, pinned).sum()),
        asynchronous_ns=int(durations(trace, events[asynchronous(trace, events, direction)]).sum()),
        migrated_ns=int(durations(trace, events[named(trace, events, is_migration)]).sum()),
        compiled_ns=int(durations(trace, events[named(trace, events, _waits_for_xla)]).sum()),
        computed_ns=analysis.budgets(device).compute_ns,
        regions=regions_that_launched(analysis, device, events),
    )


def _waits_for_xla(name: str) -> bool:
    return name.startswith("copy-done")


def asynchronous(trace: Trace, copies: I64, direction: CopyKind) -> BOOL:
    """Which copies had half of their way before them when the call that asked for them returned.

    A call for pageable memory may return early too, but the CPU fills the buffer that the driver keeps for it.
    """
    launch, table = trace.links.launch_of(copies), trace.events
    half_way = (table.start[copies] + table.end[copies]) // 2
    early = (launch >= 0) & (table.end[launch] <= half_way)
    return np.asarray(early & ~_pageable(trace, copies, direction))


def _pageable(trace: Trace, copies: I64, direction: CopyKind) -> BOOL:
    memory = _host_memory(trace, copies, direction)
    by_name = named(trace, copies, lambda name: "pageable" in name.lower())
    return np.asarray((memory == MemoryKind.PAGEABLE.value) | ((memory == 0) & by_name))


def _host_memory(trace: Trace, copies: I64, direction: CopyKind) -> I64:
    side = Attribute.SOURCE_MEMORY if direction is CopyKind.H2D else Attribute.TARGET_MEMORY
    return trace.attribute(side, copies)


@derived_by
def _exposed(analysis: Analysis, device: int, direction: CopyKind) -> tuple[I64, Intervals]:
    """Events of one direction, by the record, else by the operation's name, and where no kernel runs beside them."""
    trace = analysis.trace
    every = operations(analysis, device, EventKind.MEMCPY)
    kind = trace.attribute(Attribute.COPY_KIND, every)
    events = every[np.where(kind > 0, kind, numbers_of(trace, every, direction_by_name)) == direction.value]
    covered = union(*trace.events.spans(events))
    return events, clip(intersect(covered, analysis.time(device).copies), *analysis.window)


def direction_by_name(name: str) -> int:
    """The value of ``CopyKind`` that the name of a copy tells; 0 where it tells none."""
    lower = name.lower()
    return next((kind.value for kind, words in _WORDS.items() if any(word in lower for word in words)), 0)


def regions_that_launched(analysis: Analysis, device: int, events: I64) -> tuple[str, ...]:
    """The user's regions, else Python frames, in which operations were launched, by the operations' summed time."""
    trace = analysis.trace
    launches = trace.links.launch_of(events)
    drivers, main = analysis.threads.drivers(device)
    if main < 0 or not len(events):
        return ()
    at = trace.events.start[np.maximum(launches, 0)]
    owner = analysis.threads.of_events(np.maximum(launches, 0))
    region = np.full(len(events), -1, np.int64)
    for thread in drivers:
        mine = owner == thread
        region[mine] = analysis.threads.activity(thread).user_regions.at(at[mine])
    region = np.where(region < 0, analysis.threads.activity(main).user_regions.at(at), region)
    bare = np.flatnonzero(region < 0)
    region[bare] = UserFrames.of(analysis.threads, main).around(at[bare], at[bare])
    region = np.where(launches < 0, -1, region)
    inside = region >= 0
    time = np.bincount(trace.events.name[region[inside]], durations(trace, events)[inside])
    names = sorted(np.flatnonzero(time).tolist(), key=lambda name: (-time[name], trace.strings[name]))
    return tuple(trace.strings[name] for name in names)
