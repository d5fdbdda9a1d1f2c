"""Attributes every idle interval of a GPU to what the CPU did meanwhile: cause by cause, with the culprit's name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from parsers.model import BOOL, I32, I64, U8, Array, Attribute, EventKind, Progress, Trace, derived
from parsers.model.arrays import among
from parsers.model.events import of_kinds
from parsers.model.late import dataclass
from parsers.model.names.calls import BLOCKING, WORK_CALLS, Call, calls_of
from parsers.model.names.kernels import is_migration
from parsers.model.threads import side_by_side
from rules.analysis.arithmetic.intervals import Intervals, complement, contains, durations
from rules.analysis.idle.blocking import Blockers, blockers, prefetches
from rules.analysis.idle.causes import Cause, IdleTable, busy_of
from rules.analysis.idle.culprits import Culprits
from rules.analysis.idle.interruptions import SOMETHING_ELSE
from rules.analysis.idle.pieces import Gaps, Host, Pieces, gaps_of, pieces_of
from rules.analysis.idle.threads import Threads
from rules.analysis.steps.first_use import LONG_CALL_NS
from rules.terms import Culprit, Thresholds, Unit, reason, threshold

HOST_STRETCH_NS = threshold(
    "launch-pause",
    "a pause between launches counts as Python's, not as launch cost, from this length",
    Unit.TIME,
    500_000,
    least=20_000,
    most=50_000_000,
    source="a launch costs about 10 us, an operator 50 us",
)
OWN_REGION_NS = 100_000  # a region that launches nothing and lasts longer is a cause of its own
INPUT_STRETCH_NS = 50_000  # shorter pauses in an input region that launches work are the cost of launching
QUEUED_BEHIND = reason("queued behind an event or another stream")
QUEUED_COLLECTIVE, QUEUED_COPY = reason("a queued collective"), reason("a queued copy")
BETWEEN_NODES = reason("between the kernels of a CUDA graph")
WAIT_IN_GRAPH = reason("a wait in the launch of a CUDA graph")
STARTING = reason("starting kernels that were already queued")
NOT_RECORDED = reason("nothing of this rank was recorded then")
NO_LAUNCH = reason("the operation has no launch record")
TOUCHES_PAGES = reason("CPU code that touches unified memory")
IN_PIECES = reason("unified memory that moves in pieces")
NO_LINKS = reason("no call was linked to a GPU operation")
NO_OPERATION = reason("no GPU operation")
# starting a graph's next kernel takes microseconds: this waits for something else
LONG_IN_GRAPH_NS = 1_000_000
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
    interrupted: Intervals,
    beyond: tuple[int, int] | None = None,
) -> tuple[IdleTable, IdleTable]:
    """The idle time of one device inside the window [start, end), attributed; and that of all that is ``beyond``.

    This holds the window, which then holds all of the device's operations; it is the window where it is not stated.
    ``interrupted`` is when something else had the CPU of one of its threads.
    """
    progress.step(0.0, "finding where the GPU idles")
    operations, busy = trace.operations_of_device(device), busy_of(trace, device)
    recorded = _recorded(trace, trace.devices[device].rank, is_one_of_many=beyond is not None)
    idle = _cut(complement(busy, *window), recorded)
    gaps = gaps_of(trace, device, idle if beyond is None else _with_outer(idle, busy, beyond, recorded))
    drivers, main = threads.drivers(device)
    culprits = Culprits(trace, threads, main)
    if not drivers:
        cause = np.full(len(gaps), Cause.UNKNOWN, np.uint8)
        names = np.full(len(gaps), culprits.index_of(NO_LINKS if len(operations) else NO_OPERATION), np.int32)
        none = np.full(len(gaps), -1, np.int64)
        found = _table(device, gaps.start, gaps.end, cause, names, none, gaps.next_operation, culprits.found)
        return _without_outer(found, busy, beyond)
    for number, thread in enumerate(drivers):
        threads.activity(thread).prepare(
            progress.part(0.4 * number / len(drivers), 0.4 * (number + 1) / len(drivers))
        )
    progress.step(0.4, "looking for calls that wait")
    waits = blockers(trace, threads, drivers, gaps.start)
    progress.step(0.45, "looking for calls that wait")
    host = Host.of(threads, drivers, main, waits, thresholds[HOST_STRETCH_NS], interrupted)
    rows, slices = _Rows(len(gaps)), list(host.slices(gaps))
    progress.step(0.5, "finding what kept the GPU waiting")

    def attributed(which: slice) -> IdleTable:
        return _attributed(host, device, gaps.part(which), waits.part(which), culprits, recorded)

    for which, table in zip(slices, side_by_side(attributed, slices, len(gaps)), strict=True):
        rows.add(table)
        progress.step(0.5 + 0.5 * which.stop / len(gaps), "finding what kept the GPU waiting")
    all_names, place = culprits.in_order()
    return _without_outer(rows.table(place, all_names), busy, beyond)


def _with_outer(
    idle: Intervals, busy: Intervals, beyond: tuple[int, int], recorded: tuple[int, int]
) -> Intervals:
    """Idle intervals, and before and behind them what lies between operations and the ends of what is ``beyond``."""
    before, behind = (
        _cut(complement(busy, beyond[0], int(busy[0][0])), recorded),
        _cut(complement(busy, int(busy[1][-1]), beyond[1]), recorded),
    )
    return np.concatenate((before[0], idle[0], behind[0])), np.concatenate((before[1], idle[1], behind[1]))


def _without_outer(
    table: IdleTable, busy: Intervals, beyond: tuple[int, int] | None
) -> tuple[IdleTable, IdleTable]:
    """The rows of the window, and those of what is ``beyond`` it, of rows of what ``_with_outer`` gives."""
    if beyond is None:
        return table, table
    first, last = int(busy[0][0]), int(busy[1][-1])
    count = len(table)
    begin = int(np.argmax(table.end >= first)) + 1 if beyond[0] < first else 0
    finish = int(np.flatnonzero(table.start == last)[-1]) if last < beyond[1] else count
    inside = np.arange(begin, finish)
    between = inside[(table.start[inside] >= first) & (table.end[inside] <= last)]
    return _rows(table, inside), _rows(
        table, np.concatenate((np.arange(begin), between, np.arange(finish, count)))
    )


def _recorded(trace: Trace, rank: int | None, *, is_one_of_many: bool) -> tuple[int, int]:
    """From the first to the last event of a rank; without end where no other one is recorded, here or elsewhere."""
    mine = trace.lane_rank == rank
    if rank is None or mine.all():
        if not is_one_of_many:
            return 0, np.iinfo(np.int64).max
        mine[:] = True
    table = trace.events
    lanes = [table.spans(table.lane_slice(lane)) for lane in np.flatnonzero(mine).tolist()]
    spans = [(int(start.min()), int(end.max())) for start, end in lanes if len(start)]
    return (min(first for first, _ in spans), max(last for _, last in spans)) if spans else (0, 0)


def _cut(intervals: Intervals, times: tuple[int, ...]) -> Intervals:
    """The same intervals, those around one of these times in two."""
    start, end = intervals
    cuts = np.array(times, np.int64)
    cuts = cuts[contains(intervals, cuts) & ~among(cuts, start)]
    return np.sort(np.append(start, cuts)), np.sort(np.append(end, cuts))


def _attributed(
    host: Host, device: int, gaps: Gaps, waits: Blockers, culprits: Culprits, recorded: tuple[int, int]
) -> IdleTable:
    """The idle time of some neighbouring gaps."""
    pieces = pieces_of(host, gaps)
    cause, names, event = _causes(host, culprits, gaps, waits, pieces, recorded)
    next_operation = gaps.next_operation[pieces.gap]
    return _joined(_table(device, pieces.start, pieces.end, cause, names, event, next_operation))


def _causes(
    host: Host, culprits: Culprits, gaps: Gaps, waits: Blockers, pieces: Pieces, recorded: tuple[int, int]
) -> tuple[U8, I32, I64]:
    """Cause, culprit and the culprit's event of each piece: the tables of docs/idle-time.md, in their order."""
    events, around = host.threads.trace.events, _Surroundings.of(host, pieces)
    doing, event = _first(_what_the_cpu_does(host, pieces, waits, around), Cause.LAUNCH, around.innermost)

    queued = (gaps.launch >= 0) & (events.end[np.maximum(gaps.launch, 0)] <= gaps.start)
    unlinked = ((gaps.launch < 0) & (gaps.next_operation >= 0))[pieces.gap]
    names_page = migrations(host.threads.trace)[events.name[np.maximum(gaps.next_operation, 0)]]
    moves, called = unlinked & names_page[pieces.gap], pieces.call >= 0
    moved, asked = moves & ~called, moves & called
    arrived = pieces.start >= gaps.arrival[pieces.gap]
    waited = arrived & (gaps.end - gaps.arrival >= START_UP_NS)[pieces.gap]
    depends = waited | (queued | gaps.same_launch)[pieces.gap]
    nobody = np.full(len(event), -1, np.int64)
    outside = (pieces.start < recorded[0]) | (pieces.start >= recorded[1])
    cause, event = _first(
        (
            _Row("nothing of its rank was recorded", outside, Cause.UNKNOWN, nobody),
            _Row("a page of unified memory moved", moved, Cause.HOST, nobody),
            _Row("memory that a call has moved", asked, Cause.DEPENDENCY, nobody),
            _Row("no record of what launched it", unlinked, Cause.UNKNOWN, nobody),
            _Row("launched early enough", depends, Cause.DEPENDENCY, nobody),
            _Row("just launched", arrived & ~of_kinds(doing, Cause.SYNCHRONIZATION), Cause.LAUNCH, event),
        ),
        doing,
        event,
    )
    names = culprits.of(cause, event, pieces.call, around.region, around.operator, pieces.start, pieces.end)
    reasons = _dependency_reasons(host.threads.trace, gaps, culprits)
    names = np.where(depends, reasons[pieces.gap], names)
    names = np.where(unlinked, culprits.index_of(NO_LAUNCH), names)
    names = np.where(moved, culprits.index_of(TOUCHES_PAGES), names)
    names = np.where(asked, culprits.index_of(IN_PIECES), names)
    names = np.where(outside, culprits.index_of(NOT_RECORDED), names)
    stopped = of_kinds(cause, Cause.LAUNCH) & contains(host.interrupted, pieces.start)
    names = np.where(stopped, culprits.index_of(SOMETHING_ELSE), names)
    return cause, names.astype(np.int32), event


