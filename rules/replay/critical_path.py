"""The critical path of the replayed steps: the chain of work and waits that decided when they ended."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np

from parsers.model import F64, I64, U8, Array, EventKind, derived
from parsers.model.late import dataclass
from rules.analysis.analysis import Analysis
from rules.replay.program import Program
from rules.replay.replay import Replay, replay_of
from rules.replay.surroundings import surroundings_of


class PathKind(IntEnum):
    """What a piece of the critical path is; ``key`` is its name in results."""

    COMPUTE = 0
    LAUNCH = 1  # launching, and getting ready to launch
    HOST = 2  # something of its own on the CPU
    COMMUNICATION = 3
    COPY = 4
    WAIT = 5  # after what was waited for had ended

    @property
    def key(self) -> str:
        return f"{self.name.lower()}_ns"


@dataclass(frozen=True, slots=True, eq=False)
class CriticalPath:
    """Disjoint pieces in order of time, as long as the replayed steps are on average; times in ns as recorded.

    ``event`` is the call or operation of a piece, ``lane`` its lane; -1 for host time before the first call.
    """

    start: I64
    end: I64
    kind: U8
    event: I64
    lane: I64
    steps: int

    def share(self) -> dict[str, int]:
        """ns of each kind in one step."""
        total = np.bincount(self.kind, self.end - self.start, minlength=len(PathKind))
        return {kind.key: int(total[kind] / max(self.steps, 1)) for kind in PathKind}


@derived
def critical_path_of(analysis: Analysis) -> CriticalPath:
    """The path of a recording that can be replayed; empty for others."""
    replay = replay_of(analysis)
    if replay.program is None:
        none = np.empty(0, np.int64)
        return CriticalPath(none, none, np.empty(0, np.uint8), none, none, 0)
    around = surroundings_of(analysis)
    own = np.minimum(around.silent_ns + around.input_ns, replay.host.gap)
    return _walk(replay, replay.program, own)


def _walk(replay: Replay, program: Program, own: F64) -> CriticalPath:
    """Back from the last end, at every operation and call to whatever it had to wait for longest.

    The last end is that of the GPU's work, or of the steps where the CPU goes on after it.
    """
    analysis, host, device, waits = replay.analysis, program.host, program.device, program.waits
    kinds = _kinds_of(analysis, program)
    needs: dict[int, list[int]] = {}
    for source, dependent in zip(device.depends.tolist(), device.dependent.tolist(), strict=True):
        needs.setdefault(dependent, []).append(source)
    members: dict[int, list[int]] = {}
    for place in np.flatnonzero(device.meeting >= 0).tolist():
        members.setdefault(int(device.meeting[place]), []).append(place)
    last_span = max(range(len(program.spans)), key=lambda number: program.spans[number].end)
    operation, node = int(device.end.argmax()), -1
    at = max(int(device.end[operation]), program.spans[last_span].end)
    begin = at - round(replay.steps * replay.mean_ns)
    pieces: list[tuple[int, int, int, int]] = []  # start, end, kind, event

    event_of, launched_by, meeting, stream, starts, ends, latency = map(
        _one_by_one,
        (
            device.event,
            device.launch,
            device.meeting,
            device.stream,
            device.start,
            device.end,
            device.latency,
        ),
    )
    calls, called, gaps, first_of, thread = map(
        _one_by_one, (host.event, host.start, host.gap, host.first, host.thread)
    )
    targets, bound, carried, idle = map(_one_by_one, (waits.target, waits.bound, waits.carried, own))

    def add(since: float, kind: int, event: int) -> None:
        nonlocal at
        start, end = max(int(since), begin), at
        if start < end:
            if pieces and pieces[-1][0] == end and pieces[-1][2:] == (kind, event):
                end = pieces.pop()[1]
            pieces.append((start, end, int(kind), event))
            at = start

    if at > device.end[operation]:
        leads = np.flatnonzero(host.leads & (host.span_of_thread == last_span))
        operation, node = -1, int(host.first[int(leads[0]) + 1]) - 1
        add(host.end[node], PathKind.HOST, calls[node])

    while at > begin:
        if operation >= 0:
            event, launch = event_of[operation], launched_by[operation]
            came = _last_to_come(starts, members, meeting[operation], operation)
            add(starts[came], kinds[operation], event)
            operation, launch = came, launched_by[came]
            before = operation - 1
            ready = float(called[launch])
            following, why = -1, ready
            if before >= 0 and stream[before] == stream[operation] and ends[before] > why:
                following, why = before, float(ends[before])
            for source in needs.get(operation, []):
                ended = min(float(ends[source]), at)
                if ended > why:
                    following, why = source, ended
            if following >= 0 and why <= at and why >= ready + latency[operation]:
                add(why, PathKind.LAUNCH, event_of[operation])
                operation = following
                continue
            add(ready, PathKind.LAUNCH, calls[launch])
            operation, node = -1, launch
        elif node >= 0:
            gap = float(called[node] - gaps[node])
            event = calls[node]
            add(called[node], PathKind.LAUNCH, event)
            add(called[node] - idle[node], PathKind.HOST, event)
            add(gap, PathKind.LAUNCH, event)
            first = first_of[thread[node]] == node
            node -= 1
            if first:
                break
            target = targets[node]
            if bound[node] and not carried[node] and ends[target] > called[node]:
                add(ends[target], PathKind.WAIT, calls[node])
                operation, node = target, -1
            elif bound[node]:
                add(called[node], PathKind.WAIT, calls[node])
        else:
            break
    add(begin, PathKind.HOST, -1)
    pieces.reverse()
    columns = np.array(pieces, np.int64).reshape(-1, 4)
    events = columns[:, 3]
    lane = np.where(events >= 0, analysis.trace.events.lane[np.maximum(events, 0)], -1).astype(np.int64)
    kind = columns[:, 2].astype(np.uint8)
    return CriticalPath(columns[:, 0], columns[:, 1], kind, events, lane, replay.steps)


def _one_by_one(column: Array) -> Sequence[Any]:
    """The same, whose values are looked up one by one as numbers of Python, in half the time of numpy's."""
    return column.data


def _last_to_come(start: Sequence[int], members: dict[int, list[int]], meeting: int, operation: int) -> int:
    """The participant of a collective that started last; the operation itself where it takes part in none."""
    return max(members.get(meeting, [operation]), key=start.__getitem__)


def _kinds_of(analysis: Analysis, program: Program) -> list[int]:
    """The kind of each operation."""
    trace, device = analysis.trace, program.device
    kind = np.full(len(device), int(PathKind.COMPUTE))
    kind[trace.events.kind[device.event] == EventKind.MEMCPY] = int(PathKind.COPY)
    kind[trace.communicates[device.event]] = int(PathKind.COMMUNICATION)
    found: list[int] = kind.tolist()
    return found
