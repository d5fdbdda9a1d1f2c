"""The events of a thread that lie inside no other of the same."""

from __future__ import annotations

import numpy as np

from parsers.model import I64, Trace
from rules.analysis.arithmetic.innermost import outermost_first


def outermost(trace: Trace, events: I64) -> I64:
    """Those of the events of one thread that lie inside no other of them, by start."""
    events = outer_first(trace, events)
    start, end = trace.events.spans(events)
    reach = np.maximum.accumulate(end)
    return np.asarray(events[start >= np.append(start[:1], reach[:-1])])


def outer_first(trace: Trace, events: I64) -> I64:
    """Events by start, one before those that lie inside of it."""
    return np.asarray(events[outermost_first(*trace.events.spans(events))])
