"""What ran on the GPUs and what was called on the CPU inside the analysed window."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from parsers.model import EventKind
from parsers.model.names.calls import Call
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.durations import durations
from rules.analysis.names.families import Family

I64 = npt.NDArray[np.int64]


def operations(analysis: Analysis, device: int, *kinds: EventKind) -> I64:
    """GPU operations of one device that start inside the window, by start; of these kinds, or of all."""
    trace = analysis.trace
    found = trace.operations_of_device(device)
    t0, t1 = analysis.window
    start = trace.events.start[found]
    found = found[(start >= t0) & (start < t1)]
    return found[np.isin(trace.events.kind[found], kinds)] if kinds else found


def of_family(analysis: Analysis, events: I64, *families: Family) -> I64:
    """Those of the operations that belong to these kernel families."""
    return events[np.isin(analysis.family_of_string[analysis.trace.events.name[events]], families)]


def api_calls(analysis: Analysis, device: int, *classes: Call) -> I64:
    """API calls of these classes, by the threads that drive a device, that overlap the window, by start."""
    events = analysis.trace.events
    t0, t1 = analysis.window
    found = analysis.threads.calls(analysis.threads.drivers(device)[0], *classes)
    return found[(events.end[found] > t0) & (events.start[found] < t1)]


def total(analysis: Analysis, events: I64) -> int:
    """Summed duration of events, ns."""
    return int(durations(analysis.trace, events).sum())


def busiest_device(analysis: Analysis, events: Mapping[int, I64]) -> int | None:
    """The device whose events last longest in all; None where there are none."""
    device = max(events, key=lambda each: total(analysis, events[each]), default=None)
    return device if device is not None and len(events[device]) else None
