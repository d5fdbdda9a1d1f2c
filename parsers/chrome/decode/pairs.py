"""Makes events of the phases that come in parts: B with E, asynchronous begin with end, and instants."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import field
from typing import Any

import numpy as np

from parsers.chrome.decode.categories import PROFILER_PROCESSES, REGION, Where, family_of
from parsers.chrome.decode.collect import INSTANTS, Columns, Instant, Part
from parsers.chrome.decode.requests import rows_of_requests
from parsers.chrome.decode.times import INVALID
from parsers.model import Effect, EventKind, LaneKind
from parsers.model.arrays import distinct_values
from parsers.model.late import dataclass

_BEGINS = frozenset({"b", "S"})
_ENDS = frozenset({"e", "F"})


def add_instants(columns: Columns) -> None:
    """Turn ``columns.instants`` into events; ends without a beginning, and the reverse, are counted."""
    marks: list[Instant] = []
    stacked: list[Instant] = []
    asynchronous: list[Instant] = []
    for each in columns.instants:
        if each.start == INVALID:
            columns.quality.read(1)
            columns.quality.note("no-time", Effect.QUARANTINED, "an event without a usable time", each.name)
        elif each.phase in INSTANTS or each.phase in ("n", "T", "p"):
            if each.pid not in PROFILER_PROCESSES:
                marks.append(each)
        elif each.phase in ("B", "E"):
            stacked.append(each)
        else:
            asynchronous.append(each)
    columns.instants.clear()
    _add(columns, [(mark, mark.start) for mark in marks], EventKind.MARK)
    _add(columns, _matched_stacks(columns, stacked), EventKind.REGION)
    _add(columns, _matched_ids(columns, asynchronous), EventKind.REGION, True)


def _in_order(each: Instant) -> tuple[int, int]:
    """Of what happens at the same time, what stands first in the file is first: one range ends, the next begins."""
    return each.start, each.row


def _matched_stacks(columns: Columns, events: list[Instant]) -> list[tuple[Instant, int]]:
    """B and E of one thread close each other like brackets."""
    found = []
    open_by_thread: dict[Any, _OpenRanges] = defaultdict(_OpenRanges)
    events.sort(key=_in_order)
    lone_ends: list[Instant] = []
    for each in events:
        ranges = open_by_thread[each.pid, each.tid]
        if each.phase == "B":
            ranges.begin(each)
        elif (begun := ranges.end(each.name)) is not None:
            found.append((begun, each.start))
        else:
            lone_ends.append(each)
    _lone(columns, [each for ranges in open_by_thread.values() for each in ranges.left()], lone_ends)
    return found


@dataclass(slots=True)
class _OpenRanges:
    """The ranges of one thread that have begun; each begins and ends in constant time, in whatever order."""

    _stack: list[Instant | None] = field(default_factory=list)  # None: ended before ranges around it
    _places: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def begin(self, mark: Instant) -> None:
        self._places[mark.name].append(len(self._stack))
        self._stack.append(mark)

    def end(self, name: str) -> Instant | None:
        """The innermost range of that name, or of any where there is no name; None where there is none."""
        while self._stack and self._stack[-1] is None:
            self._stack.pop()
        if not self._stack:
            return None
        innermost = self._stack[-1]
        places = self._places.get(name or (innermost.name if innermost else ""))
        if not places:
            return None
        place = places.pop()
        found, self._stack[place] = self._stack[place], None
        return found

    def left(self) -> list[Instant]:
        return [each for each in self._stack if each is not None]


def _matched_ids(columns: Columns, events: list[Instant]) -> list[tuple[Instant, int]]:
    """Asynchronous begin and end share category and id, and their name where both state it."""
    found = []
    begun: dict[Any, _OpenRanges] = defaultdict(_OpenRanges)
    lone_ends = []
    events.sort(key=_in_order)
    for each in events:
        key = (each.category, repr(each.id), each.name if each.phase in "SF" else "")
        if each.phase in _BEGINS:
            begun[key].begin(each)
        elif each.phase in _ENDS:
            if (whole := begun[key].end(each.name) or begun[key].end("")) is not None:
                found.append((whole, each.start))
            else:
                lone_ends.append(each)
    _lone(columns, [each for ranges in begun.values() for each in ranges.left()], lone_ends)
    return found


def _lone(columns: Columns, begins: list[Instant], ends: list[Instant]) -> None:
    columns.quality.read(len(begins) + len(ends))
    for kind, reason, events in (
        ("begin-without-end", "a range begins and never ends", begins),
        ("end-without-begin", "a range ends that never began", ends),
    ):
        if events:
            columns.quality.note(kind, Effect.QUARANTINED, reason, events[0].name, len(events))


def _add(
    columns: Columns, ranges: Iterable[tuple[Instant, int]], kind: EventKind, asynchronous: bool = False
) -> None:
    ranges = list(ranges)
    if not ranges:
        return
    tracks = []
    kinds = []
    requests = rows_of_requests(ranges) if asynchronous else {}
    for place, (each, _) in enumerate(ranges):
        family = family_of(each.category)
        lane = family.lane if family.where is Where.THREAD else LaneKind.OTHER
        shown = kind
        if place in requests:
            shown = EventKind.OTHER
            tracks.append(
                columns.tracks[Where.THREAD, LaneKind.SERVED, each.pid, f"requests #{requests[place] + 1}"]
            )
        elif asynchronous:
            tracks.append(
                columns.tracks[Where.THREAD, LaneKind.OTHER, each.pid, each.category or "asynchronous"]
            )
        elif kind is EventKind.MARK:
            lane = REGION.lane if lane is LaneKind.CPU_THREAD else lane
            tracks.append(columns.tracks[Where.THREAD, lane, each.pid, each.tid])
        else:
            shown = family.kind if lane is not LaneKind.OTHER else EventKind.OTHER
            tracks.append(columns.tracks[Where.THREAD, lane, each.pid, each.tid])
        kinds.append(shown)
    start = np.array([each.start for each, _ in ranges], np.int64)
    end = np.array([end for _, end in ranges], np.int64)
    track = np.array(tracks, np.int32)
    name = np.array([columns.names[each.name] for each, _ in ranges], np.int32)
    row = np.array([each.row for each, _ in ranges], np.int64)
    codes = np.array(kinds, np.uint8)
    for code in distinct_values(codes).tolist():
        mine = codes == code
        columns.append(
            Part(
                start[mine],
                (end - start)[mine],
                np.ones(int(mine.sum()), bool),
                name[mine],
                track[mine],
                EventKind(code),
                row[mine],
            )
        )
