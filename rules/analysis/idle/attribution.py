"""Attributes every idle interval of a GPU to what the CPU did meanwhile: cause by cause, with the culprit's name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from parsers.model import Attribute, EventKind, Progress, Trace
from rules.analysis.arithmetic.ascending_search import among
from rules.analysis.arithmetic.durations import durations
from rules.analysis.arithmetic.intervals import complement, union
from rules.analysis.idle.blocking import Blockers, blockers
from rules.analysis.idle.causes import Cause, IdleTable
from rules.analysis.idle.culprits import Culprits
from rules.analysis.idle.pieces import Gaps, Host, Pieces, gaps_of, pieces_of
from rules.analysis.idle.threads import Threads
from rules.analysis.names.calls import BLOCKING, WORK_CALLS, Call
from rules.culprit import Culprit, reason
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
OWN_REGION_NS = 100_000  # a region that launches nothing and lasts longer is a cause of its own
INPUT_STRETCH_NS = 50_000  # shorter pauses in an input region that launches work are the cost of launching
LONG_CALL_NS = 1_000_000  # a launch or query that takes longer loads code or waits for the driver
QUEUED_BEHIND = reason("queued behind an event or another stream")
QUEUED_COLLECTIVE, QUEUED_COPY = reason("a queued collective"), reason("a queued copy")
_BETWEEN_NODES = reason("between the kernels of a CUDA graph")
_STARTING = reason("starting kernels that were already queued")
_NO_LAUNCH = reason("the operation has no launch record")
_NO_LINKS = reason("no call was linked to a GPU operation")
_NO_OPERATION = reason("no GPU operation")
START_UP_NS = 100_000  # from the launch call to the operation's start; longer: it waited for something else

_CLASSES = np.arange(len(Call))
_WORKS, _COPIES, _BLOCKS = (
    np.isin(_CLASSES, which) for which in (WORK_CALLS, (Call.COPY, Call.BLOCKING_COPY), BLOCKING)
)


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
    operations = trace.operations_of_device(device)
    busy = union(trace.events.start[operations], trace.events.end[operations])
    gaps = gaps_of(trace, device, complement(busy, *window))
    culprits = Culprits(trace, threads)
    drivers, main = threads.drivers(device)
    if not drivers:
        cause = np.full(len(gaps), Cause.UNKNOWN, np.uint8)
        names = np.full(
            len(gaps), culprits.index_of(_NO_LINKS if len(operations) else _NO_OPERATION), np.int32
        )
        none = np.full(len(gaps), -1, np.int64)
        return _table(device, gaps.start, gaps.end, cause, names, none, gaps.next_operation, culprits.found)
    for number, thread in enumerate(drivers):
        threads.activity(thread).prepare(
            progress.part(0.4 * number / len(drivers), 0.4 * (number + 1) / len(drivers))
        )
    progress.step(0.4, "looking for calls that wait")
    waits = blockers(trace, threads, drivers, gaps.start)
    progress.step(0.45, "looking for calls that wait")
    host = Host.of(threads, drivers, main, waits, thresholds[HOST_STRETCH_NS])
    tables = []
    for which in host.slices(gaps):
        progress.step(0.5 + 0.5 * which.start / len(gaps), "finding what kept the GPU waiting")
        tables.append(_attributed(host, device, gaps.part(which), waits.part(which), culprits))
    all_names, place = culprits.in_order()
    return _end_to_end(tables, [place[table.culprit] for table in tables], all_names)


def _attributed(host: Host, device: int, gaps: Gaps, waits: Blockers, culprits: Culprits) -> IdleTable:
    """The idle time of some neighbouring gaps."""
    pieces = pieces_of(host, gaps)
    cause, names, event = _causes(host, culprits, gaps, waits, pieces)
    next_operation = gaps.next_operation[pieces.gap]
    return _joined(_table(device, pieces.start, pieces.end, cause, names, event, next_operation))


def _causes(
    host: Host, culprits: Culprits, gaps: Gaps, waits: Blockers, pieces: Pieces
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32], I64]:
    threads, trace, call = host.threads, host.threads.trace, pieces.call
    events = trace.events
    count = len(pieces.start)
    region, input_, read_back, operator = (np.full(count, -1, np.int64) for _ in range(4))
    for number in host.drivers:
        mine = np.flatnonzero(pieces.thread == number)
        activity, at = threads.activity(number), pieces.start[mine]
        region[mine] = activity.user_regions.at(at)
        input_[mine] = activity.inputs.at(at)
        read_back[mine] = activity.read_backs.at(at)
        operator[mine] = activity.operators.at(at)
    of_main = threads.activity(host.main)
    for found, lanes in ((region, of_main.user_regions), (input_, of_main.inputs)):
        lacking = np.flatnonzero((found < 0) & (pieces.thread != host.main))
        found[lacking] = lanes.at(pieces.start[lacking])

    stretch = host.stretch(pieces)
    known = np.maximum(call, 0)
    call_class = np.where(call < 0, np.uint8(Call.OTHER), threads.call_class[events.name[known]])
    call_time = np.where(call < 0, 0, durations(trace, known))
    calling = (call >= 0) & _WORKS[call_class]
    copying = _COPIES[call_class] & (call_time >= LONG_CALL_NS)
    long_call = (call >= 0) & (call_time >= LONG_CALL_NS) & ~_BLOCKS[call_class] & ~copying

    pause = stretch >= host.launch_pause
    own_region = _launches_nothing(trace, region, host.launched) & ~calling
    own_input = _launches_nothing(trace, input_, host.launched)

    cause = np.full(count, Cause.LAUNCH, np.uint8)
    cause[(pause & ~calling) | own_region | long_call] = Cause.HOST
    cause[(input_ >= 0) & ~calling & ((stretch >= INPUT_STRETCH_NS) | own_input)] = Cause.INPUT
    cause[(read_back >= 0) | among(call, host.read_backs)] = Cause.SYNCHRONIZATION
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
    dependent = waited | (queued | same_graph)[pieces.gap]
    unlinked = ((gaps.launch < 0) & (gaps.next_operation >= 0))[pieces.gap]
    cause[started & (cause != Cause.SYNCHRONIZATION)] = Cause.LAUNCH
    cause[dependent] = Cause.DEPENDENCY
    cause[unlinked] = Cause.UNKNOWN

    names = culprits.of(cause, event, call, region, operator, pieces.start, pieces.end, host.main)
    reasons = _dependency_reasons(trace, gaps, culprits, same_graph)
    names = np.where(dependent, reasons[pieces.gap], names)
    names = np.where(unlinked, culprits.index_of(_NO_LAUNCH), names)
    event = np.where(dependent | unlinked, -1, event)
    return cause, names.astype(np.int32), event


def _launches_nothing(trace: Trace, region: I64, launched: I64) -> Mask:
    """Whether each piece's region lasts long enough to matter and contains no launch at all."""
    if not (region >= 0).any():
        return np.zeros(len(region), bool)
    first = np.append(True, region[1:] != region[:-1])  # pieces that follow each other share a region
    of_run = np.cumsum(first) - 1
    region = region[first]
    known = np.maximum(region, 0)
    begin, finish = trace.events.start[known], trace.events.end[known]
    launches = np.searchsorted(launched, finish) - np.searchsorted(launched, begin)
    alone = (region >= 0) & (launches == 0) & (finish - begin >= OWN_REGION_NS)
    return np.asarray(alone[of_run])


