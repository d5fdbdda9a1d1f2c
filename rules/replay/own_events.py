"""What the recorder wrote down of its own work: the program waits meanwhile, and would not without it."""

from __future__ import annotations

import numpy as np

from parsers.model.arrays import F64
from parsers.model.lanes import EventKind
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import measure, union
from rules.replay.host import HostNodes
from rules.replay.spans import Span


def buffer_requests(analysis: Analysis, spans: tuple[Span, ...], host: HostNodes) -> tuple[F64, F64]:
    """How much of the time before and inside each call the recorder made room for more records (ns).

    Other events of its kind are the driver's, such as the loading of a kernel's code, or of threads of its own.
    """
    trace = analysis.trace
    events = trace.events.of_kind(EventKind.OVERHEAD)
    events = events[named(trace, events, _makes_room)]
    before, inside = np.zeros(len(host)), np.zeros(len(host))
    if not len(events):
        return before, inside
    ranks = np.array([-1 if lane.rank is None else lane.rank for lane in trace.lanes])[
        trace.events.lane[events]
    ]
    for number, span in enumerate(spans):
        mine = events[ranks == (-1 if span.rank is None else span.rank)]
        requests = union(trace.events.start[mine], trace.events.end[mine])
        nodes = host.span_of_thread[host.thread] == number
        start, end = host.start[nodes], host.end[nodes]
        before[nodes] = measure(requests, start - host.gap[nodes].astype(np.int64), start)
        inside[nodes] = measure(requests, start, end)
    return before, inside


def _makes_room(name: str) -> bool:
    return "buffer request" in name.lower()
