"""Where the CPU waits for the GPU: which calls return only after which operation."""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL, F64, I64, Attribute, CopyKind, MemoryKind
from parsers.model.arrays import rows_by
from parsers.model.events import of_kinds
from parsers.model.late.dataclass import dataclass
from parsers.model.names.calls import WORK_CALLS, Call
from parsers.model.names.per_name import numbers_of
from rules.analysis.analysis import Analysis
from rules.replay.device import DeviceNodes
from rules.replay.host import HostNodes
from rules.terms.shares import MAJORITY

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
    for span in range(int(host.span_of_thread.max(initial=-1)) + 1):
        nodes = np.flatnonzero(host.span_of_thread[host.thread] == span)
        operations = np.flatnonzero(device.span == span)
        if not len(operations) or not len(nodes):
            continue
        _own_copies(analysis, host, device, operations, target, bound)
        _synchronisations(analysis, host, device, nodes, operations, target, bound)
        _full_queue(analysis, host, device, nodes, operations, target, bound, carried)
        _before_the_first(host, device, nodes, operations, target, carried)
    waited = target >= 0
    ended = device.end[np.maximum(target, 0)].astype(np.float64) if len(device) else np.zeros(len(host))
    returns = np.where(bound, host.end - ended, 0.0)
    bound |= carried
    cost = np.where(bound & waited, np.minimum(host.cost, COST_NS), host.cost)
    usual = float(np.median(returns[bound & ~carried])) if (bound & ~carried).any() else 0.0
    returns = np.where(waited & (~bound | carried), np.maximum(usual, 0.0), returns)
    return Waits(target, returns, cost, bound, carried)


def _own_copies(
    analysis: Analysis, host: HostNodes, device: DeviceNodes, operations: I64, target: I64, bound: BOOL
) -> None:
    """A copy that returns after its own operation blocks, unless its memory on the host is pinned.

    One from pageable memory returns as soon as its last piece is staged, somewhat before the operation ends.
    """
    launch = device.launch[operations]
    during = np.minimum(device.end[operations], host.end[launch]) - device.start[operations]
    through = device.end[operations] <= host.end[launch] + RETURNS_NS
    through |= during >= MAJORITY * (device.end[operations] - device.start[operations])
    copies = of_kinds(host.call[launch], *_COPIES) & through
    trace, events = analysis.trace, device.event[operations]
    kind = trace.attribute(Attribute.COPY_KIND, events)
    to_host = kind == CopyKind.D2H.value
    source, to = (
        trace.attribute(which, events) for which in (Attribute.SOURCE_MEMORY, Attribute.TARGET_MEMORY)
    )
    free = of_kinds(np.where(to_host, to, source), *_ASYNCHRONOUS) & of_kinds(host.call[launch], Call.COPY)
    chosen = operations[copies & ~free]
    target[device.launch[chosen]] = chosen
    bound[device.launch[chosen]] = True


def _synchronisations(
    analysis: Analysis,
    host: HostNodes,
    device: DeviceNodes,
    nodes: I64,
    operations: I64,
    target: I64,
    bound: BOOL,
) -> None:
    """Synchronisations wait for what was launched last on a stream, event waits for what ended meanwhile."""
    of_event = numbers_of(
        analysis.trace, host.event[nodes], lambda name: _EVENT if "EventSync" in name else _OTHERS
    )
    waiting = of_kinds(host.call[nodes], Call.SYNCHRONIZE, Call.ALLOCATE)
    frees = numbers_of(analysis.trace, host.event[nodes], lambda name: "Free" in name and "Async" not in name)
    waiting &= of_kinds(host.call[nodes], Call.SYNCHRONIZE) | (frees > 0)
    of_streams = sorted(rows_by(device.stream[operations]), key=lambda each: -len(each[1]))
    for _, rows in of_streams[:MAX_STREAMS]:
        mine = operations[rows]
        launched = np.maximum.accumulate(host.start[device.launch[mine]])
        calls = nodes[waiting & (of_event == _OTHERS)]
        last = np.searchsorted(launched, host.start[calls], side="left") - 1
        candidate = mine[np.maximum(last, 0)]
        fits = (last >= 0) & (device.end[candidate] <= host.end[calls] + RETURNS_NS)
        fits &= device.end[candidate] > host.start[calls]
        later = device.end[candidate] > device.end[np.maximum(target[calls], 0)]
        better = fits & ((target[calls] < 0) | later)
        target[calls[better]], bound[calls[better]] = candidate[better], True
    events = nodes[waiting & (of_event == _EVENT)]
    found = _just_ended(host, device, events, operations)
    target[events[found >= 0]], bound[events[found >= 0]] = found[found >= 0], True
    rest = nodes[waiting & (of_event == _OTHERS)]
    _unbound(host, device, rest, operations, target)


