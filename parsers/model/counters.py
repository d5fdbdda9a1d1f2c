"""Sampled counters: utilisation, memory, power, queue length, GPU metrics."""

from __future__ import annotations

import numpy as np

from parsers.model.arrays import F64, I64
from parsers.model.late import dataclass

MAX_READ = 1e18  # no sampled quantity is larger, in whatever unit; a damaged number is


@dataclass(frozen=True, slots=True, eq=False)
class Counter:
    """One sampled quantity; ``time`` is int64 ns from the trace start, sorted; ``value`` float64 in ``unit``.

    A value holds from its sample to the next one. ``device`` is the index into ``Trace.devices``.
    """

    name: str
    unit: str
    time: I64
    value: F64
    rank: int | None = None
    device: int | None = None

    def at(self, when: int) -> float | None:
        """The value that holds at ``when``; None before the first sample."""
        index = int(np.searchsorted(self.time, when, side="right")) - 1
        return float(self.value[index]) if index >= 0 else None
