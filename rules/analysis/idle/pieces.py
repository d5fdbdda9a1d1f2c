"""Idle intervals of one device, and their pieces: parts in which no thread that drives it changes what it does."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from parsers.model import BOOL, I64, EventKind, Trace
from parsers.model.arrays import ascending, median_of, merged
from parsers.model.late import dataclass
from parsers.model.names.calls import BLOCKING, WORK_CALLS, Call
from rules.analysis.arithmetic.ascending_search import last_not_after
from rules.analysis.arithmetic.intervals import Intervals, contains
from rules.analysis.idle.blocking import Blockers, read_back_calls
from rules.analysis.idle.threads import Threads

MAX_STRETCH_NS = 2_000_000
ENOUGH_LAUNCHES = 20  # fewer do not tell what is usual
HOST_STRETCH_LAUNCHES = 10  # ... unless the program's launches are usually far apart
PIECES_AT_ONCE = 1 << 18  # more need memory, fewer need time: each slice costs some calls of numpy


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """Idle intervals of one device in order, the operation that ended each, and the call that waited when it began."""

    start: I64
    end: I64
    next_operation: I64
    launch: I64  # event that launched it; -1
    same_launch: BOOL  # whether that launched the operation before as well
    arrival: (
        I64  # when the launch call was over, clipped to the gap; the gap's end where nothing was launched
    )

    def __len__(self) -> int:
        return len(self.start)

    def part(self, which: slice) -> Gaps:
        return Gaps(
            self.start[which],
            self.end[which],
            self.next_operation[which],
            self.launch[which],
            self.same_launch[which],
            self.arrival[which],
        )


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """Parts of gaps in which no thread changes what it does."""

    start: I64
    end: I64
    gap: I64
    thread: I64  # the thread that the GPU waited for
    call: I64  # the API call that this thread was in; -1


@dataclass(frozen=True, slots=True, eq=False)
class Host:
    """What the threads that drive one device did."""

    threads: Threads
    drivers: list[int]
    main: int
    launched: I64  # when work was launched, ascending
    work_start: I64  # of launches and of calls that block, ascending
    work_reach: I64  # the latest end until then
    launch_pause: float  # the longest pause between launches that still is the cost of launching, ns
    read_backs: I64  # calls that copy a value which is waited for, ascending
    charged_until: I64  # where the doing of blocking calls ends, ascending
    interrupted: Intervals  # when something else had a driver's CPU
    step_edges: I64  # where the program says that its steps begin and end, ascending

    @staticmethod
    def of(
        threads: Threads,
        drivers: list[int],
        main: int,
        waits: Blockers,
        launch_pause: float,
        interrupted: Intervals,
    ) -> Host:
        """``launch_pause`` is the least of it, ns."""
        events = threads.trace.events
        launches = _launches(threads, drivers, main)
        breaks = np.concatenate((launches, threads.calls(drivers, *BLOCKING)))
        breaks = events.by_start(breaks)
        launched = events.start[launches]
        return Host(
            threads,
            drivers,
            main,
            launched,
            events.start[breaks],
            np.maximum.accumulate(events.end[breaks]),
            _longest_launch_pause(launched, launch_pause),
            read_back_calls(threads.trace, threads, drivers),
            merged(waits.until),
            interrupted,
            _step_edges(threads, main),
        )

    def edges_within(self, low: int, high: int) -> list[I64]:
        """Every moment of [low, high) at which what some thread does may change, as ascending columns."""
        columns = [self.charged_until, self.step_edges]
        for thread in self.drivers:
            columns += self.threads.activity(thread).edges()
        found = []
        for column in columns:
            first, last = np.searchsorted(column, (low, high)).tolist()
            found.append(column[first:last])
        return found

    def slices(self, gaps: Gaps) -> Iterator[slice]:
        """Neighbouring gaps that have about ``PIECES_AT_ONCE`` pieces together."""
        if not len(gaps):
            return
        edges = sum(map(len, self.edges_within(int(gaps.start[0]), int(gaps.end[-1]))))
        at_once = max(len(gaps) * PIECES_AT_ONCE // (edges + 3 * len(gaps)), 1)
        for first in range(0, len(gaps), at_once):
            yield slice(first, min(first + at_once, len(gaps)))

    def stretch(self, pieces: Pieces) -> I64:
        """How long the time without any launch or blocking call around each piece is; 0 inside one."""
        start, end, work = pieces.start, pieces.end, self.work_start
        if not len(work):
            return np.full(len(start), np.iinfo(np.int64).max, np.int64)
        place = last_not_after(work, start)
        before = np.where(place < 0, start, self.work_reach[np.maximum(place, 0)])
        after = np.where(place + 1 < len(work), work[np.minimum(place + 1, len(work) - 1)], end)
        return np.maximum(np.where(before > start, 0, after - before), 0)


def gaps_of(trace: Trace, device: int, idle: Intervals) -> Gaps:
    """The idle intervals of a device with what ended them."""
    start, end = idle
    operations = trace.operations_of_device(device)
    if not len(operations):
        none = np.full(len(end), -1, np.int64)
        return Gaps(start, end, none, none, np.zeros(len(end), bool), end)
    launches = trace.launches_of_device(device)
    starts = trace.events.start[operations]
    place = np.searchsorted(starts, end, side="left")
    following = np.minimum(place, len(operations) - 1)
    exists = (place < len(operations)) & (starts[following] == end)
    launch = np.where(exists, launches[following], -1)
    same = (launch >= 0) & (place > 0) & (launch == launches[np.maximum(place - 1, 0)])
    arrival = np.where(launch >= 0, np.clip(trace.events.end[np.maximum(launch, 0)], start, end), end)
    return Gaps(start, end, np.where(exists, operations[following], -1), launch, same, arrival)


def pieces_of(host: Host, gaps: Gaps) -> Pieces:
    """The pieces of some gaps, of which there is at least one, by time."""
    edges = host.edges_within(int(gaps.start[0]), int(gaps.end[-1]))
    cuts = ascending(np.concatenate((*edges, gaps.start, gaps.arrival, gaps.end)))
    first, last = np.searchsorted(cuts, gaps.start), np.searchsorted(cuts, gaps.end)
    count = last - first
    gap = np.repeat(np.arange(len(gaps)), count)
    cut = np.arange(len(gap)) + np.repeat(first - (np.cumsum(count) - count), count)
    start = cuts[cut]
    launcher = np.where(gaps.launch < 0, -1, host.threads.of_events(np.maximum(gaps.launch, 0)))[gap]
    thread, call = np.full(len(start), -1, np.int64), np.full(len(start), -1, np.int64)
    for number in host.drivers:
        activity = host.threads.activity(number)
        inside = activity.calls.at(start)
        acting = (inside >= 0) | contains(activity.running, start)
        chosen = acting & ((thread < 0) | (launcher == number))
        thread[chosen], call[chosen] = number, inside[chosen]
    thread[thread < 0] = host.main
    return Pieces(start, cuts[cut + 1], gap, thread, call)


def _launches(threads: Threads, drivers: list[int], main: int) -> I64:
    """Calls that give the GPU work, by start: all of the main thread's, of others only launches of kernels and graphs.

    A thread that prefetches data copies while the main thread does something else.
    """
    others = [thread for thread in drivers if thread != main]
    found = np.concatenate(
        (threads.calls([main], *WORK_CALLS), threads.calls(others, Call.LAUNCH, Call.GRAPH_LAUNCH))
    )
    return threads.trace.events.by_start(found)


def _step_edges(threads: Threads, main: int) -> I64:
    """Work on both sides of an edge, between the same two launches, has two culprits."""
    trace = threads.trace
    steps = trace.events.of_kind(EventKind.STEP)
    if main >= 0:
        steps = steps[trace.lane_rank[trace.events.lane[steps]] == threads.keys[main][0]]
    return merged(np.concatenate(trace.events.spans(steps)))


def _longest_launch_pause(launched: I64, least: float) -> float:
    """The longest pause between launches that still is the cost of launching, ns."""
    if len(launched) < ENOUGH_LAUNCHES:
        return least
    usual = float(median_of(np.diff(launched)))
    return min(max(least, HOST_STRETCH_LAUNCHES * usual), max(least, MAX_STRETCH_NS))
