"""A phase of the step in which the CPU does something of its own while the GPU waits: moved off the path."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from parsers.model import BOOL, F64, I64, Attribute, CopyKind
from parsers.model.names.calls import WORK_CALLS, Call
from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.analysis.idle.causes import Cause
from rules.analysis.idle.lost_time import IdleTime
from rules.analysis.idle.plan_building import PlanBuilding, plan_building
from rules.category import Category
from rules.culprit import Culprit, CulpritKind
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import (
    copies,
    less_host_time,
    of_nodes,
    per_step,
    together,
    without_calls,
    without_waiting,
)
from rules.replay.replay import Replay
from rules.replay.surroundings import Surroundings, surroundings_of
from rules.wording.host_work import advice_by_name
from rules.wording.phrases import shortened

LONG_NS = 250_000.0  # host time before a call that no launching explains
LEAST_SILENT = 0.3  # of a gap or a phase: where it is less, what lies between is no part of it
BATCH_BYTES = 65_536  # a larger copy to the GPU right behind a stretch of work carries what was worked on
MOSTLY = 0.5
LEFT_ON_GPU = 0.05  # of what CPU operators take, when they run on the GPU instead: docs/predictions.md
FEW_LAUNCHES = 20  # between two long gaps or waits of one phase
FEW_WAITS = 16  # with no long gap between them: a loop of more is a fault of its own
# longer copies are a fault of their own where they take more time than the host's work
LONG_COPY_NS = 1_000_000

_ADVICE = (
    "Move it to the GPU where it can run there, do it less often, or hand it to another thread or process and go on "
    "with the next step.",
)
_NAMELESS = (
    "The recording does not say what it is. If it is several things, each of them gives a part of this.",
)


@fix
class MoveHostPhase:
    """Long stretches of host work, with the waits between them."""

    id: ClassVar[str] = "move-host-phase"
    explanation: ClassVar[str] = """
When it applies
    The CPU does something of its own for at least 250 us: numpy, a simulator, serialising, printing. Long stretches
    and blocking waits with fewer than 20 launches between them are one phase.

What is changed in the replay
    The stretches in which nothing was recorded are gone, and so are the waits and small copies between them, and the
    shorter copies of what was made in them to the GPU.
    Everything that was launched in the phase is still launched. Of operators that compute on the CPU a twentieth of
    the time is left for the GPU.

What makes it more or less
    Whether the work can move at all. If it only becomes half as long, half of the gain is left.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        """One for each place whose work is long."""
        around = surroundings_of(analysis)
        own = np.maximum(
            own_work(replay, around) - around.garbage_ns - around.lock_ns, 0.0
        )  # these have own fixes
        own[own < LONG_NS] = 0.0
        plans = plan_building(IdleTime(analysis, Cause.HOST))
        for name, nodes in sorted(_places(replay, around, own, _phases(replay, own)).items()):
            planning = plans if plans and plans.operator == name else None
            yield _proposal(analysis, replay, name, nodes, own, planning)


def own_work(replay: Replay, around: Surroundings) -> F64:
    """How much of the time before each call the CPU worked on something of its own (ns).

    Where that is a good part of it, the operators in between belong to it: they compute on the CPU.
    """
    silent = np.maximum(around.silent_ns - around.input_ns, 0.0)
    rest = np.maximum(replay.host.gap - around.input_ns, 0.0)
    own = np.where(silent >= LEAST_SILENT * rest, rest, silent)
    own = np.where((replay.host.gap >= LONG_NS) & (own >= LONG_NS), own, 0.0)
    return own * np.where(around.operators_ns > LEAST_SILENT * own, 1 - LEFT_ON_GPU, 1.0)


def _phases(replay: Replay, own: F64) -> I64:
    """The number of the phase of each long gap, or wait near one; -1 for other nodes."""
    host = replay.host
    long = own > 0
    work = np.cumsum(np.isin(host.call, WORK_CALLS))
    anchors = np.flatnonzero(long | replay.waits.bound)
    run = np.cumsum(long[anchors])  # of waits behind the same long gap
    waiting = np.bincount(run, ~long[anchors], minlength=1)[run] if len(anchors) else run
    anchors = anchors[long[anchors] | (waiting <= FEW_WAITS)]
    found = np.full(len(host), -1, np.int64)
    if not len(anchors):
        return found
    apart = (np.diff(work[anchors]) >= FEW_LAUNCHES) | (np.diff(host.thread[anchors]) != 0)
    number = np.concatenate(([0], np.cumsum(apart)))
    passed = np.cumsum(host.gap + host.cost)
    edges = np.flatnonzero(np.append(True, np.diff(number) > 0))
    extent = (
        passed[anchors[np.append(edges[1:], len(anchors)) - 1]] - passed[anchors[edges]] + own[anchors[edges]]
    )
    whole = np.bincount(number, own[anchors])
    mainly = whole >= LEAST_SILENT * extent
    found[anchors] = np.where((whole > 0)[number] & (mainly[number] | long[anchors]), number, -1)
    return found


