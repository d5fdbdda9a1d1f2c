"""A phase of the step in which the CPU does something of its own while the GPU waits: moved off the path."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from parsers.model import BOOL, F64, Attribute, CopyKind, EventKind
from parsers.model.arrays import median_of
from parsers.model.events import of_kinds
from parsers.model.names.calls import WORK_CALLS, Call
from parsers.model.units import duration, size
from rules.analysis.analysis import Analysis
from rules.analysis.idle.causes import Cause
from rules.analysis.idle.culprits import MAX_NAME_LENGTH
from rules.analysis.names.host_language import Audience, host_code, program_of
from rules.analysis.names.operators import is_compiled_code
from rules.analysis.stretches.program_frames import is_sleep
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import (
    copies,
    less_host_time,
    less_time_at_end,
    longer,
    most_per_step,
    of_nodes,
    optimizer_calls,
    per_step,
    share_of_ends,
    smaller,
    together,
    without_calls,
    without_waiting,
)
from rules.fixes.host_phases import (
    AT_BEGIN,
    AT_END,
    LONG_NS,
    MUCH_DATA,
    HostPhase,
    host_phases,
    left_of_unknown,
    on_copied_data,
    without_place_on_gpu,
)
from rules.fixes.loops.filled import filled, joined
from rules.fixes.loops.item_loops import later_rounds, of_the_model, working_loops
from rules.fixes.sent_instead import growth_of_copies
from rules.losses.beneath import beneath
from rules.losses.lost_time import IdleTime
from rules.losses.plan_building import PlanBuilding, plan_building
from rules.remedies.host_work import beside_launches, by_name, few_lengths, off_the_path
from rules.remedies.memory import NEVER_GIVEN_BACK, UNNAMED_BESIDE_FREEING
from rules.replay.given_back import given_back_beside
from rules.replay.loops import Loop, loops_of
from rules.replay.replay import Change, Replay
from rules.replay.surroundings import surroundings_of
from rules.terms import MAJORITY, NEARLY_ALL, Culprit, quoted
from rules.wording.words import Words, listed, shortened

MAX_NAMED = 3
MIN_SHARE = 0.1  # of the work: less leads nowhere


def between_operators(replay: Replay, phase: HostPhase) -> tuple[Words, ...]:
    """Where to look, as one sentence; none where no such place holds much of the work."""
    host, trace = replay.host, replay.analysis.trace
    operator = surroundings_of(replay.analysis).whole_operator
    nodes = np.flatnonzero(phase.nodes & (phase.own > 0))
    nodes = nodes[~np.isin(nodes, host.first)]  # what is before the first call of a thread is not known
    nodes = nodes[
        (operator[nodes] >= 0) & (operator[nodes - 1] >= 0) & (operator[nodes] != operator[nodes - 1])
    ]
    names = trace.events.name[np.stack((operator[nodes - 1], operator[nodes]), axis=1)].astype(np.int64)
    pairs, which = np.unique(names, axis=0, return_inverse=True)
    took = np.bincount(which.reshape(-1), phase.own[nodes], len(pairs))
    order = np.argsort(-took, kind="stable")[:MAX_NAMED]
    whole = float(phase.own[phase.nodes].sum())
    places = [
        f"{trace.strings[pairs[each, 0]]} and {trace.strings[pairs[each, 1]]} "
        f"({duration(per_step(replay, float(took[each])))})"
        for each in order.tolist()
        if took[each] >= MIN_SHARE * whole
    ]
    if not places:
        return ()
    return (f"Look for it between the calls of {listed(places)} {replay.in_step}.",)


NEAR = 4  # calls between the last round and the work


def told_values(replay: Replay, work_ns: F64) -> BOOL:
    """The calls of loops that read back in each round and end just before such work of the CPU (ns before each call).

    The last of them is a copy to the host, so that nothing on the GPU is known to need what the loop computes; it holds
    no layer, no product, no step of an optimizer, sends nothing, and takes the CPU no longer than the work does.
    """
    worked = work_ns > 0
    passed = np.cumsum(replay.usual.gap + replay.usual.cost)
    layers, products = of_the_model(replay)
    other = layers | products | optimizer_calls(replay.analysis)
    other |= of_nodes(replay, copies(replay, CopyKind.H2D))
    read = of_nodes(replay, copies(replay, CopyKind.D2H))
    work = of_kinds(replay.host.call, *WORK_CALLS)
    found = np.zeros(len(replay.host), bool)
    for loop in loops_of(replay.analysis):
        if not read[loop.first : loop.first + loop.body].any() or other[loop.first : loop.last].any():
            continue
        behind = loop.last + np.flatnonzero(worked[loop.last : loop.last + NEAR + 1])
        if not len(behind) or replay.host.thread[behind[0]] != replay.host.thread[loop.first]:
            continue
        last = loop.first + int(np.flatnonzero(work[loop.first : behind[0]])[-1])
        taken = passed[loop.last - 1] - passed[loop.first]
        if read[last] and taken <= min(work_ns[behind[0]], replay.usual.gap[behind[0]]):
            found[loop.first : behind[0]] = True
    return found


BATCH_BYTES = 16_384  # a larger copy to the GPU right behind a stretch of work carries what was worked on
RARELY = 0.7  # of the steps have the work: of more, a missing one may be cut or too short
OF_SEVERAL = 1 / 3  # of what makes a batch and has no name: read, changed and put together are three
# longer copies are a fault of their own where they take more time than the host's work
LONG_COPY_NS = 1_000_000
# a collection goes through all objects, more than 10 ns for each of some 200,000 of PyTorch's modules alone
COLLECTION_NS = 2_000_000


_WHEN = {"": "", AT_BEGIN: " at the beginning of a step", AT_END: " at the end of a step"}

_NAMELESS = "The recording does not say what this is. If it is several things, each accounts for part of it."


@fix
class MoveHostPhase:
    id = "move-host-phase"
    switches = ("no-logging", "no-evaluation")
    explanation = """
