"""Changes that several fixes make: calls that vanish, less host time, operations that take another time."""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL, F64, I64, Attribute, CopyKind, EventKind, derived
from parsers.model.events import of_kinds
from parsers.model.names.calls import WORK_CALLS, Call
from parsers.model.names.per_name import named, numbers_of
from rules.analysis.analysis import Analysis
from rules.analysis.names.regions import is_optimizer_step
from rules.replay.loops import loops_of
from rules.replay.overlay import Overlay
from rules.replay.replay import Change, Replay, replay_of
from rules.replay.surroundings import surroundings_of

LEFT_ON_GPU = 0.05  # of what CPU operators take, when they run on the GPU instead: docs/predictions.md
MIN_NS = 4_000.0  # a kernel that is over sooner is bound by its start


def together(*changes: Change) -> Change:
    """All of them, in this order."""

    def change(overlay: Overlay) -> None:
        for each in changes:
            each(overlay)

    return change


def unchanged(_: Overlay) -> None:
    """As it is: the least that a change gives, where it may give nothing."""


def share_of(replay: Replay, operations: BOOL) -> float:
    """The part of the GPU's time, 0 to 1, that these of its operations take."""
    took = replay.device.duration
    return float(took[operations].sum() / max(took.sum(), 1.0))


def share_of_own_work(replay: Replay, operations: BOOL) -> float:
    """The same of the time in which its operations work for their rank alone: without collectives."""
    device = replay.device
    return float(device.duration[operations].sum() / max(device.duration[device.meeting < 0].sum(), 1.0))


def smaller(replay: Replay, one: Change, other: Change) -> Change:
    """The one of two changes that gives less."""
    return max(one, other, key=lambda each: replay.time([each]))


def without_calls(replay: Replay, nodes: BOOL, gaps: float = 1.0) -> Change:
    """These calls are never made, launch nothing, and this part of the time before them is gone, too."""
    launched = nodes[replay.device.launch]

    def change(overlay: Overlay) -> None:
        overlay.cost[nodes] = 0.0
        overlay.waits[nodes] = False
        overlay.gap[nodes] *= 1.0 - gaps
        overlay.present[launched] = False

    return change


def without_operations(gone: BOOL) -> Change:
    """These operations of the GPU do not run; the calls that launch them stay."""

    def change(overlay: Overlay) -> None:
        overlay.present[gone] = False

    return change


def longer(replay: Replay, nodes: BOOL, factor: F64) -> Change:
    """These calls, and what they launch, take so many times as long (a value for each of all nodes)."""
    launched = nodes[replay.device.launch]
    of_launched = factor[replay.device.launch[launched]]

    def change(overlay: Overlay) -> None:
        overlay.cost[nodes] *= factor[nodes]
        overlay.duration[launched] *= of_launched

    return change


def without_waiting(nodes: BOOL) -> Change:
    """These calls return at once."""

    def change(overlay: Overlay) -> None:
        overlay.cost[nodes] = 0.0
        overlay.waits[nodes] = False

    return change


def less_host_time(nodes: BOOL, ns: F64, part: float = 1.0) -> Change:
    """The time before these calls is shorter by this part of ``ns`` (a value for each of all nodes), or of all."""

    def change(overlay: Overlay) -> None:
        overlay.gap[nodes] -= part * np.minimum(overlay.gap[nodes], ns[nodes])

    return change


def less_time_at_end(replay: Replay, ns: F64) -> Change:
    """``less_host_time`` before the first calls of steps, of what passes there in the step before.

    The time after each thread's last call, which ends the last step, gets shorter in proportion.
    """
    shorter, share = less_host_time(ns > 0, ns), share_of_ends(replay, ns)

    def change(overlay: Overlay) -> None:
        shorter(overlay)
        overlay.tail *= 1.0 - share

    return change


