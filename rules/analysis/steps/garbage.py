"""When Python collected its garbage."""

from __future__ import annotations

from parsers.model import I64, EventKind, Trace
from parsers.model.names.per_name import named
from rules.analysis.arithmetic.intervals import Intervals, union
from rules.analysis.names.regions import is_collection


def collections_among(trace: Trace, events: I64) -> Intervals:
    """The collections among some events (ns, disjoint), as ranges or as frames of Python."""
    events = trace.events.only(events, EventKind.REGION, EventKind.PYTHON)
    events = events[named(trace, events, is_collection)]
    return union(*trace.events.spans(events))