When it applies
    The CPU does its own work for at least 250 us: numpy, a simulator, serialising, printing; or it launches nothing
    for a millisecond, though it calls operators in between. Long stretches and blocking waits with fewer than 20
    launches between them form one phase. With Python's stacks, its name is the program's deepest function that
    holds most of it, and the library call in it that does.

What is changed in the replay
    The stretches in which nothing was recorded are gone, and so are the waits and small copies between them, and
    the shorter copies of their results to the GPU; larger copies stay. Where shapes say that what operators read on
    the CPU is larger than their result, as a picture is that they make smaller, it is copied in place of the
    result. Everything that was launched in the phase is still launched. For operators that compute on the CPU, a
    twentieth of the time remains for the GPU, but nothing of those that build plans. Where no operators were
    recorded, a fortieth of the work on more than 1 MB from the GPU remains, or a twentieth at most. Where each
    iteration of a loop over items does the work, sends what it made and reads nothing back, at most all iterations
    are one. A loop right before work that sends nothing to the GPU, which takes no longer than the work and reads
    back what it computes, is gone as well if nothing on the GPU is known to need its values; at least, it stays.

What makes it more or less
    Whether the work can move at all. If it only gets half as long, half of the gain remains. The end of a step and the
    beginning of the next one are two fixes where the program marks its steps, and so is what operators compute for
    another batch. Unnamed work that makes a batch is usually several things: reading, changing and assembling; then at
    least a third of it is gone. Unnamed work on data from the GPU is usually two things where going through the data
    once, at 10 GB/s, takes a fifth to four fifths of it: then at least one of them is gone, with the copies or without
    them. Where 16 or more copies of 1 MB together go to the host, as a state does that is saved, they and their
    waits remain at least. Unnamed work of 2 ms or more right beside most of the calls that free memory, outside of
    operators, is most likely a collection of garbage: gc.collect() with torch.cuda.empty_cache(). These calls go
    with it. Of ranks that wait for each other, one that does nearly all of the work holds up the others.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        """One for each place whose work is long."""
        waiting = IdleTime(analysis, Cause.HOST)
        plans, is_known = plan_building(waiting), bool(beneath(waiting))
        for phase in host_phases(replay, surroundings_of(analysis)):
            name = phase.place.name if phase.place is not None else ""
            if is_compiled_code(name):  # it does nothing but launch
                continue
            planning = plans if plans and plans.operator == name else None
            own = phase.own if planning is None else without_place_on_gpu(replay, phase.own)
            yield _proposal(analysis, replay, replace(phase, own=own), planning, is_known=is_known)


