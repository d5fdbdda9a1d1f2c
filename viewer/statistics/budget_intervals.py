"""The intervals behind each part of a budget, so that a click on the part can show them."""

from __future__ import annotations

import numpy as np

from parsers.model import I64, LaneKind, Trace
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import EMPTY, Intervals, clip
from rules.analysis.idle.causes import Cause
from rules.findings.base import Evidence

MAX_PLACES = 400  # the longest ones; marking more would hide what is marked


def places_of(analysis: Analysis, device: int, key: str, label: str, t0: int, t1: int) -> list[Evidence]:
    """Where one part of the budget lies in [t0, t1), by time; at most ``MAX_PLACES``, the longest."""
    trace = analysis.trace
    lane = gpu_lane_of(trace, device)
    if lane < 0:
        return []
    cause = next((cause for cause in Cause if cause.key == key), None)
    if cause is not None:
        table = analysis.idle
        mine = np.flatnonzero(
            (table.device == device) & (table.cause == cause) & (table.end > t0) & (table.start < t1)
        )
        mine = _longest(table.start, table.end, mine)
        return [
            Evidence(
                lane,
                int(table.start[row]),
                int(table.end[row]),
                f"{label}: {table.culprit_of(int(row)).text}",
            )
            for row in mine.tolist()
        ]
    start, end = intervals_of(analysis, device, key, t0, t1)
    rows = _longest(start, end, np.arange(len(start)))
    ran = _collectives_at(trace, device, start[rows]) if key == "communication" else [-1] * len(rows)
    return [
        Evidence(
            lane if event < 0 else int(trace.events.lane[event]), int(start[row]), int(end[row]), label, event
        )
        for event, row in zip(ran, rows.tolist(), strict=True)
    ]


def foremost(places: list[Evidence]) -> int | None:
    """Which one to look at first: the longest place of the operation that has most of the time; None without places.

    A collective whose exposed time computation cuts into pieces counts with all of them.
    """
    if not places:
        return None
    length = np.array([place.end - place.start for place in places], np.int64)
    event = np.array([place.event for place in places], np.int64)
    _, of_event = np.unique(event, return_inverse=True)
    total = np.where(event >= 0, np.bincount(of_event, length)[of_event], length)
    return int(np.lexsort((length, total))[-1])


def intervals_of(analysis: Analysis, device: int, key: str, t0: int, t1: int) -> Intervals:
    """All of the time inside [t0, t1) that one part of the budget of a device takes."""
    time = analysis.time(device)
    parts = {
        "compute": time.compute,
        "communication": time.communication,
        "copy": time.copies,
        "other": time.other,
        **{cause.key: intervals for cause, intervals in time.idle.items()},
    }
    return clip(parts.get(key, EMPTY), t0, t1)


def _collectives_at(trace: Trace, device: int, times: I64) -> list[int]:
    """The collective that runs on a device at each time; -1 where none does."""
    events = trace.events
    operations = trace.operations_of_device(device)
    running = operations[trace.communicates[operations]]
    running = events.by_start(running)
    if not len(running):
        return [-1] * len(times)
    begun = running[np.maximum(np.searchsorted(events.start[running], times, side="right") - 1, 0)]
    inside = (events.start[begun] <= times) & (times < events.end[begun])
    ran: list[int] = np.where(inside, begun, -1).tolist()
    return ran


def gpu_lane_of(trace: Trace, device: int) -> int:
    """The first stream lane of a device, the busiest kind first; -1 when it has none."""
    lanes = [index for index, lane in enumerate(trace.lanes) if lane.device == device and lane.is_gpu]
    lanes.sort(key=lambda index: (trace.lanes[index].kind is not LaneKind.GPU_STREAM, index))
    return lanes[0] if lanes else -1


def _longest(start: I64, end: I64, rows: I64) -> I64:
    if len(rows) > MAX_PLACES:
        rows = rows[np.argsort((end - start)[rows], kind="stable")[-MAX_PLACES:]]
    return rows[np.argsort(start[rows], kind="stable")]
