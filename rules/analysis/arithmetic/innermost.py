"""Which of a thread's nested events is the innermost one at a moment, and which lie inside no other."""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL, I32, I64, Trace
from parsers.model.arrays import distinct_values
from parsers.model.late import dataclass
from parsers.model.nesting import depths, parents
from rules.analysis.arithmetic.ascending_search import last_not_after

_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Innermost:
    """A step function of time: from ``edges[i]`` on, ``event[i]`` is the innermost open event (-1: none)."""

    edges: I64
    event: I32  # half as wide as other indices of events: of the calls there are two for each

    def at(self, times: I64) -> I64:
        """The innermost event at each time; -1 where none is open."""
        if not len(self.edges):
            return np.full(len(times), -1, np.int64)
        place = last_not_after(self.edges, times)
        found = self.event[np.maximum(place, 0)].astype(np.int64)
        found[place < 0] = -1
        return found

    @staticmethod
    def of(trace: Trace, events: I64) -> Innermost:
        """The step function of some events of one thread, in any order; empty events are never open."""
        return Innermost.nested(*trace.events.spans(events), events)

    @staticmethod
    def nested(start: I64, end: I64, events: I64) -> Innermost:
        """The same of events with these times."""
        real = end > start
        if not real.all():
            start, end, events = start[real], end[real], events[real]
        if not len(events):
            return Innermost(_NONE, _NONE.astype(np.int32))
        if (start[1:] <= start[:-1]).any():
            order = outermost_first(start, end)
            start, end, events = start[order], end[order], events[order]
        depth = depths(start, end)
        if not depth.any():
            return _one_after_another(start, end, events)
        begins = _last_of_each(start, depth)
        by_end = np.argsort(end, kind="stable")[::-1]
        ends = by_end[_last_of_each(end[by_end], -depth[by_end])][::-1]
        times = np.concatenate((end[ends], start[begins]))
        opened = np.concatenate((parents(start, end, depth)[ends], begins))
        sequence = np.argsort(times, kind="stable")
        times, opened = times[sequence], opened[sequence]
        # what begins here, else what goes on where something ends
        last = np.append(times[1:] != times[:-1], True)
        opened = opened[last]
        return Innermost(times[last], np.where(opened < 0, -1, events[opened]).astype(np.int32))


def holding(trace: Trace, events: I64, others: I64) -> BOOL:
    """Inside which events one of the others begins, on the same thread as the innermost of them."""
    table, found = trace.events, []
    for lane in distinct_values(table.lane[events]).tolist():
        of_lane = events[table.lane[events] == lane]
        found.append(Innermost.of(trace, of_lane).at(table.start[others[table.lane[others] == lane]]))
    return np.isin(events, np.concatenate(found))


def _one_after_another(start: I64, end: I64, events: I64) -> Innermost:
    """Of events that do not overlap, by start; where one ends and the next begins there is one edge."""
    edges = np.empty(2 * len(start), np.int64)
    edges[::2], edges[1::2] = start, end
    event = np.full(2 * len(start), -1, np.int32)
    event[::2] = events
    if not (end[:-1] == start[1:]).any():
        return Innermost(edges, event)
    kept = np.append(edges[:-1] != edges[1:], True)
    return Innermost(edges[kept], event[kept])


def _last_of_each(times: I64, rank: I32) -> I64:
    """Of the events at each time the one of the highest rank, as places; the times rise or fall."""
    again = times[1:] == times[:-1]
    if (rank[1:][again] < rank[:-1][again]).any():
        order = np.lexsort((rank, np.cumsum(np.append(False, ~again))))
        return np.asarray(order[np.append(~again, True)])
    return np.flatnonzero(np.append(~again, True))


def outermost_first(start: I64, end: I64) -> I64:
    """The order by start, longer events before shorter ones: one sort where the events come in that order by rows."""
    order = np.argsort(start, kind="stable")
    again = (np.diff(start[order]) == 0) & (np.diff(end[order]) > 0)
    return np.lexsort((-end, start)) if again.any() else order


def outermost(trace: Trace, events: I64) -> I64:
    """Those of the events of one thread that lie inside no other of them, by start."""
    events = outer_first(trace, events)
    start, end = trace.events.spans(events)
    reach = np.maximum.accumulate(end)
    return np.asarray(events[start >= np.append(start[:1], reach[:-1])])


def outer_first(trace: Trace, events: I64) -> I64:
    """Events by start, one before those that lie inside of it."""
    return np.asarray(events[outermost_first(*trace.events.spans(events))])
