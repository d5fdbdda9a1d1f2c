"""What the GPUs did, as columns: each operation with its launch, its latency and what it had to wait for."""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL, F64, I64, EventKind
from parsers.model.arrays import (
    among,
    distinct_rows,
    distinct_values,
    numbered_values,
    percentile_of,
    place_in,
    rows_by,
    without,
)
from parsers.model.events import of_kinds
from parsers.model.late import dataclass
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import length, union
from rules.replay.host import HostNodes
from rules.replay.spans import Span
from rules.terms import MAJORITY

# of the latencies on idle streams: what a launch takes when nothing else delays it
IDLE_LATENCY_PERCENTILE = 10
USUAL_LATENCY_NS, MAX_LATENCY_NS = 7_000.0, 20_000.0  # measured latencies lie between 5 and 9 us
ENOUGH_IDLE = 10  # launches onto an idle stream: of fewer no percentile is taken
HELD_NS = 2_000  # an operation that starts later than this after all that is known waits for another stream
HANDED_OVER_NS = 12_000  # from the end of what another stream waited for to the start there, ...
HANDED_OVER_SHARE = 0.1  # ... or this part of the time for which it was held, when that is more
LAST_BLOCKS = 0.3  # of a kernel: a collective that is held and starts in it had no room before
SAME_MESSAGE_NS = 200_000  # between the ends of a send and its receive on another rank's clock
NEIGHBOURS = 16  # messages that end about when this one does, at most
NONE = -1


@dataclass(frozen=True, slots=True, eq=False)
class DeviceNodes:
    """Operations of all streams, by stream and start; a CUDA graph is one operation. Times in ns.

    An operation starts ``extra`` after the latest of: its launch's start + ``latency``, the end of the one before it
    on its stream, and the ends of what it depends on. Where the last blocks of that one still ran, it starts with
    ``left`` of its duration to go.
    """

    event: I64  # the (first) operation's event
    stream: I64  # ascending
    lane: I64
    device: I64
    span: I64  # the span its launch belongs to
    launch: I64  # host node
    start: I64
    end: I64
    latency: F64
    extra: F64
    duration: F64
    alone: F64  # the part of a kernel's time in which its device ran no other one: 1 where kernels take turns
    depends: I64  # a column of operations that another one waits for ...
    dependent: I64  # ... and of those that wait
    left: F64  # part of the former's duration, for each such pair
    meeting: I64  # number of the collective that it takes part in; NONE
    members: I64  # event of each recorded operation, ...
    member_of: I64  # ... and the node that it belongs to
    initial: F64  # for each stream: when it finished what was launched before; -inf where there was nothing

    def __len__(self) -> int:
        return len(self.event)

    @property
    def streams(self) -> int:
        return len(self.initial)


def device_nodes(analysis: Analysis, spans: tuple[Span, ...], host: HostNodes) -> DeviceNodes:
    """The operations that the host nodes launched."""
    trace = analysis.trace
    operations, nodes, spans_of, before = [], [], [], []
    for number, span in enumerate(spans):
        mine = _node_of_event(trace.events.start, host, number)
        for number_of_device in span.devices:
            found = trace.operations_of_device(number_of_device)
            node = _launching_nodes(analysis, host, number_of_device, mine)
            operations.append(found[node >= 0])
            nodes.append(node[node >= 0])
            spans_of.append(np.full(np.count_nonzero(node >= 0), number))
            before.append(found[node < 0])
    every = np.concatenate(operations) if operations else np.empty(0, np.int64)
    launch = np.concatenate(nodes) if nodes else np.empty(0, np.int64)
    span_of = np.concatenate(spans_of) if spans_of else np.empty(0, np.int64)
    every, launch, span_of, members, member_of = _graphs_joined(analysis, every, launch, span_of)
    lane = trace.events.lane[every].astype(np.int64)
    start: I64 = trace.events.start[every]
    order = np.lexsort((start, lane))
    every, launch, span_of, lane = every[order], launch[order], span_of[order], lane[order]
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    member_of = place[member_of]
    lanes, stream = numbered_values(lane)
    start = trace.events.start[every]
    end = start.copy()
    np.maximum.at(end, member_of, trace.events.end[members])
    earlier = np.concatenate(before) if before else np.empty(0, np.int64)
    firsts = np.unique(stream, return_index=True)[1]
    initial = _finished_before(analysis, earlier, lanes, start[firsts].tolist())
    initial = _handed_over_before(
        analysis, earlier, lanes, start[firsts], host.start[launch[firsts]], initial
    )
    reach = _reach(stream, end, initial)
    start = np.maximum(start, reach).astype(np.int64)
    duration = np.maximum(end - start, 0)
    latency = _latency(host.start[launch], host.end[launch], start, reach, trace.lane_device[lane])
    ready = np.maximum(host.start[launch] + latency, reach)
    device = trace.lane_device[lane]
    communicates = analysis.trace.communicates[every]
    depends, dependent = _dependencies(
        analysis, host, launch, stream, device, start, end, ready, communicates
    )
    left = np.maximum(end[depends] - start[dependent], 0) / np.maximum(duration[depends], 1)
    if len(depends):
        np.maximum.at(ready, dependent, np.minimum(end[depends], start[dependent]).astype(np.float64))
    return DeviceNodes(
        event=every,
        stream=stream.astype(np.int64),
        lane=lane,
        device=device,
        span=span_of,
        launch=launch,
        start=start,
        end=np.maximum(end, start),
        latency=latency,
        extra=np.maximum(start - ready, 0.0),
        duration=duration.astype(np.float64),
        alone=_alone(
            device,
            start,
            end,
            ~communicates & ~of_kinds(trace.events.kind[every], EventKind.MEMCPY, EventKind.MEMSET),
        ),
        depends=depends,
        dependent=dependent,
        left=left,
        meeting=_meetings(analysis, every),
        members=members,
        member_of=member_of,
        initial=initial,
    )


