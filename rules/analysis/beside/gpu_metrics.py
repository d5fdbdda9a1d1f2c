"""What sampled GPU metrics say of kernels: which part of the GPU each of them keeps busy.

A kernel is judged by samples whose whole interval, and the one before it, it covers: then nothing else was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import numpy as np

from parsers.model import F64, I64, Counter, EventKind
from parsers.model.arrays import median_of, rows_by
from parsers.model.late import dataclass
from rules.analysis.analysis import Analysis

NEAR_THE_LIMIT = 60.0  # percent: below, Nsight Compute's SpeedOfLight calls a kernel latency-bound
FEW_ACTIVE = 60.0  # percent of the multiprocessors' time: the others have no block
MIN_SAMPLES = 5  # of one kernel's launches


class Part(Enum):
    """What of a GPU is measured, with the beginnings of its counters' names in all releases; several are added up."""

    ACTIVE = ("sms active", "sm active")
    ISSUE = ("sm issue", "sms issue")
    TENSOR = ("tensor active", "tensor cores active")
    MEMORY_READ = ("dram read",)
    MEMORY_WRITE = ("dram write",)


class Limit(Enum):
    """What a kernel waits for; the value says it of a part of the time."""

    TENSOR = "is limited by tensor cores"
    MEMORY = "is limited by memory bandwidth"
    ISSUE = "is limited by issuing instructions"
    FEW_BLOCKS = "has too few blocks for all multiprocessors"
    LATENCY = "is near no limit"


@dataclass(frozen=True, slots=True)
class KernelUse:
    """A kernel: its time in the window, and means of its samples in percent."""

    name: int  # a string of the trace
    time_ns: int
    longest: int  # event
    samples: int
    active: float
    issue: float
    tensor: float
    memory: float

    @property
    def limit(self) -> Limit:
        reached = {Limit.TENSOR: self.tensor, Limit.MEMORY: self.memory, Limit.ISSUE: self.issue}
        nearest = max(reached, key=lambda each: reached[each])
        if reached[nearest] >= NEAR_THE_LIMIT:
            return nearest
        return Limit.FEW_BLOCKS if self.active < FEW_ACTIVE else Limit.LATENCY

    @property
    def reached(self) -> float:
        """How far it is used of what limits it, percent."""
        used = {Limit.TENSOR: self.tensor, Limit.MEMORY: self.memory, Limit.ISSUE: self.issue}
        return used.get(self.limit, self.active if self.limit is Limit.FEW_BLOCKS else max(used.values()))


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """One GPU inside the window: the time of all its kernels, and those that were sampled, the longest first."""

    device: int
    kernels_ns: int
    interval_ns: int
    kernels: tuple[KernelUse, ...]

    @property
    def sampled_ns(self) -> int:
        return sum(each.time_ns for each in self.kernels)


def has_gpu_metrics(counters: tuple[Counter, ...]) -> bool:
    """Whether any GPU's multiprocessors were sampled together with what they do."""
    return any(_is_complete(parts) for parts in _by_device(counters).values())


def gpu_use(analysis: Analysis) -> tuple[DeviceUse, ...]:
    """What is known of each GPU whose metrics were sampled and of which a kernel was."""
    found = [
        use
        for device, parts in sorted(_by_device(analysis.trace.counters).items())
        if _is_complete(parts) and (use := _device_use(analysis, device, parts)) is not None
    ]
    return tuple(found)


def _by_device(counters: tuple[Counter, ...]) -> dict[int, dict[Part, Counter]]:
    found: dict[int, dict[Part, Counter]] = {}
    for counter in counters:
        if counter.device is None or counter.unit != "%" or len(counter.time) < MIN_SAMPLES:
            continue
        name = counter.name.lower()
        own = name.split(" ", 2)[-1] if name.startswith("gpu ") else name
        for part in Part:
            if own.startswith(part.value):
                found.setdefault(counter.device, {}).setdefault(part, counter)
    return found


def _is_complete(parts: Mapping[Part, Counter]) -> bool:
    if set(parts) != set(Part):
        return False
    first, *others = (each.time for each in parts.values())
    return all(np.array_equal(first, each) for each in others)


def _device_use(analysis: Analysis, device: int, parts: Mapping[Part, Counter]) -> DeviceUse | None:
    trace = analysis.trace
    t0, t1 = analysis.window
    operations = trace.operations_of_device(device)
    kernels = operations[trace.events.kind[operations] == EventKind.KERNEL]
    kernels = kernels[(trace.events.start[kernels] >= t0) & (trace.events.end[kernels] <= t1)]
    if not len(kernels):
        return None
    time = parts[Part.ACTIVE].time
    sample, kernel = _inside_one_kernel(time, *trace.events.spans(kernels))
    name = trace.events.name[kernels]
    took = trace.events.duration[kernels]
    values = {part: counter.value for part, counter in parts.items()}
    samples = {which: sample[rows] for which, rows in rows_by(name[kernel]) if len(rows) >= MIN_SAMPLES}
    is_judged = np.zeros(len(trace.strings), bool)
    is_judged[list(samples)] = True
    judged = np.flatnonzero(is_judged[name])
    found = []
    for which, rows in rows_by(name[judged]):
        mine, of_it = samples[which], judged[rows]
        found.append(
            KernelUse(
                which,
                int(took[of_it].sum()),
                int(kernels[of_it[np.argmax(took[of_it])]]),
                len(mine),
                _mean(values[Part.ACTIVE], mine),
                _mean(values[Part.ISSUE], mine),
                _mean(values[Part.TENSOR], mine),
                min(_mean(values[Part.MEMORY_READ], mine) + _mean(values[Part.MEMORY_WRITE], mine), 100.0),
            )
        )
    if not found:
        return None
    by_time = tuple(sorted(found, key=lambda each: -each.time_ns))
    return DeviceUse(device, int(took.sum()), int(median_of(np.diff(time))), by_time)


def _inside_one_kernel(time: I64, start: I64, end: I64) -> tuple[I64, I64]:
    """Samples between whose neighbours one kernel and no other ran, and that kernel; both by their places."""
    before, after = time[:-2], time[2:]
    last = np.searchsorted(start, before, side="right") - 1
    covered = (last >= 0) & (end[np.maximum(last, 0)] >= after)
    covered &= np.searchsorted(start, after, side="left") == last + 1
    reach = np.maximum.accumulate(end)
    covered &= (last < 1) | (reach[np.maximum(last - 1, 0)] <= before)
    return np.flatnonzero(covered) + 1, last[covered]


def _mean(values: F64, rows: I64) -> float:
    return float(np.clip(values[rows], 0.0, 100.0).mean())
