"""How long events take."""

from __future__ import annotations

from typing import overload

from parsers.model import I64, Trace


@overload
def durations(trace: Trace, events: int) -> int: ...


@overload
def durations(trace: Trace, events: I64) -> I64: ...


def durations(trace: Trace, events: I64 | int) -> I64 | int:
    """ns of one event or of several, without computing those of all the others."""
    found = trace.events.end[events] - trace.events.start[events]
    return int(found) if isinstance(events, int) else found