def _proposal(
    analysis: Analysis, replay: Replay, phase: HostPhase, plans: PlanBuilding | None, *, is_known: bool
) -> Proposal:
    place, nodes, own = phase.place, phase.nodes, phase.own
    name = place.text if place is not None else ""
    to_host = copies(replay, CopyKind.D2H)
    large = of_nodes(replay, to_host & (replay.device.duration >= LONG_COPY_NS)) & nodes
    if replay.host.cost[large].sum() > own[nodes].sum():
        to_host &= replay.device.duration < LONG_COPY_NS
    stops = (own == 0) | (replay.host.call == Call.SYNCHRONIZE)  # not a copy of what was just made
    batches = of_nodes(replay, _batches(replay))
    made = nodes & (own > replay.host.cost) & batches
    if phase.is_at_end:  # the next step begins with what that makes
        made &= _across(replay, phase) == 0
    made |= batches & _begins_as(replay, made)
    waits = nodes & (replay.waits.target >= 0) & ~(batches & ~made)
    copied = waits & of_nodes(replay, to_host) | made
    growth = growth_of_copies(replay, made & (surroundings_of(analysis).operators_ns > MAJORITY * own))
    told = told_values(replay, np.where(nodes & ~made.any(), own, 0.0))
    reads = (copied & ~made).any() or told.any()
    larger = (growth > 1.0) & ~reads
    removed = copied & ~larger
    gone = [
        without_calls(replay, removed, 0.0),
        without_waiting(waits & ~large & ~larger | removed),
        *([longer(replay, larger, growth)] if larger.any() else []),
    ]
    alone = _rank_alone(replay, np.where(nodes, own, 0.0))
    categories = [
        Category.HOST_BOUND,
        *([Category.RECOMPILATION] if plans else []),
        *([Category.STRAGGLER] if alone is not None else []),
    ]
    prepares = own[made].sum() > MAJORITY * own[nodes].sum()
    if prepares:
        categories.append(Category.INPUT_BOUND)
    several = prepares and not name and not _returns(replay, copied & ~made, made)
    left, most_left = left_of_unknown(replay, copied)
    saved = _is_saved(replay, copied & ~made)
    least = OF_SEVERAL if several else 1 - most_left
    on_data = 0.0 if name or prepares else on_copied_data(replay, copied & ~made, own[nodes].sum())
    if reads:
        categories.append(Category.COPY_D2H)
    elif (waits & stops).any():
        categories.append(Category.SYNCHRONIZATION)
    memory = given_back_beside(analysis, nodes & (own >= COLLECTION_NS))
    gives_back = (
        place is None and not prepares and _without_stacks_of_pytorch(analysis) and bool(memory.any())
    )
    if gives_back:
        gone.append(without_waiting(memory))
        categories.append(Category.ALLOCATOR)
    loops = [each for each in working_loops(analysis, replay) if _works_in(replay, each, nodes & (own > 0))]
    taken = _taken(replay, phase, " of CPU work")
    shown = shortened(name, MAX_NAME_LENGTH)  # as findings name it
    data = copied & ~made if reads else made & prepares
    around = _of_data(replay, data, reads=bool(reads)) if place is None else ""
    what = (
        f"the work of {_told(place)}{_and_others(phase)}"
        if place is not None
        else f"unnamed {host_code(analysis.trace).removeprefix('the ')} work{_WHEN[phase.when]}"
    )
    return Proposal(
        fix=MoveHostPhase.id,
        key=name or phase.when,
        title=(
            f"Pad to a few lengths: {shortened(name) or plans.who} builds a plan for each new one, {plans.taken}"
            if plans
            else f"Stop sleeping in {_told(place.place)}: {_taken(replay, phase)}"
            if place is not None and place.place is not None and is_sleep(place.name)
            else f"Stop giving memory back{_WHEN[phase.when]}, with what is most likely gc.collect(): {taken}, and "
            f"{per_step(replay, float(np.count_nonzero(memory))):,.0f} calls that allocate or free memory"
            if gives_back
            else f"Move {what}{'' if alone is None else f', which only rank {alone} does,'} off the critical path: "
            f"{taken}{around}"
        ),
        categories=tuple(categories),
        rank=alone,
        culprit=shown or f"{analysis.idle.host} outside any region",
        remedy=few_lengths(plans.is_of_attention)
        if plans
        else NEVER_GIVEN_BACK.and_then(UNNAMED_BESIDE_FREEING)
        if gives_back
        else (by_name(place) if place is not None else None)
        or beside_launches(
            off_the_path(f"{_told(place)}{_and_others(phase)}" if place is not None else ""),
            is_known=is_known,
        )
        .and_then(
            *(() if name or is_known else (_NAMELESS,)), *(() if name else between_operators(replay, phase))
        )
        .and_then(*(_in_each_round(loops) if loops else ())),
        high=together(
            _shorter(replay, phase, 1.0), *gone, joined(replay, later_rounds(replay, loops), filled(replay))
        )
        if loops
        else None,
        expected=together(_shorter(replay, phase, 1 - left), *gone, without_calls(replay, told)),
        low=smaller(
            replay, together(_shorter(replay, phase, on_data), *gone), _shorter(replay, phase, 1 - on_data)
        )
        if on_data
        else together(_shorter(replay, phase, least), *(() if saved else gone))
        if least < 1 or told.any() or saved
        else None,
        depends_on="how many different lengths are left"
        if plans
        else "whether only part of this work is spared, or all iterations around it can be done at once, too"
        if loops
        else "whether all of this work needs what was copied, or only part of it"
        if on_data
        else (
            "whether all the work that makes a batch can overlap with the GPU or move to it, or only part of it"
        )
        if several
        else "whether it is a collection of garbage"
        if gives_back
        else "whether every step needs the values that a loop reads back for it"
        if told.any()
        else "how much of this work can overlap with the GPU or move to it",
    )