@derived
def migrations(trace: Trace) -> BOOL:
    """For each string, whether it names a move of a page of unified memory."""
    return np.fromiter(map(is_migration, trace.strings), bool, len(trace.strings))


class _Row(NamedTuple):
    """One line of a table of causes: its name there, where it holds, the cause then, and whose doing that is."""

    name: str
    holds: BOOL
    cause: Cause
    event: I64


def _first(rows: Sequence[_Row], otherwise: Cause | U8, event: I64) -> tuple[U8, I64]:
    """Cause and event by the first line that holds."""
    causes, events = np.empty(len(event), np.uint8), event.copy()
    causes[:] = otherwise
    for row in reversed(rows):
        np.copyto(causes, int(row.cause), where=row.holds, casting="unsafe")
        np.copyto(events, row.event, where=row.holds)
    return causes, events


@dataclass(frozen=True, slots=True, eq=False)
class _Surroundings:
    """The innermost events around each piece, on the thread that the GPU waited for, else the main one; -1: none."""

    region: I64
    input: I64
    read_back: I64
    operator: I64

    @property
    def innermost(self) -> I64:
        return np.where(self.region >= 0, self.region, self.operator)

    @staticmethod
    def of(host: Host, pieces: Pieces) -> _Surroundings:
        region, input_, read_back, operator = (np.full(len(pieces.start), -1, np.int64) for _ in range(4))
        for number in host.drivers:
            mine = np.flatnonzero(pieces.thread == number)
            activity, at = host.threads.activity(number), pieces.start[mine]
            region[mine] = activity.user_regions.at(at)
            input_[mine] = activity.inputs.at(at)
            read_back[mine] = activity.read_backs.at(at)
            operator[mine] = activity.operators.at(at)
        of_main = host.threads.activity(host.main)
        for found, lanes in ((region, of_main.user_regions), (input_, of_main.inputs)):
            lacking = np.flatnonzero((found < 0) & (pieces.thread != host.main))
            found[lacking] = lanes.at(pieces.start[lacking])
        return _Surroundings(region, input_, read_back, operator)


