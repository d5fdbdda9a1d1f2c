"""Why the GPU would be idle in a replayed step: what the host does meanwhile, or which operations wait for others."""

from __future__ import annotations

import numpy as np

from parsers.model.arrays import BOOL, F64
from parsers.model.names.calls import Call
from rules.analysis.arithmetic.intervals import Intervals, subtract
from rules.analysis.idle.causes import Cause
from rules.replay.overlay import Overlay
from rules.replay.program import Run
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of

LAUNCHED_NS = (
    1_000.0  # an operation that was launched so long before the GPU fell idle waited for something else
)
_OF_HOST = (Cause.INPUT, Cause.HOST, Cause.LAUNCH, Cause.SYNCHRONIZATION, Cause.ALLOCATOR)


def idle_by_cause(
    replay: Replay, overlay: Overlay, run: Run, mine: BOOL, busy: Intervals, whole: int
) -> dict[Cause, int]:
    """ns of each cause in the idle time of a step of ``whole`` ns, which begins at 0; ``busy`` are its busy intervals.

    ``mine`` are the operations of one device in one step. A gap belongs to the host where the operation that ends it is
    launched after it began, and is divided as the launching thread spends that time. Gaps after the last operation
    belong to the host as well.
    """
    if not mine.any():
        return {Cause.UNKNOWN: whole}
    begin = float(run.start[mine].min())
    whole_step = np.array([0], np.int64), np.array([whole], np.int64)
    starts, ends = subtract(whole_step, busy)
    operations = np.flatnonzero(mine)
    operations = operations[np.argsort(run.start[operations], kind="stable")]
    following = np.searchsorted(run.start[operations] - begin, ends - 1.0)
    last = following >= len(operations)
    ending = operations[np.minimum(following, len(operations) - 1)]
    launch = replay.device.launch[ending]
    ready = run.host[launch] + replay.device.latency[ending] - begin
    waits = ~last & (ready < starts + LAUNCHED_NS)
    found = {Cause.DEPENDENCY: float((ends - starts)[waits].sum())}
    threads = replay.host.thread[replay.device.launch[operations]]
    times, passed = _host_time(replay, overlay, run, int(np.bincount(threads).argmax()))
    for cause, sums in passed.items():
        at = [np.interp(edge[~waits] + begin, times, sums) for edge in (starts, ends)]
        found[cause] = float((at[1] - at[0]).sum())
    told = {cause: round(ns) for cause, ns in found.items() if round(ns) > 0}
    rest = int((ends - starts).sum()) - sum(told.values())
    if rest > 0:
        told[Cause.UNKNOWN] = rest
    return told


def _host_time(replay: Replay, overlay: Overlay, run: Run, thread: int) -> tuple[F64, dict[Cause, F64]]:
    """Times at which one thread begins or ends something, and how much of each cause had passed by then."""
    host = replay.host
    nodes = np.arange(host.first[thread], host.first[thread + 1])
    around = surroundings_of(replay.analysis)
    gap, at = overlay.gap[nodes], run.host[nodes]
    usual = replay.usual.gap[nodes]
    data = np.minimum(around.input_ns[nodes], usual)
    own = np.minimum(around.silent_ns[nodes], usual - data)
    launching = np.minimum(gap, np.maximum(usual - data - own, 0.0))
    rest = gap - launching
    of_data = rest * data / np.maximum(data + own, 1.0)
    before = {Cause.INPUT: of_data, Cause.HOST: rest - of_data, Cause.LAUNCH: launching}
    returned = np.append(at[1:] - gap[1:], at[-1] + overlay.cost[nodes[-1]])
    inside = np.maximum(returned - at, 0.0)
    call = host.call[nodes]
    waiting = overlay.waits[nodes] | (call == Call.SYNCHRONIZE)
    allocating = (call == Call.ALLOCATE) & ~waiting
    calls = {
        Cause.SYNCHRONIZATION: np.where(waiting, inside, 0.0),
        Cause.ALLOCATOR: np.where(allocating, inside, 0.0),
        Cause.LAUNCH: np.where(waiting | allocating, 0.0, inside),
    }
    none = np.zeros(len(nodes))
    passed = {}
    for cause in _OF_HOST:
        both = np.column_stack((before.get(cause, none), calls.get(cause, none))).ravel()
        passed[cause] = np.append(0.0, np.cumsum(both))
    edges = np.append(np.column_stack((at - gap, at)).ravel(), returned[-1])
    return np.maximum.accumulate(edges), passed
