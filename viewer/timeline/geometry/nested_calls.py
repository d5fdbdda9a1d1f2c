"""GPU API calls inside of the operators that make them: one picture of a thread, as other tools draw it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from parsers.model import I32, I64, EventTable, LaneKind, Trace
from parsers.model.arrays import distinct_values
from parsers.model.late import dataclass
from viewer.timeline.geometry.row_index import Row, row_index
from viewer.timeline.geometry.tracks import Group, Track


@dataclass(frozen=True, slots=True, eq=False)
class ThreadRow:
    """One level of a thread, ready to be drawn; entry ``n`` is event ``events[n]`` of the recording."""

    row: Row
    events: I64


@dataclass(frozen=True, slots=True, eq=False)
class NestedCalls:
    """A thread with the calls of ``lane`` inside; ``level`` of each of these calls, in the order of their lane.

    ``rows`` are the levels with calls in them; on all others the operators are alone.
    """

    lane: int
    first: int
    level: npt.NDArray[np.int16]
    rows: Mapping[int, ThreadRow]

    def level_of(self, event: int) -> int:
        return int(self.level[event - self.first])


def nested_calls(trace: Trace) -> dict[int, NestedCalls]:
    """By the lane of the operators."""
    threads: dict[tuple[int | None, int | None, int | None], int] = {
        (lane.rank, lane.process, lane.thread): index
        for index, lane in enumerate(trace.lanes)
        if lane.kind is LaneKind.CPU_THREAD and lane.thread is not None and trace.events.rows(index)
    }
    found = {}
    for index, lane in enumerate(trace.lanes):
        thread = threads.get((lane.rank, lane.process, lane.thread), -1)
        if lane.kind is LaneKind.CUDA_API and thread >= 0 and thread not in found:
            part = trace.events.lane_slice(index)
            if part.stop > part.start:
                found[thread] = _nested(trace, thread, index)
    return found


def _nested(trace: Trace, thread: int, lane: int) -> NestedCalls:
    events = trace.events
    part = events.lane_slice(lane)
    calls = np.arange(part.start, part.stop)
    around = np.zeros(len(calls), np.int16)  # levels of operators that are open when a call begins
    for depth, row in sorted(events.rows(thread).items()):
        before = np.searchsorted(events.start[row], events.start[calls], side="right") - 1
        inside = (before >= 0) & (events.end[row][np.maximum(before, 0)] > events.start[calls])
        around[inside] = depth + 1
    level = (around + events.depth[calls]).astype(np.int16)
    rows = {}
    for depth in distinct_values(level).tolist():
        own = events.rows(thread).get(depth, slice(0, 0))
        both = np.concatenate((np.arange(own.start, own.stop), calls[level == depth]))
        both = events.by_start(both)
        rows[depth] = ThreadRow(row_index(*drawn_in_turn(events, both)), both)
    return NestedCalls(lane, part.start, level, rows)


def drawn_in_turn(events: EventTable, which: I64) -> tuple[I64, I64, I32]:
    """Start, end and name of events in the order of their starts, each drawn until the next one begins at most."""
    start, end = events.spans(which)
    end[:-1] = np.minimum(end[:-1], start[1:])
    return start, end, events.name[which]


def groups_with_calls(groups: Sequence[Group], nested: Mapping[int, NestedCalls]) -> tuple[Group, ...]:
    """The same groups; tracks of operators know their calls, and how many levels both have together."""

    def tracks(group: Group) -> Iterator[Track]:
        for track in group.tracks:
            inside = nested.get(track.lane)
            yield (
                track
                if inside is None
                else replace(
                    track, calls=inside.lane, levels_with_calls=max(track.levels, 1 + max(inside.rows))
                )
            )

    return tuple(replace(group, tracks=tuple(tracks(group))) for group in groups)


def inside_or_apart(tracks: Sequence[Track], kept: frozenset[str], apart: bool) -> list[Track]:
    """Tracks as they are drawn: calls inside of their operators, except those whose own track is ``kept``, or all
    ``apart``."""
    own = {track.lane: track.key for track in tracks}
    inside = {
        track.calls for track in tracks if not apart and track.calls >= 0 and own.get(track.calls) not in kept
    }
    return [
        replace(track, levels=track.levels_with_calls) if track.calls in inside else replace(track, calls=-1)
        for track in tracks
        if track.lane not in inside
    ]