def _what_the_cpu_does(
    host: Host, pieces: Pieces, waits: Blockers, around: _Surroundings
) -> tuple[_Row, ...]:
    """Why the CPU launches nothing during each piece; where no line holds, it is launching."""
    threads, trace, call = host.threads, host.threads.trace, pieces.call
    known = np.maximum(call, 0)
    call_class = np.where(call < 0, np.uint8(Call.OTHER), threads.call_class[trace.events.name[known]])
    takes_long = np.where(call < 0, 0, durations(trace, known)) >= LONG_CALL_NS
    calling = (call >= 0) & _WORKS[call_class]
    copies = _COPIES[call_class] & takes_long & ~prefetches(trace)[trace.events.name[known]]
    long_call = (call >= 0) & takes_long & ~_BLOCKS[call_class] & ~copies
    reads_back = (around.read_back >= 0) | among(call, host.read_backs)
    reading = np.where(around.read_back >= 0, around.read_back, call)

    stretch = host.stretch(pieces)
    own_input = _launches_nothing(trace, around.input, host.launched)
    feeds = (around.input >= 0) & ~calling & ((stretch >= INPUT_STRETCH_NS) | own_input)
    own_region = _launches_nothing(trace, around.region, host.launched)
    elsewhere = ((stretch >= host.launch_pause) | own_region) & ~calling

    blocker = waits.call[pieces.gap]
    after_it = (blocker >= 0) & (pieces.start < waits.until[pieces.gap])
    stopped = contains(host.interrupted, pieces.start)
    allocated = of_kinds(threads.call_class[trace.events.name[np.maximum(blocker, 0)]], Call.ALLOCATE)
    return (
        _Row(
            "inside a call that waits, or a long copy",
            of_kinds(call_class, Call.SYNCHRONIZE) | copies,
            Cause.SYNCHRONIZATION,
            reading,
        ),
        _Row("inside an allocation", of_kinds(call_class, Call.ALLOCATE), Cause.ALLOCATOR, call),
        _Row("reading a value back", reads_back, Cause.SYNCHRONIZATION, reading),
        _Row("waiting for input", feeds, Cause.INPUT, around.input),
        _Row("interrupted by something else on its CPU", stopped, Cause.LAUNCH, around.innermost),
        _Row("inside a slow launch or query", long_call, Cause.HOST, call),
        _Row("busy with something that launches nothing", elsewhere, Cause.HOST, around.innermost),
        _Row("after an allocation that waited", after_it & allocated, Cause.ALLOCATOR, blocker),
        _Row("after a call that waited", after_it, Cause.SYNCHRONIZATION, blocker),
    )