def _alone(device: I64, start: I64, end: I64, computes: BOOL) -> F64:
    """For each operation that computes, the union of those of its device as a part of their sum; 0 for others."""
    found = np.zeros(len(device))
    for each in distinct_values(device).tolist():
        mine = computes & (device == each)
        whole = int((end - start)[mine].sum())
        found[mine] = length(union(start[mine], end[mine])) / max(whole, 1)
    return found


def _node_of_event(starts: I64, host: HostNodes, span: int) -> list[tuple[int, I64]]:
    """The logical threads of a span, with the starts of their nodes."""
    return [
        (thread, host.start[host.first[thread] : host.first[thread + 1]])
        for thread in np.flatnonzero(host.span_of_thread == span).tolist()
    ]


def _launching_nodes(analysis: Analysis, host: HostNodes, device: int, threads: list[tuple[int, I64]]) -> I64:
    """The host node around the call that launched each operation of a device; NONE where it lies outside the span."""
    table = analysis.trace.events
    launches = analysis.trace.launches_of_device(device)
    found = np.full(len(launches), NONE, np.int64)
    begins = [int(starts[0]) for _, starts in threads if len(starts)]
    finishes = [int(host.end[host.first[thread + 1] - 1]) for thread, starts in threads if len(starts)]
    if not begins:
        return found
    at = table.start[np.maximum(launches, 0)]
    known = np.flatnonzero((launches >= 0) & (at >= min(begins)) & (at <= max(finishes)))
    owner = analysis.threads.of_events(launches[known])
    at, until = table.spans(launches[known])
    for thread, starts in threads:
        mine = among(owner, np.sort(host.members[thread]))
        place = np.searchsorted(starts, at[mine], side="right") - 1
        inside = place >= 0
        node = host.first[thread] + np.maximum(place, 0)
        inside &= host.end[node] >= until[mine]
        found[known[mine]] = np.where(inside, node, NONE)
    return found


def _graphs_joined(
    analysis: Analysis, operations: I64, launch: I64, span: I64
) -> tuple[I64, I64, I64, I64, I64]:
    """Operations that one launch started together as one: first event, launch, span; and members with their owner."""
    start = analysis.trace.events.start[operations]
    order = np.lexsort((start, launch))
    first = np.append(True, launch[order][1:] != launch[order][:-1])[: len(order)]
    owner = np.cumsum(first) - 1
    firsts = order[first]
    return operations[firsts], launch[firsts], span[firsts], operations[order], owner


def _finished_before(analysis: Analysis, earlier: I64, lanes: I64, first: list[int]) -> F64:
    """When each lane finished the last operation that is not replayed and started before its first replayed one."""
    table = analysis.trace.events
    found = np.full(len(lanes), -np.inf)
    lane = table.lane[earlier]
    of_lane = dict(rows_by(lane))
    for place, (each, until) in enumerate(zip(lanes.tolist(), first, strict=True)):
        mine = earlier[of_lane.get(each, np.empty(0, np.int64))]
        mine = mine[table.start[mine] < until]
        if len(mine):
            found[place] = min(float(table.end[mine].max()), float(until))
    return found


