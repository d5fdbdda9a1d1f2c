"""Which event is under the cursor, which comes before and after it, and which events an area covers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import I64, EventTable
from viewer.timeline.geometry.row_index import Row


def event_at(events: EventTable, lane: int, depth: int, when: float, tolerance: float) -> int:
    """The event of a row at ``when``, else the nearest one within ``tolerance`` ns; -1 where there is none."""
    part = events.window(lane, depth, int(when - tolerance) - 1, int(when + tolerance) + 2)
    found = _nearest(*events.spans(part), when, tolerance)
    return part.start + found if found >= 0 else -1


def entry_at(row: Row, when: float, tolerance: float) -> int:
    """The same for the entries of a row as it is drawn: an offset in it."""
    low, high = row.window(when - tolerance - 1, when + tolerance + 2)
    found = _nearest(row.start[low:high], row.end[low:high], when, tolerance)
    return low + found if found >= 0 else -1


def _nearest(start: I64, end: I64, when: float, tolerance: float) -> int:
    if not len(start):
        return -1
    away = np.maximum(np.maximum(start - when, when - end), 0.0)
    nearest = int(np.argmin(away))
    inside = np.flatnonzero(away == away[nearest])
    best = int(inside[np.argmax((end - start)[inside])])
    return best if away[best] <= tolerance else -1


def neighbour(events: EventTable, event: int, step: int) -> int:
    """The next (+1) or previous (-1) event of the same row; the event itself at the end of the row."""
    other = event + step
    if not 0 <= other < len(events):
        return event
    same = events.lane[other] == events.lane[event] and events.depth[other] == events.depth[event]
    return other if same else event


def count_in(events: EventTable, lanes: Iterable[int], t0: int, t1: int) -> int:
    """How many events of these lanes touch [t0, t1)."""
    total = 0
    for lane in lanes:
        for depth in events.rows(lane):
            part = events.window(lane, depth, t0, t1)
            total += part.stop - part.start
    return total