def _launches_nothing(trace: Trace, region: I64, launched: I64) -> BOOL:
    """Whether each piece's region lasts long enough to matter and contains no launch at all."""
    if not (region >= 0).any():
        return np.zeros(len(region), bool)
    first = np.append(True, region[1:] != region[:-1])  # pieces that follow each other share a region
    of_run = np.cumsum(first) - 1
    region = region[first]
    known = np.maximum(region, 0)
    begin, finish = trace.events.spans(known)
    launches = np.searchsorted(launched, finish) - np.searchsorted(launched, begin)
    alone = (region >= 0) & (launches == 0) & (finish - begin >= OWN_REGION_NS)
    return np.asarray(alone[of_run])


def _dependency_reasons(trace: Trace, gaps: Gaps, culprits: Culprits) -> I32:
    following = np.maximum(gaps.next_operation, 0)
    in_graph = trace.attribute(Attribute.GRAPH_NODE, following) != 0
    short = gaps.end - gaps.start < START_UP_NS
    collective = among(gaps.next_operation, trace.collective_kernels)
    copy = of_kinds(trace.events.kind[following], EventKind.MEMCPY)
    launch = np.maximum(gaps.launch, 0)
    by_graph = (gaps.launch >= 0) & of_kinds(calls_of(trace)[trace.events.name[launch]], Call.GRAPH_LAUNCH)
    long = gaps.end - gaps.start >= LONG_IN_GRAPH_NS
    return np.select(
        [(gaps.same_launch | in_graph) & ~long, by_graph & long, short, collective, copy],
        [
            culprits.index_of(BETWEEN_NODES),
            culprits.index_of(WAIT_IN_GRAPH),
            culprits.index_of(STARTING),
            culprits.index_of(QUEUED_COLLECTIVE),
            culprits.index_of(QUEUED_COPY),
        ],
        default=culprits.index_of(QUEUED_BEHIND),
    ).astype(np.int32)


