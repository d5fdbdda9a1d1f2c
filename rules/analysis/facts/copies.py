"""Copies between host and device inside the window: size, memory kind, what they overlap, who asked for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from parsers.model import Attribute, CopyKind, EventKind, MemoryKind
from parsers.model.names.per_name import named, numbers_of
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.durations import durations
from rules.analysis.arithmetic.intervals import Intervals, clip, intersect, length, union
from rules.analysis.facts.inside_window import operations
from rules.analysis.idle.frames import UserFrames

I64 = npt.NDArray[np.int64]

LEAST_PAGEABLE = 0.01  # of the time spent copying
_WORDS = {
    CopyKind.H2D: ("htod", "host to device", "h2d", "hosttodevice"),
    CopyKind.D2H: ("dtoh", "device to host", "d2h", "devicetohost"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Copies:
    """Copies of one direction on one device inside the window."""

    device: int
    events: I64
    exposed: Intervals  # where nothing else ran
    bytes: int
    time_ns: int
    pageable: I64  # those whose host memory is pageable
    pageable_ns: int
    regions: tuple[str, ...]  # regions, else Python frames, that asked for them, most copied time first

    @property
    def exposed_ns(self) -> int:
        return length(self.exposed)

    @property
    def from_pageable(self) -> bool:
        """Whether pageable memory is more than a trifle of it."""
        return self.pageable_ns >= LEAST_PAGEABLE * max(self.time_ns, 1)

    @property
    def bandwidth(self) -> float:
        """Bytes per second while copying; 0 when sizes were not recorded."""
        return self.bytes / self.time_ns * 1e9 if self.time_ns else 0.0


def copies_of(analysis: Analysis, device: int, direction: CopyKind) -> Copies:
    """The copies of one direction; the direction is taken from the record, else from the operation's name."""
    trace = analysis.trace
    every = operations(analysis, device, EventKind.MEMCPY)
    kind = trace.attribute(Attribute.COPY_KIND, every)
    events = every[np.where(kind > 0, kind, numbers_of(trace, every, _direction)) == direction.value]
    covered = union(trace.events.start[events], trace.events.end[events])
    exposed = clip(intersect(covered, analysis.time(device).copies), *analysis.window)
    host_side = Attribute.SOURCE_MEMORY if direction is CopyKind.H2D else Attribute.TARGET_MEMORY
    memory = trace.attribute(host_side, events)
    by_name = named(trace, events, lambda name: "pageable" in name.lower())
    pageable = events[(memory == MemoryKind.PAGEABLE.value) | ((memory == 0) & by_name)]
    return Copies(
        device=device,
        events=events,
        exposed=exposed,
        bytes=int(trace.attribute(Attribute.BYTES, events).sum()),
        time_ns=int(durations(trace, events).sum()),
        pageable=pageable,
        pageable_ns=int(durations(trace, pageable).sum()),
        regions=regions_that_launched(analysis, device, events),
    )


def _direction(name: str) -> int:
    lower = name.lower()
    return next((kind.value for kind, words in _WORDS.items() if any(word in lower for word in words)), 0)


def regions_that_launched(analysis: Analysis, device: int, events: I64) -> tuple[str, ...]:
    """The user's regions, else Python frames, in which operations were launched, by the operations' summed time."""
    trace = analysis.trace
    launches = trace.links.launch_of(events)
    drivers, main = analysis.threads.drivers(device)
    if main < 0:
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