def _charge_blockers(
    trace: Trace,
    threads: Threads,
    waits: Blockers,
    pieces: Pieces,
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
    trace: Trace, gaps: Gaps, culprits: Culprits, same_graph: Mask
) -> npt.NDArray[np.int32]:
    following = np.maximum(gaps.next_operation, 0)
    in_graph = trace.attribute(Attribute.GRAPH_NODE, following) != 0
    short = gaps.end - gaps.start < START_UP_NS
    collective = among(gaps.next_operation, trace.collective_kernels)
    copy = trace.events.kind[following] == EventKind.MEMCPY
    return np.select(
        [same_graph | in_graph, short, collective, copy],
        [
            culprits.index_of(_BETWEEN_NODES),
            culprits.index_of(_STARTING),
            culprits.index_of(QUEUED_COLLECTIVE),
            culprits.index_of(QUEUED_COPY),
        ],
        default=culprits.index_of(QUEUED_BEHIND),
    ).astype(np.int32)


def _table(
    device: int,
    start: I64,
    end: I64,
    cause: npt.NDArray[np.uint8],
    culprit: npt.NDArray[np.int32],
    event: I64,
    next_operation: I64,
    names: tuple[Culprit, ...] = (),
) -> IdleTable:
    return IdleTable(
        start, end, np.full(len(start), device, np.int64), cause, culprit, event, next_operation, names
    )


def _joined(table: IdleTable) -> IdleTable:
    """Adjacent rows of one gap with the same cause and culprit become one row."""
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


def joined_tables(tables: Sequence[IdleTable]) -> IdleTable:
    """The tables of several devices as one, in the order given."""
    names: dict[Culprit, int] = {}
    columns = []
    for table in tables:
        places = np.array([names.setdefault(name, len(names)) for name in table.culprits], np.int32)
        columns.append(places[table.culprit] if len(table) else np.empty(0, np.int32))
    return _end_to_end(tables, columns, tuple(names))


def _end_to_end(
    tables: Sequence[IdleTable], culprit: Sequence[npt.NDArray[np.int32]], names: tuple[Culprit, ...]
) -> IdleTable:
    none = np.empty(0, np.int64)
    return IdleTable(
        np.concatenate([none, *(table.start for table in tables)]),
        np.concatenate([none, *(table.end for table in tables)]),
        np.concatenate([none, *(table.device for table in tables)]),
        np.concatenate([none.astype(np.uint8), *(table.cause for table in tables)]),
        np.concatenate([none.astype(np.int32), *culprit]),
        np.concatenate([none, *(table.event for table in tables)]),
        np.concatenate([none, *(table.next_operation for table in tables)]),
        names,
    )