def _table(
    device: int,
    start: I64,
    end: I64,
    cause: U8,
    culprit: I32,
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
    return replace(_rows(table, first), end=table.end[last])


def _rows(table: IdleTable, which: I64) -> IdleTable:
    return IdleTable(
        table.start[which],
        table.end[which],
        table.device[which],
        table.cause[which],
        table.culprit[which],
        table.event[which],
        table.next_operation[which],
        table.culprits,
    )


class _Rows:
    """Tables one after the other, each copied at once: many small ones would leave memory in pieces."""

    def __init__(self, expected: int) -> None:
        self._count = 0
        room = expected + expected // 4  # what is never written to takes no memory
        self._columns: dict[str, Array] = {
            "start": np.empty(room, np.int64),
            "end": np.empty(room, np.int64),
            "device": np.empty(room, np.int64),
            "cause": np.empty(room, np.uint8),
            "culprit": np.empty(room, np.int32),
            "event": np.empty(room, np.int64),
            "next_operation": np.empty(room, np.int64),
        }

    def add(self, table: IdleTable) -> None:
        """Put the rows of a table behind those that are there."""
        first, self._count = self._count, self._count + len(table)
        for name, column in self._columns.items():
            if len(column) < self._count:
                larger = np.empty(2 * self._count, column.dtype)
                larger[:first] = column[:first]
                self._columns[name] = column = larger
            column[first : self._count] = getattr(table, name)

    def table(self, place: I32, names: tuple[Culprit, ...]) -> IdleTable:
        """All rows, whose culprits ``names`` has at these places."""
        columns: dict[str, Any] = {name: column[: self._count] for name, column in self._columns.items()}
        return IdleTable(**{**columns, "culprit": place[columns["culprit"]]}, culprits=names)


def joined_tables(tables: Sequence[IdleTable]) -> IdleTable:
    """The tables of several devices as one, in the order given."""
    if len(tables) == 1:
        return tables[0]
    names: dict[Culprit, int] = {}
    rows = _Rows(sum(map(len, tables)))
    for table in tables:
        places = np.array([names.setdefault(name, len(names)) for name in table.culprits], np.int32)
        rows.add(replace(table, culprit=places[table.culprit]))
    return rows.table(np.arange(len(names), dtype=np.int32), tuple(names))
