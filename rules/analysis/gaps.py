"""Attributes every idle interval of a GPU to what the CPU did meanwhile: cause by cause, with the culprit's name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from parsers.model import Attribute, EventKind, Progress, Trace
from rules.analysis.blocking import Blockers, blockers, read_back_calls
from rules.analysis.calls import BLOCKING, WORK_CALLS, Call
from rules.analysis.causes import Cause, IdleTable
from rules.analysis.culprits import Culprits
from rules.analysis.device_operations import operations_of_device
from rules.analysis.durations import durations
from rules.analysis.intervals import Intervals, complement, contains, union
from rules.analysis.threads import Threads
from rules.thresholds import Thresholds, Unit, threshold

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

HOST_STRETCH_NS = threshold(
    "launch-pause",
    "a pause between launches is Python's and not the cost of launching from",
    Unit.TIME,
    500_000,
    least=20_000,
    most=50_000_000,
    source="a launch costs about 10 us, an operator 50 us",
)
MOST_STRETCH_NS = 2_000_000
ENOUGH_LAUNCHES = 20  # fewer do not tell what is usual
HOST_STRETCH_LAUNCHES = 10  # ... unless the program's launches are usually far apart
OWN_REGION_NS = 100_000  # a region that launches nothing and lasts longer is a cause of its own
INPUT_STRETCH_NS = 50_000  # shorter pauses in an input region that launches work are the cost of launching
LONG_CALL_NS = 1_000_000  # a launch or query that takes longer loads code or waits for the driver
QUEUED_BEHIND = "queued behind an event or another stream"
QUEUED_COLLECTIVE, QUEUED_COPY = "a queued collective", "a queued copy"
START_UP_NS = 100_000  # from the launch call to the operation's start; longer: it waited for something else


@dataclass(frozen=True, slots=True, eq=False)
class _Gaps:
    """Idle intervals of one device and the operation that ended each."""

    start: I64
    end: I64
    next_operation: I64
    launch: I64  # event that launched it; -1
    previous_launch: I64  # launch of the operation before; -1
    arrival: (
        I64  # when the launch call was over, clipped to the gap; the gap's end where nothing was launched
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Pieces:
    """Parts of gaps in which no thread changes what it does."""

    start: I64
    end: I64
    gap: I64
    thread: I64  # the thread that the GPU waited for
    acting: Mask  # it was inside a call or an operator


def idle_of_device(
    trace: Trace,
    threads: Threads,
    device: int,
    window: tuple[int, int],
    thresholds: Thresholds,
    progress: Progress,
) -> IdleTable:
    """The idle time of one device inside the window [start, end), attributed."""
    progress.step(0.0, "finding where the GPU idles")
    operations = operations_of_device(trace, device)
    busy = union(trace.events.start[operations], trace.events.end[operations])
    gaps = _gaps(trace, operations, complement(busy, *window))
    culprits = Culprits(trace, threads)
    drivers, main = threads.drivers(device)
    if not drivers:
        reason = "no call was linked to a GPU operation" if len(operations) else "no GPU operation"
        cause = np.full(len(gaps.start), Cause.UNKNOWN, np.uint8)
        names = np.full(len(gaps.start), culprits.named(reason), np.int32)
        none = np.full(len(gaps.start), -1, np.int64)
        return _table(device, gaps.start, gaps.end, cause, names, none, gaps.next_operation, culprits)
    for number, thread in enumerate(drivers):
        threads.activity(thread).prepare(
            progress.part(0.5 * number / len(drivers), 0.5 * (number + 1) / len(drivers))
        )
    progress.step(0.5, "looking for calls that wait")
    waits = blockers(trace, threads, drivers, gaps.start)
    progress.step(0.6, "cutting idle time where the CPU changes what it does")
    pieces = _pieces(threads, gaps, waits, drivers, main)
    launch_pause = thresholds[HOST_STRETCH_NS]
    progress.step(0.75, "finding what kept the GPU waiting")
    cause, names, event = _causes(trace, threads, culprits, gaps, waits, pieces, drivers, main, launch_pause)
    progress.step(0.95, "finding what kept the GPU waiting")
    return _joined(
        _table(
            device, pieces.start, pieces.end, cause, names, event, gaps.next_operation[pieces.gap], culprits
        )
    )


def _gaps(trace: Trace, operations: I64, idle: Intervals) -> _Gaps:
    start, end = idle
    starts = trace.events.start[operations]
    place = np.searchsorted(starts, end, side="left")
    exists = (
        (place < len(operations)) & (starts[np.minimum(place, len(starts) - 1)] == end)
        if len(starts)
        else (np.zeros(len(end), bool))
    )
    following = (
        np.where(exists, operations[np.minimum(place, len(operations) - 1)], -1)
        if len(operations)
        else (np.full(len(end), -1, np.int64))
    )
    before = np.maximum(place - 1, 0)
    launch = np.where(following < 0, -1, trace.links.launch_of(following))
    preceding = operations[np.minimum(before, len(operations) - 1)] if len(operations) else following
    previous = np.where(place > 0, trace.links.launch_of(preceding), -1)
    called = trace.events.end[np.maximum(launch, 0)] if len(trace.events) else end
    arrival = np.where(launch >= 0, np.clip(called, start, end), end)
    return _Gaps(start, end, following, launch, previous, arrival)


def _pieces(threads: Threads, gaps: _Gaps, waits: Blockers, drivers: list[int], main: int) -> _Pieces:
    activities = {thread: threads.activity(thread) for thread in drivers}
    inside = (gaps.start, gaps.end)
    edges = np.concatenate([*(activity.edges() for activity in activities.values()), waits.until])
    edges = edges[contains(inside, edges)]
    cuts = np.sort(np.concatenate((edges, gaps.start, gaps.arrival, gaps.end)))
    cuts = cuts[np.append(cuts[1:] != cuts[:-1], True)] if len(cuts) else cuts
    cuts = np.append(cuts, cuts[-1:] + 1)
    start, end = cuts[:-1], cuts[1:]
    kept = contains(inside, start)
    start, end = start[kept], end[kept]
    gap = np.searchsorted(gaps.start, start, side="right") - 1
    end = np.minimum(end, gaps.end[gap])
    launcher = np.where(gaps.launch < 0, -1, threads.of_events(np.maximum(gaps.launch, 0)))[gap]
    thread = np.full(len(start), -1, np.int64)
    acts = {}
    for number, activity in activities.items():
        acting = activity.calls.at(start) >= 0
        acting |= contains(activity.running, start)
        acts[number] = acting
        thread[acting & (launcher == number)] = number
    for number in drivers:
        thread[(thread < 0) & acts[number]] = number
    acting = thread >= 0
    thread[~acting] = main
    return _Pieces(start, end, gap, thread, acting)


def _causes(
    trace: Trace,
    threads: Threads,
    culprits: Culprits,
    gaps: _Gaps,
    waits: Blockers,
    pieces: _Pieces,
    drivers: list[int],
    main: int,
    launch_pause: float,
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32], I64]:
    events = trace.events
    count = len(pieces.start)
    call, region, input_, read_back, operator = (np.full(count, -1, np.int64) for _ in range(5))
    for number in drivers:
        mine = np.flatnonzero(pieces.thread == number)
        activity, at = threads.activity(number), pieces.start[mine]
        call[mine] = activity.calls.at(at)
        region[mine] = activity.user_regions.at(at)
        input_[mine] = activity.inputs.at(at)
        read_back[mine] = activity.read_backs.at(at)
        operator[mine] = activity.operators.at(at)
    of_main = threads.activity(main)
    region = np.where(region < 0, of_main.user_regions.at(pieces.start), region)
    input_ = np.where(input_ < 0, of_main.inputs.at(pieces.start), input_)

    launches = _launches(threads, drivers, main)
    breaks = np.concatenate((launches, threads.calls(drivers, *BLOCKING)))
    stretch = _stretch(pieces.start, pieces.end, events.start[breaks], events.end[breaks])
    launched = events.start[launches]
    call_class = np.where(call < 0, Call.OTHER, threads.call_class[events.name[np.maximum(call, 0)]])
    call_time = np.where(call < 0, 0, durations(trace, np.maximum(call, 0)))
    calling = (call >= 0) & np.isin(call_class, WORK_CALLS)
    copying = np.isin(call_class, (Call.COPY, Call.BLOCKING_COPY)) & (call_time >= LONG_CALL_NS)
    long_call = (call >= 0) & (call_time >= LONG_CALL_NS) & ~np.isin(call_class, BLOCKING) & ~copying

    pause = stretch >= _longest_launch_pause(launched, launch_pause)
    own_region = _launches_nothing(trace, region, launched) & ~calling
    own_input = _launches_nothing(trace, input_, launched)

    cause = np.full(count, Cause.LAUNCH, np.uint8)
    cause[(pause & ~calling) | own_region | long_call] = Cause.HOST
    cause[(input_ >= 0) & ~calling & ((stretch >= INPUT_STRETCH_NS) | own_input)] = Cause.INPUT
    reads = np.isin(call, read_back_calls(trace, threads, drivers))
    cause[(read_back >= 0) | reads] = Cause.SYNCHRONIZATION
    cause[(call >= 0) & (call_class == Call.ALLOCATE)] = Cause.ALLOCATOR
    cause[(call >= 0) & ((call_class == Call.SYNCHRONIZE) | copying)] = Cause.SYNCHRONIZATION
    event = np.select(
        [
            cause == Cause.ALLOCATOR,
            cause == Cause.INPUT,
            cause == Cause.SYNCHRONIZATION,
            long_call,
            region >= 0,
        ],
        [call, input_, np.where(read_back >= 0, read_back, call), call, region],
        default=operator,
    )
    _charge_blockers(trace, threads, waits, pieces, cause, event)

    started = pieces.start >= gaps.arrival[pieces.gap]
    waited = started & (gaps.end - gaps.arrival >= START_UP_NS)[pieces.gap]
    queued = (gaps.launch >= 0) & (events.end[np.maximum(gaps.launch, 0)] <= gaps.start)
    same_graph = (gaps.launch >= 0) & (gaps.launch == gaps.previous_launch)
    dependent = waited | queued[pieces.gap] | same_graph[pieces.gap]
    unlinked = ((gaps.launch < 0) & (gaps.next_operation >= 0))[pieces.gap]
    cause[started] = np.where(cause[started] == Cause.SYNCHRONIZATION, Cause.SYNCHRONIZATION, Cause.LAUNCH)
    cause[dependent] = Cause.DEPENDENCY
    cause[unlinked] = Cause.UNKNOWN

    names = culprits.of(cause, event, call, region, operator, pieces.start, pieces.end, main)
    reasons = _dependency_reasons(trace, gaps, culprits, same_graph)
    names = np.where(dependent, reasons[pieces.gap], names)
    names = np.where(unlinked, culprits.named("the operation has no launch record"), names)
    event = np.where(dependent | unlinked, -1, event)
    return cause, names.astype(np.int32), event


def _launches(threads: Threads, drivers: list[int], main: int) -> I64:
    """Calls that give the GPU work, by start: all of the main thread's, of others only launches of kernels and graphs.

    A thread that prefetches data copies while the main thread does something else.
    """
    others = [thread for thread in drivers if thread != main]
    found = np.concatenate(
        (threads.calls([main], *WORK_CALLS), threads.calls(others, Call.LAUNCH, Call.GRAPH_LAUNCH))
    )
    return found[np.argsort(threads.trace.events.start[found], kind="stable")]


def _longest_launch_pause(launched: I64, least: float) -> float:
    """The longest pause between launches that still is the cost of launching, ns."""
    if len(launched) < ENOUGH_LAUNCHES:
        return least
    usual = float(np.median(np.diff(launched)))
    return min(max(least, HOST_STRETCH_LAUNCHES * usual), max(least, MOST_STRETCH_NS))


def _stretch(start: I64, end: I64, work_start: I64, work_end: I64) -> I64:
    """How long the time without any launch or blocking call around each piece is; 0 inside one."""
    order = np.argsort(work_start, kind="stable")
    work_start, work_end = work_start[order], work_end[order]
    if not len(work_start):
        return np.full(len(start), np.iinfo(np.int64).max, np.int64)
    reach = np.maximum.accumulate(work_end)
    place = np.searchsorted(work_start, start, side="right") - 1
    before = np.where(place < 0, start, reach[np.maximum(place, 0)])
    after = np.where(place + 1 < len(work_start), work_start[np.minimum(place + 1, len(work_start) - 1)], end)
    return np.maximum(np.where(before > start, 0, after - before), 0)


def _launches_nothing(trace: Trace, region: I64, launched: I64) -> Mask:
    """Whether each piece's region lasts long enough to matter and contains no launch at all."""
    known = np.maximum(region, 0)
    if not len(trace.events):
        return np.zeros(len(region), bool)
    begin, finish = trace.events.start[known], trace.events.end[known]
    launches = np.searchsorted(launched, finish) - np.searchsorted(launched, begin)
    alone: Mask = (region >= 0) & (launches == 0) & (finish - begin >= OWN_REGION_NS)
    return alone


