"""Where the CPU waits for the GPU: which calls return only after which operation."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from parsers.model import BOOL, F64, I64, U8, Attribute, CopyKind, MemoryKind, Trace
from parsers.model.arrays import distinct_values, median_of, rows_by
from parsers.model.events import of_kinds
from parsers.model.late import dataclass
from parsers.model.names.calls import WORK_CALLS, Call
from parsers.model.names.per_name import numbers_of
from rules.analysis.analysis import Analysis
from rules.replay.device import DeviceNodes
from rules.replay.host import HostNodes
from rules.terms import MAJORITY

NONE = -1
RETURNS_NS = 1_500  # a call may return this long before the recorded end of what it waited for: two clocks
COST_NS = 8_000.0  # the most that a call which waits costs by itself
# operations outstanding: a launch that is long then waits for room (CUDA's queue holds about 1,024)
FULL_QUEUE = 500
MAX_STREAMS = 64  # of one span that are waited for: those with most operations
LONG_LAUNCH_NS = 50_000
LOOK_BACK = 6
_COPIES = (Call.COPY, Call.BLOCKING_COPY)
_ASYNCHRONOUS = (MemoryKind.PINNED.value, MemoryKind.DEVICE.value, MemoryKind.ARRAY.value)
_EVENT, _OTHERS = 1, 0


@dataclass(frozen=True, slots=True, eq=False)
class Waits:
    """For each host node: the operation that it returns after (NONE: none), how long after (ns), and its own cost.

    ``bound`` says whether the call really waited in the recording. Where it is ``carried``, it waited for work from
    before the replayed steps, and stands for a wait for the same work of the round before.
    """

    target: I64
    returns: F64
    cost: F64
    bound: BOOL
    carried: BOOL


def waits_of(analysis: Analysis, host: HostNodes, device: DeviceNodes) -> Waits:
    """Synchronisations, blocking copies, freeing that drains the GPU, and launches into a full queue."""
    target = np.full(len(host), NONE, np.int64)
    bound = np.zeros(len(host), bool)
    carried = np.zeros(len(host), bool)
    for number in range(int(host.span_of_thread.max(initial=-1)) + 1):
        nodes = np.flatnonzero(host.span_of_thread[host.thread] == number)
        operations = np.flatnonzero(device.span == number)
        if len(operations) and len(nodes):
            span = _Span(analysis.trace, host, device, nodes, operations, target, bound, carried)
            span.own_copies()
            span.synchronisations()
            span.full_queue()
            span.before_the_first()
    waited = target >= 0
    ended = device.end[np.maximum(target, 0)].astype(np.float64) if len(device) else np.zeros(len(host))
    after = host.end - ended
    usual = _usual_return(after[bound], host.call[bound])
    returns = np.where(
        bound, after, np.where(waited, np.where(carried, usual, np.minimum(usual, after)), 0.0)
    )
    bound |= carried
    cost = np.where(bound & waited, np.minimum(host.cost, COST_NS), host.cost)
    return Waits(target, returns, cost, bound, carried)


def _usual_return(after: F64, call: U8) -> float:
    """How long after what it waited for a synchronisation returns: a copy also moves what the GPU has handed over."""
    synchronises = ~of_kinds(call, *_COPIES)
    known = after[synchronises] if synchronises.any() else np.minimum(after, COST_NS)
    return max(float(median_of(known)), 0.0) if len(known) else 0.0


@dataclass(frozen=True, eq=False)
class _Span:
    """The calls and operations of one span, whose waits are noted in the columns of all host nodes."""

    trace: Trace
    host: HostNodes
    device: DeviceNodes
    nodes: I64
    operations: I64
    target: I64
    bound: BOOL
    carried: BOOL

    @cached_property
    def by_launch(self) -> I64:
        """The operations in the order of their launches."""
        return self.operations[np.argsort(self.device.launch[self.operations], kind="stable")]

    def own_copies(self) -> None:
        """A copy that returns after its own operation blocks, unless its memory on the host is pinned.

        One from pageable memory returns as soon as its last piece is staged, somewhat before the operation ends.
        """
        host, device = self.host, self.device
        launch = device.launch[self.operations]
        during = np.minimum(device.end[self.operations], host.end[launch]) - device.start[self.operations]
        through = device.end[self.operations] <= host.end[launch] + RETURNS_NS
        through |= during >= MAJORITY * (device.end[self.operations] - device.start[self.operations])
        copies = of_kinds(host.call[launch], *_COPIES) & through
        events = device.event[self.operations]
        kind = self.trace.attribute(Attribute.COPY_KIND, events)
        to_host = kind == CopyKind.D2H.value
        source, to = (
            self.trace.attribute(which, events)
            for which in (Attribute.SOURCE_MEMORY, Attribute.TARGET_MEMORY)
        )
        free = of_kinds(np.where(to_host, to, source), *_ASYNCHRONOUS) & of_kinds(
            host.call[launch], Call.COPY
        )
        chosen = self.operations[copies & ~free]
        self.target[device.launch[chosen]] = chosen
        self.bound[device.launch[chosen]] = True

    def synchronisations(self) -> None:
        """Synchronisations wait for what was launched last on a stream, event waits for what ended meanwhile."""
        host, device = self.host, self.device
        of_event = numbers_of(
            self.trace, host.event[self.nodes], lambda name: _EVENT if "EventSync" in name else _OTHERS
        )
        waiting = of_kinds(host.call[self.nodes], Call.SYNCHRONIZE, Call.ALLOCATE)
        frees = numbers_of(
            self.trace, host.event[self.nodes], lambda name: "Free" in name and "Async" not in name
        )
        waiting &= of_kinds(host.call[self.nodes], Call.SYNCHRONIZE) | (frees > 0)
        of_streams = sorted(rows_by(device.stream[self.operations]), key=lambda each: -len(each[1]))
        for _, rows in of_streams[:MAX_STREAMS]:
            mine = self.operations[rows]
            launched = np.maximum.accumulate(host.start[device.launch[mine]])
            calls = self.nodes[waiting & (of_event == _OTHERS)]
            last = np.searchsorted(launched, host.start[calls], side="left") - 1
            candidate = mine[np.maximum(last, 0)]
            fits = (last >= 0) & (device.end[candidate] <= host.end[calls] + RETURNS_NS)
            fits &= device.end[candidate] > host.start[calls]
            later = device.end[candidate] > device.end[np.maximum(self.target[calls], 0)]
            better = fits & ((self.target[calls] < 0) | later)
            self.target[calls[better]], self.bound[calls[better]] = candidate[better], True
        events = self.nodes[waiting & (of_event == _EVENT)]
        found = self._just_ended(events)
        self.target[events[found >= 0]], self.bound[events[found >= 0]] = found[found >= 0], True
        self._unbound(self.nodes[waiting & (of_event == _OTHERS)])

    def _just_ended(self, calls: I64) -> I64:
        """The operation that ended last inside each call and had been launched before it; NONE where there is none."""
        host, device = self.host, self.device
        by_end = self.operations[np.argsort(device.end[self.operations], kind="stable")]
        at = np.searchsorted(device.end[by_end], host.end[calls] + RETURNS_NS, side="right") - 1
        found = np.full(len(calls), NONE, np.int64)
        for back in range(LOOK_BACK):
            candidate = by_end[np.maximum(at - back, 0)]
            fits = (at >= back) & (found < 0) & (device.end[candidate] > host.start[calls])
            fits &= host.start[device.launch[candidate]] < host.start[calls]
            found[fits] = candidate[fits]
        return found

    def _unbound(self, calls: I64) -> None:
        """What found all done, as freeing may, still waits for what its thread launched last."""
        host, device = self.host, self.device
        calls = calls[self.target[calls] < 0]
        last = np.searchsorted(device.launch[self.by_launch], calls, side="left") - 1
        candidate = self.by_launch[np.maximum(last, 0)]
        fits = (last >= 0) & (host.thread[device.launch[candidate]] == host.thread[calls])
        fits &= device.end[candidate] <= host.end[calls]
        self.target[calls[fits]] = candidate[fits]

    def full_queue(self) -> None:
        """A launch that is long while the queue is full waits for the operation that ended as it returned."""
        host, device = self.host, self.device
        launches = self.nodes[
            of_kinds(host.call[self.nodes], *WORK_CALLS)
            & (host.cost[self.nodes] > LONG_LAUNCH_NS)
            & (self.target[self.nodes] < 0)
        ]
        if not len(launches):
            return
        every = np.concatenate(
            [
                self.trace.operations_of_device(each)
                for each in distinct_values(device.device[self.operations]).tolist()
            ]
        )
        calls = self.trace.links.launch_of(every)
        launched = np.sort(self.trace.events.start[calls[calls >= 0]])
        ended = np.sort(self.trace.events.end[every[calls >= 0]])
        outstanding = np.searchsorted(launched, host.start[launches]) - np.searchsorted(
            ended, host.start[launches]
        )
        full = launches[outstanding >= FULL_QUEUE]
        found = self._just_ended(full)
        self.target[full[found >= 0]], self.bound[full[found >= 0]] = found[found >= 0], True
        own = np.searchsorted(device.launch[self.by_launch], full)
        place = np.empty(int(self.operations.max()) + 1, np.int64)
        place[self.by_launch] = np.arange(len(self.by_launch))
        known = found >= 0
        depth = (
            int(median_of(own[known] - place[found[known]])) if known.any() else int(median_of(outstanding))
        )
        wrapped = own - depth + len(self.by_launch)
        early = ~known & (own < depth) & (wrapped >= 0) & (wrapped < len(self.by_launch))
        self.target[full[early]], self.carried[full[early]] = self.by_launch[wrapped[early]], True

    def before_the_first(self) -> None:
        """A long synchronisation before the first launch waits for what was launched before: the last of the round."""
        host, device = self.host, self.device
        calls = self.nodes[
            of_kinds(host.call[self.nodes], Call.SYNCHRONIZE)
            & (self.target[self.nodes] < 0)
            & (host.cost[self.nodes] > COST_NS)
        ]
        calls = calls[calls < device.launch[self.by_launch[0]]]
        self.target[calls], self.carried[calls] = self.by_launch[-1], True
