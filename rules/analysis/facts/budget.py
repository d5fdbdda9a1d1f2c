"""Where the window's time went, on one device: parts that add up to the window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rules.analysis.facts.device_time import DeviceTime
from rules.analysis.idle.causes import Cause


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
