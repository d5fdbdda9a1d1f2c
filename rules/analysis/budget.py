"""Where the window's time went, on one device: parts that add up to the window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rules.analysis.causes import Cause


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
