"""Everything that drawing needs of a recording beyond the recording itself; built once, off the GUI thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

import numpy as np

from parsers.model import BOOL, I64, LaneKind, Progress, Trace, derived
from parsers.model.late import dataclass
from rules.analysis.arithmetic.intervals import subtract, union
from viewer.timeline.geometry.nested_calls import NestedCalls, groups_with_calls, nested_calls
from viewer.timeline.geometry.row_index import Row, lane_rows, row_index
from viewer.timeline.geometry.tracks import Group, Track, busy_tracks, groups


@dataclass(frozen=True, eq=False)
class DrawingIndex:
    """What ``build_index`` made.

    ``rows`` of every lane by depth, the ``names`` that occur in lanes of each kind (indices into the trace's strings),
    for every device the union of its GPU work, an interval's name being ``ALONE`` where only communication runs, and
    for lanes of operators the API ``calls`` inside of them.
    """

    rows: tuple[tuple[Row, ...], ...]
    groups: tuple[Group, ...]
    names: Mapping[LaneKind, I64]
    busy: Mapping[int, Row]
    calls: Mapping[int, NestedCalls]

    def row(self, track: Track, depth: int) -> Row | None:
        """A level of a lane as it is drawn; None where nothing lies on it."""
        nested = self.calls[track.lane].rows.get(depth) if track.calls >= 0 else None
        if nested is not None:
            return nested.row
        rows = self.rows[track.lane]
        return rows[depth] if depth < len(rows) else None

    def events(self, track: Track, depth: int) -> I64 | None:
        """The event of each entry of such a row; None where they follow one another."""
        nested = self.calls[track.lane].rows.get(depth) if track.calls >= 0 else None
        return None if nested is None else nested.events

    @cached_property
    def numbers(self) -> Mapping[int, int]:
        found: dict[int, int] = {}
        counted: dict[tuple[LaneKind, str], int] = {}
        for group in self.groups:
            for track in group.tracks:
                if track.kind is not None:
                    found[track.lane] = counted.get((track.kind, group.key), 0)
                    counted[track.kind, group.key] = found[track.lane] + 1
        return found

    @property
    def nbytes(self) -> int:
        """Memory of the level-of-detail arrays."""
        return sum(row.index_bytes for rows in self.rows for row in rows)


WORK, ALONE = 0, 1  # what a busy device does: work of its own, or nothing but communication


@derived
def drawing_index(trace: Trace) -> DrawingIndex:
    """The index of a recording: kept where that is read, so that its lanes are shown as soon as it is there."""
    return build_index(trace)


def build_index(trace: Trace, progress: Progress | None = None) -> DrawingIndex:
    """Index every row of the recording."""
    progress = progress or Progress()
    rows: list[tuple[Row, ...]] = []
    seen: dict[LaneKind, BOOL] = {}
    for index, lane in enumerate(trace.lanes):
        progress.step(0.8 * index / len(trace.lanes), "preparing the timeline")
        rows.append(tuple(lane_rows(trace.events, index)))
        names = seen.setdefault(lane.kind, np.zeros(len(trace.strings), bool))
        names[trace.events.name[trace.events.lane_slice(index)]] = True
    busy: dict[int, Row] = {}
    for device in range(len(trace.devices)):
        progress.step(0.8 + 0.2 * device / len(trace.devices), "preparing the timeline")
        row = _busy(trace, trace.operations_of_device(device))
        if row is not None:
            busy[device] = row
    found = {kind: np.flatnonzero(names) for kind, names in seen.items()}
    return index_of(trace, tuple(rows), found, busy, nested_calls(trace))


def index_of(
    trace: Trace,
    rows: tuple[tuple[Row, ...], ...],
    names: Mapping[LaneKind, I64],
    busy: Mapping[int, Row],
    calls: Mapping[int, NestedCalls],
) -> DrawingIndex:
    """The index of these parts, with the groups of the recording."""
    tracks = (replace(group, busy=busy_tracks(group)) for group in groups_with_calls(groups(trace), calls))
    return DrawingIndex(rows, tuple(tracks), names, busy, calls)


def _busy(trace: Trace, operations: I64) -> Row | None:
    """When a device is busy; communication beside its own work is part of that work."""
    start, end = trace.events.spans(operations)
    communicates = trace.communicates[operations]
    if not communicates.any():
        times = union(start, end)
        return row_index(*times, np.full(len(times[0]), WORK, np.int32)) if len(times[0]) else None
    work = union(start[~communicates], end[~communicates])
    alone = subtract(union(start[communicates], end[communicates]), work)
    kind = np.repeat(np.array([WORK, ALONE], np.int32), (len(work[0]), len(alone[0])))
    starts, ends = np.concatenate((work[0], alone[0])), np.concatenate((work[1], alone[1]))
    order = np.argsort(starts, kind="stable")
    return row_index(starts[order], ends[order], kind[order])