def _places(replay: Replay, around: Surroundings, own: F64, phases: I64) -> dict[str, BOOL]:
    """Nodes of the phases by the name of the place where most of a phase's time passes.

    Of names that never come in the same step, such as operators of which now one and now another takes longest, the
    phases are one.
    """
    longest: dict[int, int] = {}
    for node in np.flatnonzero((phases >= 0) & (own > 0)).tolist():
        phase = int(phases[node])
        if phase not in longest or own[node] > own[longest[phase]]:
            longest[phase] = node
    nodes: dict[str, BOOL] = {}
    weight: dict[str, float] = {}
    steps: dict[str, set[int]] = {}
    for phase, node in longest.items():
        name = around.place(node)
        mine = phases == phase
        nodes[name] = nodes.get(name, np.zeros(len(phases), bool)) | mine
        weight[name] = weight.get(name, 0.0) + float(own[mine].sum())
        steps.setdefault(name, set()).add(int(replay.host.step[node]))
    joined: dict[str, BOOL] = {}
    taken: dict[str, set[int]] = {}
    for name in sorted(nodes, key=lambda each: (-weight[each], each)):
        partner = next((each for each in joined if not taken[each] & steps[name]), name)
        joined[partner] = joined.get(partner, np.zeros(len(phases), bool)) | nodes[name]
        taken[partner] = taken.get(partner, set()) | steps[name]
    return joined


def _proposal(
    analysis: Analysis, replay: Replay, name: str, nodes: BOOL, own: F64, plans: PlanBuilding | None
) -> Proposal:
    to_host = copies(replay, CopyKind.D2H)
    large = of_nodes(replay, to_host & (replay.device.duration >= LONG_COPY_NS)) & nodes
    if replay.host.cost[large].sum() > own[nodes].sum():
        to_host &= replay.device.duration < LONG_COPY_NS
    waits = nodes & (replay.waits.target >= 0)
    stops = (own == 0) | (replay.host.call == Call.SYNCHRONIZE)  # not a copy of what was just made
    batches = of_nodes(replay, _batches(replay))
    made = nodes & (own > replay.host.cost) & batches
    made |= batches & _begins_as(replay, made)
    copied = waits & of_nodes(replay, to_host) | made
    gone = together(
        less_host_time(nodes, own),
        without_calls(replay, copied, 0.0),
        without_waiting(waits & ~large | copied),
    )
    categories = [Category.HOST_BOUND, *([Category.RECOMPILATION] if plans else [])]
    if own[made].sum() > MOSTLY * own[nodes].sum():
        categories.append(Category.INPUT_BOUND)
    if (copied & ~made).any():
        categories.append(Category.COPY_D2H)
    elif (waits & stops).any():
        categories.append(Category.SYNCHRONIZATION)
    milliseconds = per_step(replay, float(own[nodes].sum())) / 1e6
    what = f"the work of {shortened(name)}" if name else f"what {analysis.idle.host} does"
    return Proposal(
        fix=MoveHostPhase.id,
        key=name,
        title=(
            f"Pad to a few lengths: {name or plans.who} builds a plan for each new one, "
            f"{duration(milliseconds * 1e6)} of CPU work {replay.in_step}"
            if plans
            else f"Take {what} off the path: {duration(milliseconds * 1e6)} of CPU work {replay.in_step}"
        ),
        categories=tuple(categories),
        culprit=name or f"{analysis.idle.host} outside any region",
        advice=plans.advice
        if plans
        else advice_by_name(Culprit(CulpritKind.REGION, name)) or (*_ADVICE, *(() if name else _NAMELESS)),
        expected=gone,
        depends_on="how many different lengths are left"
        if plans
        else "how much of this work can run beside the GPU, or on it",
    )


def _begins_as(replay: Replay, wanted: BOOL) -> BOOL:
    """The first calls of threads whose later steps mostly begin with a wanted call.

    Where no annotation says when the first step began, the time before its first call is not recorded.
    """
    host, found = replay.host, np.zeros(len(wanted), bool)
    for thread in range(host.threads):
        begin, end = int(host.first[thread]), int(host.first[thread + 1])
        later = begin + 1 + np.flatnonzero(np.diff(host.step[begin:end]))
        found[begin] = len(later) > 0 and np.mean(wanted[later]) > MOSTLY
    return found


def _batches(replay: Replay) -> BOOL:
    """Large copies to the GPU."""
    amount = replay.analysis.trace.attribute(Attribute.BYTES, replay.device.event)
    return np.asarray(copies(replay, CopyKind.H2D) & (amount > BATCH_BYTES))
