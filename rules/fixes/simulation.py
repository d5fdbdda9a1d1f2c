"""A typical step as it was and as it would be: when each GPU operation ran, and where the time went."""

from __future__ import annotations

from dataclasses import field, replace
from enum import StrEnum

import numpy as np

from parsers.model import BOOL, F64, I64, EventKind
from parsers.model.arrays import median_of
from parsers.model.events import of_kinds
from parsers.model.late import dataclass
from parsers.model.names.calls import Call
from rules.analysis.arithmetic.intervals import Intervals, clip, length, subtract, union
from rules.analysis.idle.causes import OF_HOST, Cause
from rules.fixes.plan import Outcome, Plan
from rules.replay.overlay import Overlay
from rules.replay.program import Run
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of

# an operation that was launched so long before the GPU fell idle waited for something else
LAUNCHED_NS = 1_000.0


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
    for cause in OF_HOST:
        both = np.column_stack((before.get(cause, none), calls.get(cause, none))).ravel()
        passed[cause] = np.append(0.0, np.cumsum(both))
    edges = np.append(np.column_stack((at - gap, at)).ravel(), returned[-1])
    return np.maximum.accumulate(edges), passed


class Part(StrEnum):
    """What a GPU does at a moment; each counts only where those before it do not."""

    COMPUTE = "compute"
    COMMUNICATION = "communication"
    COPY = "copy"
    IDLE = "idle"


@dataclass(frozen=True, slots=True, eq=False)
class StepTimeline:
    """GPU operations of one device in one step, by lane and start; times are ns from the start of its first one.

    ``event`` is the operation's event, ``parts`` say where the ``length`` of the step goes (ns), ``idle`` why nothing
    runs for ``Part.IDLE`` of it; empty for a step as recorded. ``length`` is that of all steps on average, ``extent``
    that of this one: to the first operation of the next, and never less than to the end of its own last.
    """

    event: I64
    lane: I64
    start: I64
    end: I64
    length: int
    extent: int
    parts: dict[Part, int]
    idle: dict[Cause, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """One step before and after some fixes, on one device.

    ``at`` is where the step's first operation starts in the recording (ns). ``recorded`` is the step as recorded;
    ``before`` and ``after`` are replayed without the recorder. An operation that falls away is not in ``after``.
    """

    device: int
    step: int  # place among the replayed steps
    at: int
    recorded: StepTimeline
    before: StepTimeline
    after: StepTimeline


def simulate(plan: Plan, outcome: Outcome, device: int | None = None) -> Simulation:
    """The typical step of a device (the busiest one, unless stated) under an outcome of ``Plan.predict``."""
    replay = plan.replay
    nodes = replay.device
    if device is None:
        busy = np.bincount(nodes.device, nodes.duration)
        device = int(busy.argmax())
    step = _typical(replay, device)
    overlay, run = replay.unchanged
    of_step = replay.host.step[nodes.launch]
    mine = (nodes.device == device) & (of_step == step)
    later = (nodes.device == device) & (of_step > step)
    start, end = nodes.start.astype(np.float64), nodes.end.astype(np.float64)
    recorded = _timeline(replay, mine, later, start, end)
    return Simulation(
        device,
        step,
        int(start[mine].min()),
        recorded,
        _replayed(replay, mine, later, overlay, run),
        _replayed(replay, mine, later, outcome.overlay, outcome.run),
    )


def _typical(replay: Replay, device: int) -> int:
    """The step of median length that works on the device, not the last one where there are several."""
    nodes = replay.device
    span = int(nodes.span[nodes.device == device][0])
    lengths = np.diff(replay.spans[span].edges)
    works = np.bincount(replay.host.step[nodes.launch[nodes.device == device]], minlength=len(lengths)) > 0
    known = np.flatnonzero(works)
    inner = known[:-1] if len(known) > 1 else known
    return int(inner[np.abs(lengths[inner] - median_of(lengths[inner])).argmin()])


def _replayed(replay: Replay, mine: BOOL, later: BOOL, overlay: Overlay, run: Run) -> StepTimeline:
    present = mine & overlay.present
    whole = replay.step_of(run, overlay)
    found = _timeline(replay, present, later & overlay.present, run.start, run.end, whole)
    busy = clip(union(found.start, found.end), 0, found.length)
    return replace(found, idle=idle_by_cause(replay, overlay, run, present, busy, found.length))


def _timeline(
    replay: Replay, mine: BOOL, later: BOOL, start: F64, end: F64, whole: float | None = None
) -> StepTimeline:
    """The recorded operations of these nodes; those of a CUDA graph keep their places inside it."""
    nodes, table = replay.device, replay.analysis.trace.events
    member = mine[nodes.member_of]
    owner, event = nodes.member_of[member], nodes.members[member]
    begin = float(start[mine].min()) if mine.any() else 0.0
    recorded = np.maximum(nodes.end[owner] - nodes.start[owner], 1)
    scale = (end[owner] - start[owner]) / recorded
    starts = start[owner] + np.maximum(table.start[event] - nodes.start[owner], 0) * scale - begin
    ends = starts + np.minimum(table.end[event] - table.start[event], recorded) * scale
    columns = np.rint(starts).astype(np.int64), np.rint(ends).astype(np.int64)
    lane = table.lane[event].astype(np.int64)
    order = np.lexsort((columns[0], lane))
    found = columns[0][order], columns[1][order]
    last = int(found[1].max(initial=0))
    following = round(float(start[later].min()) - begin) if later.any() else last
    lasts = round(whole) if whole is not None else following
    parts = _parts(replay, event[order], *found, lasts)
    return StepTimeline(event[order], lane[order], *found, lasts, max(following, last), parts)


def _parts(replay: Replay, event: I64, start: I64, end: I64, whole: int) -> dict[Part, int]:
    trace = replay.analysis.trace
    communicates = trace.communicates[event]
    copies = of_kinds(trace.events.kind[event], EventKind.MEMCPY, EventKind.MEMSET)
    of_part = {Part.COMPUTE: ~communicates & ~copies, Part.COMMUNICATION: communicates, Part.COPY: copies}
    found: dict[Part, int] = {}
    covered = union(start[:0], end[:0])
    for part, chosen in of_part.items():
        own = clip(subtract(union(start[chosen], end[chosen]), covered), 0, whole)
        found[part] = length(own)
        covered = union(np.concatenate((covered[0], own[0])), np.concatenate((covered[1], own[1])))
    found[Part.IDLE] = max(whole - sum(found.values()), 0)
    return found
