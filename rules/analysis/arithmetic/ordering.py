"""Events in the order of time: most come in it already, which is seen faster than sorted."""

from __future__ import annotations

from parsers.model import I64, Trace
from parsers.model.arrays import stable_order


def by_start(trace: Trace, events: I64) -> I64:
    """The events by start; those that start together in the order given."""
    order = stable_order(trace.events.start[events])
    return events if order is None else events[order]