def _handed_over_before(
    analysis: Analysis, earlier: I64, lanes: I64, start: I64, launched: I64, initial: F64
) -> F64:
    """The same, or when another lane of the device finished what each lane's first replayed operation waited for."""
    table, device = analysis.trace.events, analysis.trace.lane_device
    found = initial.copy()
    for place, (each, until, since) in enumerate(
        zip(lanes.tolist(), start.tolist(), launched.tolist(), strict=True)
    ):
        if until - max(found[place], float(since)) <= MAX_LATENCY_NS:
            continue
        ended = table.end[earlier[device[table.lane[earlier]] == device[each]]]
        ended = ended[(ended <= until) & (ended > until - HANDED_OVER_NS)]
        if len(ended):
            found[place] = max(found[place], float(ended.max()))
    return found


def _reach(stream: I64, end: I64, initial: F64) -> F64:
    """When each operation's stream had finished all before it."""
    found = np.empty(len(end))
    for each, mine in rows_by(stream):
        before = np.concatenate(([initial[each]], end[mine[:-1]].astype(np.float64)))
        found[mine] = np.maximum.accumulate(before)
    return found


def _latency(launched: I64, returned: I64, start: I64, reach: F64, device: I64) -> F64:
    """From the launch's start to the operation's on an idle stream, for each operation.

    What starts before its call returned, or as soon after as usual, was held up by the call alone.
    """
    whole = (start - launched).astype(np.float64)
    found = whole.copy()
    for each in distinct_values(device).tolist():
        mine = device == each
        idle = mine & (reach < launched)
        usual = USUAL_LATENCY_NS
        if np.count_nonzero(idle) >= ENOUGH_IDLE:
            usual = float(percentile_of(whole[idle], IDLE_LATENCY_PERCENTILE))
            usual = min(max(usual, 0.0), MAX_LATENCY_NS)
        since_free = start[mine] - reach[mine]
        with_its_call = (start[mine] <= returned[mine] + usual) & (since_free > HELD_NS)
        with_its_call &= since_free > MAJORITY * whole[mine]
        found[mine] = np.where(with_its_call, whole[mine], np.minimum(whole[mine], usual))
    return found


def _dependencies(
    analysis: Analysis,
    host: HostNodes,
    launch: I64,
    stream: I64,
    device: I64,
    start: I64,
    end: I64,
    ready: F64,
    communicates: BOOL,
) -> tuple[I64, I64]:
    """Pairs of operations of different streams of one device of which the second waits for the first."""
    pairs = [np.empty((0, 2), np.int64)]
    launched = host.start[launch]
    for each in distinct_values(device).tolist():
        mine = np.flatnonzero(device == each)
        if len(distinct_values(stream[mine])) < 2:
            continue
        held = mine[start[mine] - ready[mine] > HELD_NS]
        nearly = np.maximum(HANDED_OVER_NS, HANDED_OVER_SHARE * (start[held] - ready[held]))
        ended = _just_ended(mine, held, nearly, stream, start, end, launched)
        pairs.append(ended)
        at_once = start[ended[:, 1]] - end[ended[:, 0]] <= HANDED_OVER_NS
        left = without(held, ended[at_once | ~communicates[ended[:, 1]], 1])
        running = _still_running(mine[~communicates[mine]], left, stream, start, end)
        last, one = running[:, 0], running[:, 1]
        in_last_blocks = end[last] - start[one] <= LAST_BLOCKS * (end[last] - start[last])
        pairs.append(running[~communicates[one] | in_last_blocks])
        pairs.append(_event_waits(analysis, host, mine, launch, stream, start, end))
    found = distinct_rows(np.concatenate(pairs))
    return found[:, 0], found[:, 1]


def _just_ended(mine: I64, held: I64, nearly: F64, stream: I64, start: I64, end: I64, launched: I64) -> I64:
    """For each held operation the one on another stream that ended just before it started."""
    by_end = mine[np.argsort(end[mine], kind="stable")]
    at = np.searchsorted(end[by_end], start[held], side="right") - 1
    chosen = np.full(len(held), NONE, np.int64)
    for back in range(4):
        place = at - back
        candidate = by_end[np.maximum(place, 0)]
        fits = (
            (place >= 0)
            & (chosen < 0)
            & (stream[candidate] != stream[held])
            & (start[held] - end[candidate] <= nearly)
            & (launched[candidate] <= launched[held])
        )
        chosen[fits] = candidate[fits]
    return np.column_stack((chosen, held))[chosen >= 0]