def share_of_ends(replay: Replay, ns: F64) -> F64:
    """Which part of the time at the ends of steps, before the first calls of the next, is ``ns``: for each thread."""
    host = replay.host
    first = np.append(False, np.diff(host.step) == 1)
    ends = (replay.of_step_before * replay.typical.gap)[first]
    whole = np.bincount(host.thread[first], ends, minlength=host.threads)
    mine = np.bincount(host.thread[first], np.minimum(ns[first], ends), minlength=host.threads)
    return np.asarray(mine / np.maximum(whole, 1.0))


def host_time_times(nodes: BOOL, factor: float) -> Change:
    """The time before and inside these calls is ``factor`` of what it was."""

    def change(overlay: Overlay) -> None:
        overlay.gap[nodes] *= factor
        overlay.cost[nodes] *= factor

    return change


def durations_times(operations: BOOL, factor: float | F64) -> Change:
    """These operations take ``factor`` (one, or a value for each of all operations) of their time."""
    factors = np.broadcast_to(factor, operations.shape)[operations]

    def change(overlay: Overlay) -> None:
        overlay.duration[operations] *= factors

    return change


def times(nodes: BOOL, operations: BOOL, factor: float) -> Change:
    """The time before and inside these calls, and of these operations, is ``factor`` of what it was."""
    return together(host_time_times(nodes, factor), durations_times(operations, factor))


def first_members(replay: Replay) -> tuple[I64, I64]:
    """The collectives of all ranks, in the order of an overlay, and for each its first member among the operations."""
    members = np.flatnonzero(replay.device.meeting >= 0)
    meeting, first = np.unique(replay.device.meeting[members], return_index=True)
    return meeting, members[first]


def without_meetings(replay: Replay, gone: BOOL) -> Change:
    """These collectives (a value for each, in the order of an overlay) take no time, and nobody waits in them."""
    meeting, _ = first_members(replay)
    operations = np.isin(replay.device.meeting, meeting[gone])

    def change(overlay: Overlay) -> None:
        overlay.transfer[gone] = 0.0
        overlay.meets[gone] = False
        overlay.duration[operations] = 0.0

    return change


def total(replay: Replay, members: BOOL) -> float:
    """The time of some recorded operations (ns), also of those inside CUDA graphs."""
    table = replay.analysis.trace.events
    events = replay.device.members[members]
    return float((table.end[events] - table.start[events]).sum())


def faster(replay: Replay, members: BOOL, factor: float | F64) -> Change:
    """These recorded operations take a ``factor``-th (one, or a value for each of all) of their time.

    Also inside CUDA graphs.
    """
    table, device = replay.analysis.trace.events, replay.device
    factors = np.broadcast_to(factor, members.shape)[members]
    events = device.members[members]
    duration = (table.end[events] - table.start[events]).astype(np.float64)
    saved = np.maximum(duration - np.maximum(duration / factors, np.minimum(duration, MIN_NS)), 0.0)
    part = np.zeros(len(device))
    np.add.at(part, device.member_of[members], saved)
    remaining = 1.0 - np.minimum(part / np.maximum(device.duration, 1.0), 1.0)

    def change(overlay: Overlay) -> None:
        overlay.duration *= remaining

    return change


def copies(replay: Replay, kind: CopyKind) -> BOOL:
    """Which operations are copies of this direction."""
    return np.asarray(_directions(replay.analysis) == kind.value)


@derived
def _directions(analysis: Analysis) -> I64:
    """The ``CopyKind`` of each operation of the replay, as it was stated, else as its name says; -1 for no copy."""
    trace, events = analysis.trace, replay_of(analysis).device.event
    stated = trace.attribute(Attribute.COPY_KIND, events)
    is_copy = trace.events.kind[events] == EventKind.MEMCPY
    return np.where(is_copy, np.where(stated > 0, stated, numbers_of(trace, events, _direction)), -1)


def _direction(name: str) -> int:
    lower = name.lower().replace(" ", "")
    if "htod" in lower or "hosttodevice" in lower:
        return int(CopyKind.H2D.value)
    return int(CopyKind.D2H.value) if "dtoh" in lower or "devicetohost" in lower else 0