def _just_ended(host: HostNodes, device: DeviceNodes, calls: I64, operations: I64) -> I64:
    """The operation that ended last inside each call and had been launched before it; NONE where there is none."""
    by_end = operations[np.argsort(device.end[operations], kind="stable")]
    at = np.searchsorted(device.end[by_end], host.end[calls] + RETURNS_NS, side="right") - 1
    found = np.full(len(calls), NONE, np.int64)
    for back in range(LOOK_BACK):
        candidate = by_end[np.maximum(at - back, 0)]
        fits = (at >= back) & (found < 0) & (device.end[candidate] > host.start[calls])
        fits &= host.start[device.launch[candidate]] < host.start[calls]
        found[fits] = candidate[fits]
    return found


def _unbound(host: HostNodes, device: DeviceNodes, calls: I64, operations: I64, target: I64) -> None:
    """A synchronisation, or a call that frees, that found all done still waits for what its thread launched last."""
    calls = calls[target[calls] < 0]
    by_launch = operations[np.argsort(device.launch[operations], kind="stable")]
    last = np.searchsorted(device.launch[by_launch], calls, side="left") - 1
    candidate = by_launch[np.maximum(last, 0)]
    fits = (last >= 0) & (host.thread[device.launch[candidate]] == host.thread[calls])
    fits &= device.end[candidate] <= host.end[calls]
    target[calls[fits]] = candidate[fits]


def _full_queue(
    analysis: Analysis,
    host: HostNodes,
    device: DeviceNodes,
    nodes: I64,
    operations: I64,
    target: I64,
    bound: BOOL,
    carried: BOOL,
) -> None:
    """A launch that is long while the queue is full waits for the operation that ended as it returned."""
    launches = nodes[
        of_kinds(host.call[nodes], *WORK_CALLS) & (host.cost[nodes] > LONG_LAUNCH_NS) & (target[nodes] < 0)
    ]
    if not len(launches):
        return
    trace = analysis.trace
    every = np.concatenate(
        [trace.operations_of_device(each) for each in np.unique(device.device[operations]).tolist()]
    )
    calls = trace.links.launch_of(every)
    launched = np.sort(trace.events.start[calls[calls >= 0]])
    ended = np.sort(trace.events.end[every[calls >= 0]])
    outstanding = np.searchsorted(launched, host.start[launches]) - np.searchsorted(
        ended, host.start[launches]
    )
    full = launches[outstanding >= FULL_QUEUE]
    found = _just_ended(host, device, full, operations)
    target[full[found >= 0]], bound[full[found >= 0]] = found[found >= 0], True
    by_launch = operations[np.argsort(device.launch[operations], kind="stable")]
    own = np.searchsorted(device.launch[by_launch], full)
    place = np.empty(int(operations.max()) + 1, np.int64)
    place[by_launch] = np.arange(len(by_launch))
    known = found >= 0
    depth = int(np.median(own[known] - place[found[known]])) if known.any() else int(np.median(outstanding))
    wrapped = own - depth + len(by_launch)
    early = ~known & (own < depth) & (wrapped >= 0) & (wrapped < len(by_launch))
    target[full[early]], carried[full[early]] = by_launch[wrapped[early]], True


def _before_the_first(
    host: HostNodes, device: DeviceNodes, nodes: I64, operations: I64, target: I64, carried: BOOL
) -> None:
    """A long synchronisation before the first launch waits for what was launched before: the last of the round."""
    by_launch = operations[np.argsort(device.launch[operations], kind="stable")]
    calls = nodes[
        of_kinds(host.call[nodes], Call.SYNCHRONIZE) & (target[nodes] < 0) & (host.cost[nodes] > COST_NS)
    ]
    calls = calls[calls < device.launch[by_launch[0]]]
    target[calls], carried[calls] = by_launch[-1], True