def _still_running(mine: I64, held: I64, stream: I64, start: I64, end: I64) -> I64:
    """For each held operation the one on another stream in whose last blocks it started: there was no room before."""
    chosen = np.full(len(held), NONE, np.int64)
    for each, rows in rows_by(stream[mine]):
        others = mine[rows]
        at = np.searchsorted(start[others], start[held], side="left") - 1
        candidate = others[np.maximum(at, 0)]
        fits = (at >= 0) & (stream[held] != each) & (end[candidate] > start[held])
        longer = end[candidate] - start[candidate] > np.where(chosen >= 0, end[chosen] - start[chosen], 0)
        chosen[fits & longer] = candidate[fits & longer]
    return np.column_stack((chosen, held))[chosen >= 0]


def _event_waits(
    analysis: Analysis, host: HostNodes, mine: I64, launch: I64, stream: I64, start: I64, end: I64
) -> I64:
    """The operation launched after each StreamWaitEvent call, and the last one launched before it elsewhere."""
    trace = analysis.trace
    found = [np.empty((0, 2), np.int64)]
    for thread, rows in rows_by(host.thread[launch[mine]]):
        events = np.concatenate([analysis.threads.events(each) for each in host.members[thread]])
        events = trace.events.only(events, EventKind.API)
        waits = events[named(trace, events, lambda name: "StreamWaitEvent" in name)]
        own = mine[rows]
        own = own[np.argsort(launch[own], kind="stable")]
        times = np.sort(trace.events.start[waits])
        if not len(times) or not len(own):
            continue
        after = distinct_values(np.searchsorted(host.start[launch[own]], times, side="right"))
        after = after[(after > 0) & (after < len(own))]
        streams = stream[own]
        changes = np.concatenate(([0], np.cumsum(streams[1:] != streams[:-1])))
        last_of_run = np.append(np.flatnonzero(np.diff(changes)), len(own) - 1)
        before = after - 1
        same = streams[before] == streams[after]
        earlier_run = changes[before] - 1
        source = np.where(
            same, np.where(earlier_run >= 0, last_of_run[np.maximum(earlier_run, 0)], NONE), before
        )
        known = source >= 0
        first, second = own[np.maximum(source, 0)], own[after]
        known &= (stream[first] != stream[second]) & (end[first] <= start[second])
        found.append(np.column_stack((first, second))[known])
    return np.concatenate(found)


def _meetings(analysis: Analysis, events: I64) -> I64:
    """The number of the collective, or of the message, that each operation takes part in with other ranks."""
    found = np.full(len(events), NONE, np.int64)
    if len(analysis.trace.devices) < 2 or not len(analysis.trace.collective_kernels):
        return found
    from rules.analysis.ranks.recorded import ranks_of

    run = ranks_of(analysis).run
    columns = run.columns
    between_two = np.array([each in ("send", "recv") for each in columns.collective], bool)
    number = np.full(len(columns.event), NONE, np.int64)
    together = ~between_two[run.places]
    number[run.places[together]] = run.meetings.meeting[together]
    for sent, received in _messages(columns.collective, columns.bytes, columns.device, columns.end):
        number[[sent, received]] = len(run.meetings.size) + sent
    place = place_in(columns.event, events)
    found[place >= 0] = number[place[place >= 0]]
    values, counts = np.unique(found[found >= 0], return_counts=True)
    found[~np.isin(found, values[counts > 1])] = NONE
    return found


def _messages(collective: tuple[str, ...], size: I64, device: I64, end: I64) -> list[tuple[int, int]]:
    """Sends and the receives of other ranks that ended with them, each in one pair."""
    places = np.array([place for place, each in enumerate(collective) if each in ("send", "recv")], np.int64)
    places = places[np.argsort(end[places], kind="stable")]
    found, free = [], np.ones(len(places), bool)
    for first in range(len(places)):
        for second in range(first + 1, min(first + 1 + NEIGHBOURS, len(places))):
            one, other = int(places[first]), int(places[second])
            if end[other] - end[one] > SAME_MESSAGE_NS:
                break
            opposite = collective[one] != collective[other] and device[one] != device[other]
            if free[first] and free[second] and opposite and size[one] == size[other]:
                free[[first, second]] = False
                found.append((one, other))
    return found