MIN_SAVED = 16  # copies of a step: so many tensors are a state that is saved, and no result


def _is_saved(replay: Replay, copied: BOOL) -> bool:
    """Whether these calls copy the tensors of a state to the host, which have to get there wherever they are saved."""
    sent = copies(replay, CopyKind.D2H) & copied[replay.device.launch]
    amount = replay.analysis.trace.attribute(Attribute.BYTES, replay.device.event[sent])
    return per_step(replay, float(np.count_nonzero(sent))) >= MIN_SAVED and (
        per_step(replay, float(amount.sum())) >= MUCH_DATA
    )


def _works_in(replay: Replay, loop: Loop, worked: BOOL) -> bool:
    """Whether most rounds of a loop do such work."""
    return bool(np.count_nonzero(worked[loop.first : loop.last]) >= NEARLY_ALL * (loop.times - 1))


def _in_each_round(loops: Sequence[Loop]) -> tuple[Words, ...]:
    times = max(each.times for each in loops)
    return (
        f"Each of {times} iterations in a row does it: if it is the same every time, do it once before them.",
        "If every item has its own, do it for all items in one call, and process them on the GPU at once, too.",
    )


def _rank_alone(replay: Replay, own: F64) -> int | None:
    """The one of several ranks that does nearly all of some work (ns before each call) while the others wait for it."""
    host, spans = replay.host, replay.spans
    if len(spans) < 2 or not (replay.device.meeting >= 0).any():
        return None
    done = np.bincount(host.span_of_thread[host.thread], own, minlength=len(spans))
    most = int(done.argmax())
    return spans[most].rank if done[most] >= NEARLY_ALL * done.sum() else None


def _without_stacks_of_pytorch(analysis: Analysis) -> bool:
    """Whether it is PyTorch that frees memory, and no frame would say what runs beside that."""
    trace = analysis.trace
    return program_of(trace) is Audience.PYTORCH and EventKind.PYTHON not in trace.kinds