def per_step(replay: Replay, amount: float) -> float:
    """An amount of all replayed steps of all ranks, for one step of one rank."""
    return amount / max(replay.steps, 1) / max(len(replay.spans), 1)


def most_per_step(replay: Replay, ns: F64) -> float:
    """Host time, ``ns`` at each host node, in a step of the rank that spends most: the others wait for it."""
    rank = replay.host.span_of_thread[replay.host.thread]
    return float(np.bincount(rank, ns, minlength=1).max()) / max(replay.steps, 1)


def of_nodes(replay: Replay, operations: BOOL) -> BOOL:
    """Which host nodes launched any of these operations."""
    found = np.zeros(len(replay.host), bool)
    found[replay.device.launch[operations]] = True
    return found


_RANGES = ("optimizer", "optimizer_step", "optim")


@derived
def optimizer_calls(analysis: Analysis) -> BOOL:
    """Which host nodes of the replay an optimizer's step makes.

    Where neither an operator nor a range says so, these are loops that divide by a root as Adam does: one tensor plus a
    multiple of two others' ratio.
    """
    around = surroundings_of(analysis)
    for is_step in (is_optimizer_step, lambda name: name.lower() in _RANGES):
        if (found := around.inside(is_step)).any():
            return found
    replay = replay_of(analysis)
    found = np.zeros(len(replay.host), bool)
    updates = of_nodes(replay, named(analysis.trace, replay.device.event, lambda name: "addcdiv" in name))
    for loop in loops_of(analysis):
        if updates[loop.first : loop.first + loop.body].any():
            found[loop.first : loop.last] = True
    return found


def until_next_work(replay: Replay, nodes: BOOL) -> BOOL:
    """The calls behind each of these, up to the next one of their thread that gives the GPU work."""
    host = replay.host
    work = of_kinds(host.call, *WORK_CALLS)
    place = np.arange(len(nodes))
    last_work = np.maximum.accumulate(np.where(work, place, -1))
    before = np.concatenate(([-1], last_work))[:-1]
    follows = (before >= 0) & nodes[np.maximum(before, 0)]
    return np.asarray(follows & (host.thread[np.maximum(before, 0)] == host.thread))


SMALL_BYTES = 65_536  # a larger copy is no value that a program looks at
LOOKS_FOR_ROWS = ("aten::nonzero", "aten::masked_select")
COUNTING = (*LOOKS_FOR_ROWS, "aten::_unique2", "aten::unique_consecutive", "aten::unique_dim")


def counts_rows(replay: Replay) -> BOOL:
    """Which calls belong to counting the rows of a mask."""
    by_name = surroundings_of(replay.analysis).inside(lambda name: name in COUNTING)
    device = replay.device
    size = replay.analysis.trace.attribute(Attribute.BYTES, device.event)
    reads = of_nodes(replay, copies(replay, CopyKind.D2H) & (size <= SMALL_BYTES))
    synchronises = (replay.waits.target >= 0) & (replay.host.call == Call.SYNCHRONIZE)
    return np.asarray(by_name | counting_runs(replay, reads, synchronises))


def counting_runs(replay: Replay, reads: BOOL, synchronises: BOOL) -> BOOL:
    """Calls that count the rows of a mask, where no operator says so: by CUB's kernels around a small copy."""
    trace, device = replay.analysis.trace, replay.device
    by_cub = of_nodes(replay, named(trace, device.event, lambda name: "cub::" in name))
    selects = of_nodes(
        replay, named(trace, device.event, lambda name: "DeviceSelect" in name or "select::Dev" in name)
    )
    member = by_cub | reads | synchronises
    run = np.cumsum(np.append(True, member[1:] != member[:-1])[: len(member)])
    whole = np.bincount(run, selects & by_cub) * np.bincount(run, reads) > 0 if len(run) else member
    return np.asarray(member & whole[run]) if len(run) else member
