"""What the CPU did, as columns: each call that drives a GPU, with the time before it and its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from parsers.model import BOOL, F64, I64, U8, Array, EventKind
from parsers.model.arrays import merged
from parsers.model.events import of_kinds
from parsers.model.late import dataclass
from parsers.model.names.calls import WORK_CALLS, Call
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import intersect, length, union
from rules.replay.spans import Span

# of the less busy one's time: threads that hardly overlap take turns, as main and autograd do
ONE_THREAD_OVERLAP = 0.05
# in the order of the columns of ``Written``
_WRITTEN = ((EventKind.CPU_OP, EventKind.API, EventKind.REGION), (EventKind.PYTHON,))


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """How many events of each kind the recorder wrote down that begin in each of some times."""

    records: I64  # operators, ranges and calls
    frames: I64  # of Python

    @classmethod
    def joined(cls, parts: Sequence[Written]) -> Written:
        """Those of several times, one after the other."""

        def column(name: str) -> I64:
            return np.concatenate([np.empty(0, np.int64), *(getattr(part, name) for part in parts)])

        return cls(column("records"), column("frames"))


@dataclass(frozen=True, slots=True, eq=False)
class HostNodes:
    """Calls of all logical threads, by thread and start; times in ns.

    ``gap`` is the host time since the call before, on the same thread; ``cost`` the call's own duration as far as no
    call around or before it covers it. ``written`` is what the recorder wrote down between the two calls.
    ``tail`` is the host time after each thread's last call, to the end of the span.
    """

    event: I64
    thread: I64  # logical thread, ascending
    step: I64  # place among the replayed steps
    call: U8  # Call
    start: I64
    end: I64
    gap: F64
    cost: F64
    written: Written
    first: I64  # (threads + 1): where each thread's nodes begin
    span_of_thread: I64
    members: tuple[tuple[int, ...], ...]  # recorded threads of each logical one
    tail: F64
    tail_written: Written
    leads: BOOL  # whether a thread is its rank's main one, whose steps are the run's steps

    def __len__(self) -> int:
        return len(self.event)

    @property
    def threads(self) -> int:
        return len(self.members)


def host_nodes(analysis: Analysis, spans: tuple[Span, ...]) -> HostNodes:
    """The calls that launch, copy, wait or allocate inside the spans."""
    parts: list[tuple[int, tuple[int, ...], _Part]] = []
    leads: list[bool] = []
    for number, span in enumerate(spans):
        threads = sorted(
            {thread for device in span.devices for thread in analysis.threads.drivers(device)[0]}
        )
        mine = [
            (number, members, _part(analysis, span, members)) for members in _logical(analysis, span, threads)
        ]
        mine = [each for each in mine if len(each[2].event)]
        most = max((len(part.event) for _, _, part in mine), default=0)
        main = next((place for place, each in enumerate(mine) if len(each[2].event) == most), -1)
        parts += mine
        leads += [place == main for place in range(len(mine))]
    count = [len(part.event) for _, _, part in parts]

    def joined(name: str, kind: type[np.generic]) -> Array:
        columns = [getattr(part, name) for _, _, part in parts]
        return np.concatenate(columns) if columns else np.empty(0, kind)

    return HostNodes(
        event=joined("event", np.int64),
        thread=np.repeat(np.arange(len(parts)), count),
        step=joined("step", np.int64),
        call=joined("call", np.uint8),
        start=joined("start", np.int64),
        end=joined("end", np.int64),
        gap=joined("gap", np.float64),
        cost=joined("cost", np.float64),
        written=Written.joined([part.written for _, _, part in parts]),
        first=np.concatenate(([0], np.cumsum(count, dtype=np.int64))).astype(np.int64),
        span_of_thread=np.array([number for number, _, _ in parts], np.int64),
        members=tuple(members for _, members, _ in parts),
        tail=np.array([part.tail for _, _, part in parts], np.float64),
        tail_written=Written.joined([part.tail_written for _, _, part in parts]),
        leads=np.array(leads, bool),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    event: I64
    step: I64
    call: U8
    start: I64
    end: I64
    gap: F64
    cost: F64
    written: Written
    tail: float
    tail_written: Written


def _part(analysis: Analysis, span: Span, members: tuple[int, ...]) -> _Part:
    """The nodes of one logical thread."""
    table = analysis.trace.events
    calls = np.concatenate([analysis.threads.noted_calls(thread)[0] for thread in members])
    start = table.start[calls]
    inside = (start >= span.start) & (start < span.end)
    calls = calls[inside]
    calls = table.by_start(calls)
    start, end = table.spans(calls)
    reach = np.concatenate(([span.start], np.maximum.accumulate(end)))[:-1] if len(end) else end
    outer = end > reach
    calls, start, end, reach = calls[outer], start[outer], end[outer], reach[outer]
    edges = np.concatenate(([span.start], start, [span.end]))
    columns = _begun(analysis, span, members, edges)
    last = int(end[-1]) if len(end) else span.start
    return _Part(
        event=calls,
        step=np.searchsorted(span.edges[1:-1], start, side="right").astype(np.int64),
        call=analysis.threads.call_class[table.name[calls]],
        start=start,
        end=end,
        gap=np.maximum(start - reach, 0).astype(np.float64),
        cost=(end - np.maximum(start, reach)).astype(np.float64),
        written=Written(*(column[:-1] for column in columns)),
        tail=float(max(span.end - last, 0)),
        tail_written=Written(*(column[-1:] for column in columns)),
    )


def _begun(analysis: Analysis, span: Span, members: tuple[int, ...], edges: I64) -> list[I64]:
    """For each sort of what a recorder writes down, how many such events began between each two ``edges``."""
    table = analysis.trace.events
    events = np.concatenate([analysis.threads.events(thread) for thread in members])
    start = table.start[events]
    inside = (start >= span.start) & (start <= span.end)
    start, kind = start[inside], table.kind[events[inside]]
    began = (merged(start[of_kinds(kind, *kinds)]) for kinds in _WRITTEN)
    return [np.diff(np.searchsorted(each, edges, side="right")) for each in began]


def _logical(analysis: Analysis, span: Span, threads: list[int]) -> list[tuple[int, ...]]:
    """Threads that hardly overlap, joined: one works while the other waits for it."""
    table = analysis.trace.events
    groups: list[tuple[tuple[int, ...], tuple[I64, I64]]] = []
    kept = [thread for thread in threads if _launches(analysis, span, thread)]
    for thread in kept:
        calls, _ = analysis.threads.noted_calls(thread)
        start = table.start[calls]
        calls = calls[(start >= span.start) & (start < span.end)]
        busy = union(*table.spans(calls))
        for place, (members, theirs) in enumerate(groups):
            least = min(length(busy), length(theirs))
            if length(intersect(busy, theirs)) <= ONE_THREAD_OVERLAP * least:
                joined = union(np.concatenate((busy[0], theirs[0])), np.concatenate((busy[1], theirs[1])))
                groups[place] = ((*members, thread), joined)
                break
        else:
            groups.append(((thread,), busy))
    return [members for members, _ in groups]


def _launches(analysis: Analysis, span: Span, thread: int) -> bool:
    calls, classes = analysis.threads.noted_calls(thread)
    start = analysis.trace.events.start[calls]
    inside = (start >= span.start) & (start < span.end)
    waits = of_kinds(classes[inside], *WORK_CALLS, Call.SYNCHRONIZE)
    return bool(waits.any())