def _shorter(replay: Replay, phase: HostPhase, part: float) -> Change:
    """This part of a phase's work is gone; of work at the end of a step also what the last step has of it."""
    own = part * phase.own
    if not phase.is_at_end:
        return less_host_time(phase.nodes, own)
    across = part * _across(replay, phase)
    return together(
        less_time_at_end(replay, across), less_host_time(phase.nodes, np.where(across > 0, 0.0, own))
    )


def _across(replay: Replay, phase: HostPhase) -> F64:
    """What of a phase's work lies before the first calls of steps and ends the steps before (ns)."""
    return np.where(phase.nodes & (replay.of_step_before > 0), phase.own, 0.0)


def _of_data(replay: Replay, nodes: BOOL, *, reads: bool) -> str:
    """ ", around copies of 5.24 MB from the GPU" or ", making 5.24 MB for the GPU", of a usual step that has any.

    Empty where these calls copy hardly anything.
    """
    mine = copies(replay, CopyKind.D2H if reads else CopyKind.H2D) & nodes[replay.device.launch]
    amount = replay.analysis.trace.attribute(Attribute.BYTES, replay.device.event)
    in_steps = np.bincount(replay.host.step[replay.device.launch[mine]], amount[mine])
    usual = float(median_of(in_steps[in_steps > 0])) if in_steps.any() else 0.0
    if usual <= BATCH_BYTES:
        return ""
    return (
        f", around copies of {size(usual)} from the GPU" if reads else f", making {size(usual)} for the GPU"
    )


def _and_others(phase: HostPhase) -> str:
    return " and other ranges" if phase.elsewhere else ""


def _told(place: Culprit) -> str:
    """ "numpy/lib/io.py(546): save in train.py(12): step", of long names only the beginnings."""
    caller = f" in {_told(place.place)}" if place.place is not None else ""
    return quoted(shortened(place.name)) + caller


def _taken(replay: Replay, phase: HostPhase, what: str = "") -> str:
    """ "76.4 ms of CPU work in a step", or what it takes each time where many steps have none."""
    own, steps = np.where(phase.nodes, phase.own, 0.0), phase.steps
    if phase.is_at_end:  # the last step's is after the last call
        ending = share_of_ends(replay, _across(replay, phase)) * replay.typical.tail
        own[replay.host.first[1:] - 1] += ending
        steps = min(steps + bool((ending >= LONG_NS).any()), replay.steps)
    ns = most_per_step(replay, own)
    if 0 < steps <= RARELY * replay.steps:
        each = duration(ns * replay.steps / steps)
        every = replay.steps == replay.analysis.steps_in_window
        of = f"{replay.steps}" if every else f"the {replay.steps} replayed"
        return f"{each} each time, in {steps} of {of} steps"
    return f"{duration(ns)}{what} {replay.in_step}"


def _returns(replay: Replay, read: BOOL, sent: BOOL) -> bool:
    """Whether about as much is copied to the GPU as was read from it: it was only calculated with on the host."""
    amount = replay.analysis.trace.attribute(Attribute.BYTES, replay.device.event)
    there, back = (float(amount[nodes[replay.device.launch]].sum()) for nodes in (read, sent))
    return MAJORITY * back <= there <= back / MAJORITY


def _begins_as(replay: Replay, wanted: BOOL) -> BOOL:
    """The first calls of threads whose later steps mostly begin with a wanted call.

    Where no annotation says when the first step began, the time before its first call is not recorded.
    """
    host, found = replay.host, np.zeros(len(wanted), bool)
    for thread in range(host.threads):
        begin, end = int(host.first[thread]), int(host.first[thread + 1])
        later = begin + 1 + np.flatnonzero(np.diff(host.step[begin:end]))
        found[begin] = len(later) > 0 and np.mean(wanted[later]) > MAJORITY
    return found


def _batches(replay: Replay) -> BOOL:
    """Large copies to the GPU."""
    amount = replay.analysis.trace.attribute(Attribute.BYTES, replay.device.event)
    return np.asarray(copies(replay, CopyKind.H2D) & (amount > BATCH_BYTES))