def _charge_blockers(
    trace: Trace,
    threads: Threads,
    waits: Blockers,
    pieces: _Pieces,
    cause: npt.NDArray[np.uint8],
    event: I64,
) -> None:
    """Launch time after a blocking call belongs to that call, as far as the CPU had been ahead when it blocked."""
    follows = (
        (waits.call >= 0)[pieces.gap] & (cause == Cause.LAUNCH) & (pieces.start < waits.until[pieces.gap])
    )
    names = trace.events.name[np.maximum(waits.call, 0)]
    allocates = (threads.call_class[names] == Call.ALLOCATE)[pieces.gap]
    cause[follows & allocates] = Cause.ALLOCATOR
    cause[follows & ~allocates] = Cause.SYNCHRONIZATION
    event[follows] = waits.call[pieces.gap[follows]]


def _dependency_reasons(
    trace: Trace, gaps: _Gaps, culprits: Culprits, same_graph: Mask
) -> npt.NDArray[np.int32]:
    following = np.maximum(gaps.next_operation, 0)
    in_graph = trace.attribute(Attribute.GRAPH_NODE, following) != 0 if len(trace.events) else same_graph
    short = gaps.end - gaps.start < START_UP_NS
    collective = np.isin(gaps.next_operation, trace.collective_kernels)
    copy = trace.events.kind[following] == EventKind.MEMCPY if len(trace.events) else same_graph
    return np.select(
        [same_graph | in_graph, short, collective, copy],
        [
            culprits.named("between the kernels of a CUDA graph"),
            culprits.named("starting kernels that were already queued"),
            culprits.named(QUEUED_COLLECTIVE),
            culprits.named(QUEUED_COPY),
        ],
        default=culprits.named(QUEUED_BEHIND),
    ).astype(np.int32)


