"""How long events take."""

from __future__ import annotations

from typing import overload

import numpy as np

from parsers.model import F64, I64, Trace


@overload
def durations(trace: Trace, events: int) -> int: ...


@overload
def durations(trace: Trace, events: I64) -> I64: ...


def durations(trace: Trace, events: I64 | int) -> I64 | int:
    """ns of one event or of several, without computing those of all the others."""
    found = trace.events.end[events] - trace.events.start[events]
    return int(found) if isinstance(events, int) else found


def time_by_name(trace: Trace, events: I64) -> F64:
    """ns of some events added up by their names: a value for each of the trace's strings."""
    took = np.bincount(trace.events.name[events], durations(trace, events), minlength=len(trace.strings))
    return took.astype(np.float64, copy=False)