def _table(
    device: int,
    start: I64,
    end: I64,
    cause: npt.NDArray[np.uint8],
    culprit: npt.NDArray[np.int32],
    event: I64,
    next_operation: I64,
    culprits: Culprits,
) -> IdleTable:
    return IdleTable(
        start,
        end,
        np.full(len(start), device, np.int64),
        cause,
        culprit.astype(np.int32),
        event,
        next_operation,
        culprits.names,
    )


def _joined(table: IdleTable) -> IdleTable:
    """Adjacent rows of one gap with the same cause and culprit become one row."""
    if not len(table):
        return table
    same = (
        (table.start[1:] == table.end[:-1])
        & (table.next_operation[1:] == table.next_operation[:-1])
        & (table.cause[1:] == table.cause[:-1])
        & (table.culprit[1:] == table.culprit[:-1])
    )
    first = np.flatnonzero(np.concatenate(([True], ~same)))
    last = np.append(first[1:] - 1, len(table) - 1)
    return IdleTable(
        table.start[first],
        table.end[last],
        table.device[first],
        table.cause[first],
        table.culprit[first],
        table.event[first],
        table.next_operation[first],
        table.culprits,
    )


def joined_tables(tables: list[IdleTable]) -> IdleTable:
    """The tables of several devices as one, in the order given."""
    names: dict[str, int] = {}
    columns = []
    for table in tables:
        places = np.array([names.setdefault(name, len(names)) for name in table.culprits], np.int32)
        columns.append(places[table.culprit] if len(table) else np.empty(0, np.int32))

    return IdleTable(
        _end_to_end([table.start for table in tables]),
        _end_to_end([table.end for table in tables]),
        _end_to_end([table.device for table in tables]),
        np.concatenate([table.cause for table in tables]) if tables else np.empty(0, np.uint8),
        np.concatenate(columns).astype(np.int32) if columns else np.empty(0, np.int32),
        _end_to_end([table.event for table in tables]),
        _end_to_end([table.next_operation for table in tables]),
        tuple(names),
    )


def _end_to_end(parts: list[I64]) -> I64:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
