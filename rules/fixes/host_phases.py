"""Where the CPU does something of its own for long: stretches of host work, told apart by what the recording knows."""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL, F64, I64, Attribute, CopyKind, EventKind
from parsers.model.arrays import among, distinct_values, per_value
from parsers.model.events import of_kinds
from parsers.model.late import dataclass
from parsers.model.names.calls import WORK_CALLS
from rules.analysis.arithmetic.intervals import Intervals, measure, union
from rules.analysis.names.regions import is_collection
from rules.analysis.stretches.program_frames import library_calls, program_frames
from rules.fixes.backward import beside_graph_breaks, compiling_ns, entering_broken_graphs, stacks_ns
from rules.fixes.changes import LEFT_ON_GPU, copies, of_nodes, per_step
from rules.fixes.copies_in_a_row import copies_in_a_row
from rules.fixes.interrupted import interrupted_ns, python_rows
from rules.fixes.reduced_in_turn import own_time, reduced_in_turn
from rules.fixes.round_trips import round_trips
from rules.replay.replay import Replay
from rules.replay.surroundings import Surroundings
from rules.terms import MAJORITY, Culprit, CulpritKind


def place_of_work(
    replay: Replay, around: Surroundings, node: int, thread: int, stretches: Intervals
) -> Culprit | None:
    """What stretches of host work on one thread are, ``node`` being the call behind the longest; None: not known.

    Where the program calls a library for it, that call stands in the program's own function.
    """
    analysis = replay.analysis
    table = analysis.trace.events
    activity = analysis.threads.activity(thread)
    longest = (stretches[1] - stretches[0]).argmax()
    middle = (stretches[0][longest : longest + 1] + stretches[1][longest : longest + 1]) // 2
    region = int(activity.user_regions.at(middle)[0])
    named = analysis.trace.name(region) if region >= 0 else ""
    if named and region != int(activity.inputs.at(middle)[0]) and not is_collection(named):
        return Culprit(CulpritKind.REGION, named)
    own = program_frames(analysis, thread).holding(stretches)
    calls = [
        frame
        for frame in library_calls(analysis, thread).holding(stretches)
        if table.depth[frame] > (table.depth[own[-1]] if own else -1)
        and stretches[1][-1] - stretches[0][0] >= MAJORITY * (table.end[frame] - table.start[frame])
    ]
    frames = [*calls[:1], *own[-1:]]
    if frames:
        place = None
        for frame in reversed(frames):
            place = Culprit(CulpritKind.FRAME, analysis.trace.name(frame), place)
        return place
    name = around.place(node, loading=False)
    return Culprit(CulpritKind.REGION, name) if name else None


LONG_NS = 250_000.0  # host time before a call that no launching explains
TOO_LONG_FOR_LAUNCHING_NS = 1_000_000.0  # operators that launch nothing for longer calculate on the CPU
MUCH_DATA = 1_000_000  # bytes of a step
READ_PER_NS = 10.0  # bytes that a core works through: half of what it reads and writes at best
MIN_SILENT = 0.3  # of a gap or a phase: where it is less, what lies between is no part of it
FEW_LAUNCHES = 20  # between two long gaps or waits of one phase
FEW_WAITS = 16  # with no long gap between them: a loop of more is a fault of its own
MIN_PART = 0.1  # of a phase: what is less is no cause of its own
MIN_APART = 0.2  # of all work without a name: what is less is told with the rest
AT_BEGIN, AT_END = "begin", "end"
_BOTH = 0b11  # of a phase's kinds: the end of a step, and the beginning of the next one


@dataclass(frozen=True, slots=True, eq=False)
class HostPhase:
    """Host work of one kind at one place, in all steps.

    ``nodes`` are its calls, ``own`` how much of the time before each (ns, for all nodes) is its work. ``place`` is the
    range, frame or operator around most of it, None where none is known; ``when`` tells nameless ones apart. It comes
    in ``steps`` of each rank. ``elsewhere`` says that most of it lies in other ranges than the one around the longest.
    """

    place: Culprit | None
    when: str
    steps: int
    nodes: BOOL
    own: F64
    elsewhere: bool = False

    @property
    def is_at_end(self) -> bool:
        """Whether it is what steps end with, told apart from what the next one begins with."""
        return self.when == AT_END


def own_work(replay: Replay, around: Surroundings) -> F64:
    """How much of the time before each call the CPU worked on something of its own (ns).

    Where that is a good part of it, the operators in between belong to it: they compute on the CPU. What they take on
    the GPU instead is left out. So does all of a time in which nothing is launched for far too long, though operators
    part it, as where a program makes a tensor of each item, unless it is mostly the recorder's time; that is no work,
    nor is what a gap was longer by chance.
    """
    gap = replay.typical.gap
    silent = np.maximum(around.silent_ns - around.input_ns - (replay.recorded.gap - gap), 0.0)
    rest = np.maximum(gap - around.input_ns, 0.0)
    without = np.minimum(rest, np.maximum(replay.usual.gap - around.input_ns, 0.0))
    dense = (around.operators_ns >= MAJORITY * rest) & (rest >= TOO_LONG_FOR_LAUNCHING_NS)
    parted = (around.operators_ns >= MAJORITY * without) | (without >= MAJORITY * rest)
    parted &= without >= TOO_LONG_FOR_LAUNCHING_NS
    own = np.where((silent >= MIN_SILENT * rest) | dense, rest, np.where(parted, without, silent))
    own = np.where((gap >= LONG_NS) & (own >= LONG_NS), own, 0.0)
    return own * np.where(around.operators_ns > MIN_SILENT * own, 1 - LEFT_ON_GPU, 1.0)


def without_place_on_gpu(replay: Replay, own: F64) -> F64:
    """Own work before each call (ns) of operators that take nothing on the GPU once they no longer do it."""
    return np.where(own > 0, np.minimum(own / (1 - LEFT_ON_GPU), replay.host.gap), 0.0)


def left_of_unknown(replay: Replay, copied: BOOL) -> tuple[float, float]:
    """What the GPU may need for work on what these calls copy to the host: usually, and at most, as parts of it.

    Operators say it themselves; where none were recorded, work on much data may be such.
    """
    if EventKind.CPU_OP in replay.analysis.trace.kinds:
        return 0.0, 0.0
    amount = replay.analysis.trace.attribute(Attribute.BYTES, replay.device.event)
    sent = copies(replay, CopyKind.D2H) & copied[replay.device.launch]
    if per_step(replay, float(amount[sent].sum())) < MUCH_DATA:
        return 0.0, 0.0
    return LEFT_ON_GPU / 2, LEFT_ON_GPU


def on_copied_data(replay: Replay, copied: BOOL, own: float) -> float:
    """Which part of some work (ns) going once through what these calls copy to the host takes; 0 if it says nothing.

    Hardly anything of the work, or nearly all of it, is one thing.
    """
    amount = replay.analysis.trace.attribute(Attribute.BYTES, replay.device.event)
    sent = copies(replay, CopyKind.D2H) & copied[replay.device.launch]
    part = float(amount[sent].sum()) / READ_PER_NS / max(own, 1.0)
    return part if MIN_APART <= part <= 1 - MIN_APART else 0.0


def host_phases(replay: Replay, around: Surroundings) -> list[HostPhase]:
    """The stretches of host work by place, the longest first.

    What a step ends with and what the next one begins with are two, and so are work of which nothing is known and what
    operators calculate. Of a thread beside the main one only that is work which it does while the main one does none.
    """
    of_others = around.lock_ns + interrupted_ns(replay.analysis)
    with_own_fixes = around.pauses_ns + of_others + compiling_ns(replay.analysis) + stacks_ns(replay.analysis)
    own = np.maximum(own_work(replay, around) - with_own_fixes - around.asleep_ns, 0.0)
    own[round_trips(replay.analysis).calls | copies_in_a_row(replay, CopyKind.H2D)] = 0.0
    own[python_rows(replay.analysis) >= MAJORITY] = 0.0
    own[reduced_in_turn(replay.analysis) & (own_time(replay) == 0)] = 0.0
    own[beside_graph_breaks(replay.analysis) | entering_broken_graphs(replay.analysis)] = 0.0
    own[own < LONG_NS] = 0.0
    beside = (own > 0) & ~_mains(replay)[replay.host.thread]
    mains = np.flatnonzero((own > 0) & ~beside)
    begin = replay.host.start - replay.host.gap.astype(np.int64)
    own -= _meanwhile(replay, beside, mains, begin[mains], replay.host.start[mains])
    own[own < LONG_NS] = 0.0
    return _places(replay, around, _pieces(replay, around, own, _numbered(replay, own)), beside)


def _mains(replay: Replay) -> BOOL:
    """Which threads are their rank's main one: that of the program's ranges, else the one that makes most calls."""
    host, threads = replay.host, replay.analysis.threads
    known = {threads.drivers(device)[1] for span in replay.spans for device in span.devices}
    says = np.array([not known.isdisjoint(members) for members in host.members], bool)
    return np.where(np.isin(host.span_of_thread, host.span_of_thread[says]), says, host.leads)


def _meanwhile(replay: Replay, beside: BOOL, mains: I64, begin: I64, end: I64) -> F64:
    """How much of the time before calls of threads beside the main one passed in gaps of their rank's main one (ns)."""
    host = replay.host
    span = host.span_of_thread[host.thread]
    found = np.zeros(len(host))
    for number in distinct_values(span[beside]).tolist():
        mine = np.flatnonzero(beside & (span == number))
        of_main = span[mains] == number
        busy = union(begin[of_main], end[of_main])
        found[mine] = measure(busy, host.start[mine] - host.gap[mine].astype(np.int64), host.start[mine])
    return found


def _numbered(replay: Replay, own: F64) -> I64:
    """The number of the phase of each long gap, or wait near one; -1 for other nodes."""
    host = replay.host
    long = own > 0
    work = np.cumsum(of_kinds(host.call, *WORK_CALLS))
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
    mainly = whole >= MIN_SILENT * extent
    found[anchors] = np.where((whole > 0)[number] & (mainly[number] | long[anchors]), number, -1)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Pieces:
    """Long gaps and waits in order, a gap across the edge of two steps as two: what is known of each."""

    node: I64
    phase: I64
    step: I64
    own: F64
    begin: I64  # of the gap, ns
    end: I64
    kind: I64  # of each gap; of a wait that of the gap that it belongs to


def _pieces(replay: Replay, around: Surroundings, own: F64, phases: I64) -> _Pieces:
    host = replay.host
    node = np.flatnonzero(phases >= 0)
    earlier = np.where(replay.is_annotated, replay.of_step_before, 0.0)[node]
    crosses = (own[node] * np.minimum(earlier, 1 - earlier) >= LONG_NS).astype(np.int64)
    node = np.repeat(node, 1 + crosses)
    first = np.repeat(crosses > 0, 1 + crosses) & np.append(True, np.diff(node) > 0)
    second = np.append(False, first[:-1])
    earlier = np.repeat(earlier, 1 + crosses)
    part = np.where(first, earlier, np.where(second, 1 - earlier, 1.0))
    end = host.start[node]
    begin = end - host.gap[node].astype(np.int64)
    edge = begin + (earlier * host.gap[node]).astype(np.int64)
    calculates = around.operators_ns[node] > MAJORITY * own[node]
    reads = of_nodes(replay, copies(replay, CopyKind.D2H))[node] & ~_mains(replay)[host.thread[node]]
    late = np.where(first | second, first, _late(replay)[node] | reads)
    phase, mine = phases[node], own[node] * part
    across = np.bincount(phase, first) > 0
    copied = of_nodes(replay, copies(replay, CopyKind.H2D))[node] & (mine > 0)
    each = [np.bincount(phase, copied & (calculates == wanted)) > 0 for wanted in (False, True)]
    apart = each[0] & each[1]
    kind = 2 * (late & across[phase]) + (calculates & apart[phase])
    return _Pieces(
        node=node,
        phase=phase,
        step=host.step[node] - np.where(second, False, first | (earlier > MAJORITY)),
        own=mine,
        begin=np.where(second, edge, begin),
        end=np.where(first, edge, end),
        kind=_settled(replay, node, phase, mine, kind),
    )


def _settled(replay: Replay, node: I64, phase: I64, own: F64, kind: I64) -> I64:
    """Kinds with little of a phase are its main one; a gap behind a copy to the GPU that makes none of its own goes on
    with what was copied; waits are of the gap before, and those for what is read of the next."""
    kinds = int(kind.max(initial=0)) + 1
    weight = np.bincount(phase * kinds + kind, own, minlength=(int(phase.max(initial=0)) + 1) * kinds)
    weight = weight.reshape(-1, kinds)
    small = weight < MIN_PART * weight.sum(axis=1, keepdims=True)
    kind = np.where(small[phase, kind], weight.argmax(axis=1)[phase], kind)
    place = np.arange(len(node))
    last = np.maximum.accumulate(np.where(own > 0, place, -1))
    following = np.minimum.accumulate(np.where(own > 0, place, len(node))[::-1])[::-1]
    has_last = (last >= 0) & (phase[last] == phase)
    has_next = following < len(node)
    has_next &= phase[np.minimum(following, len(node) - 1)] == phase
    target = replay.waits.target[node]
    made = (target >= 0) & copies(replay, CopyKind.H2D)[target]
    chosen = np.where(has_last & made, last, np.where(has_next, following, place))
    return np.asarray(kind[np.where(own > 0, place, chosen)])


def _late(replay: Replay) -> BOOL:
    """Which calls come in the second half of their step's work."""
    host = replay.host
    work = of_kinds(host.call, *WORK_CALLS).astype(np.int64)
    of_step = host.thread * (int(host.step.max(initial=0)) + 1) + host.step
    total = np.bincount(of_step, work)[of_step]
    before: I64 = np.cumsum(work) - work
    first = np.append(True, np.diff(of_step) != 0)
    before -= np.maximum.accumulate(np.where(first, before, 0))
    return np.asarray(2 * before >= total)


@dataclass(slots=True, eq=False)
class _Place:
    """The work of one name, gathered from all groups of pieces that bear it."""

    place: Culprit | None
    when: str
    nodes: BOOL
    own: F64
    steps: set[int]
    groups: list[int]
    inside: float = 0.0  # ns of it in ranges of the place's name, where that is a range

    @property
    def is_elsewhere(self) -> bool:
        is_range = self.place is not None and self.place.kind is CulpritKind.REGION
        return is_range and self.inside < MAJORITY * self.whole

    @property
    def name(self) -> str:
        return self.place.text if self.place is not None else ""

    @property
    def whole(self) -> float:
        return float(self.own.sum())

    def take(self, other: _Place) -> None:
        self.nodes |= other.nodes
        self.own += other.own
        self.steps |= other.steps
        self.groups += other.groups


def _places(replay: Replay, around: Surroundings, pieces: _Pieces, beside: BOOL) -> list[HostPhase]:
    """The phases by the name of the place where most of each passes.

    Of names that never come in the same step, such as operators of which now one and now another takes longest, the
    phases are one, and so is a little of what has no name with the rest of it.
    """
    group = pieces.phase * (int(pieces.kind.max(initial=0)) + 1) + pieces.kind
    places = _named(replay, around, pieces, group)
    nameless = sum(each.whole for each in places if not each.name)
    joined: list[_Place] = []
    for each in sorted(places, key=lambda each: (-each.whole, each.name, each.when)):
        partner = next((other for other in joined if not other.steps & each.steps), None)
        if not each.name and each.whole < MIN_APART * nameless:
            partner = next((other for other in joined if not other.name), partner)
        if partner is None:
            joined.append(each)
        else:
            partner.take(each)
    found = []
    for each in joined:
        its = np.isin(group, each.groups) & ~beside[pieces.node]
        own = each.own + _meanwhile(replay, beside, pieces.node[its], pieces.begin[its], pieces.end[its])
        nodes = each.nodes | (own > 0)
        found.append(HostPhase(each.place, each.when, len(each.steps), nodes, own, each.is_elsewhere))
    return found


def _named(replay: Replay, around: Surroundings, pieces: _Pieces, group: I64) -> list[_Place]:
    """What is known of the pieces of each name; a group has the name of the place of its longest piece.

    What the recording begins with is work at the beginning of a step where later steps tell that apart from the end.
    """
    count = len(replay.host)
    worked = np.flatnonzero(pieces.own > 0)
    kinds = np.zeros(int(pieces.phase.max(initial=0)) + 1, np.int64)
    np.bitwise_or.at(kinds, pieces.phase[worked], 1 << (pieces.kind[worked] // 2))
    order = worked[np.lexsort((-pieces.own[worked], group[worked]))]
    places: dict[tuple[str, str], _Place] = {}
    edges = np.flatnonzero(np.diff(group[order], prepend=-1) > 0)
    threads = replay.analysis.threads.of_events(replay.host.event[pieces.node])
    at_start = among(pieces.node, replay.host.first) & (pieces.own > 0)
    first_of_all = set(pieces.phase[at_start].tolist()) if (kinds == _BOTH).any() else set()
    for mine in np.split(order, edges[1:]) if len(edges) else ():
        longest, number = int(mine[0]), int(group[mine[0]])
        stretches = union(pieces.begin[mine], pieces.end[mine])
        place = place_of_work(replay, around, int(pieces.node[longest]), int(threads[longest]), stretches)
        phase = int(pieces.phase[longest])
        apart = place is None and (kinds[phase] == _BOTH or phase in first_of_all)
        when = (AT_BEGIN, AT_END)[int(pieces.kind[longest]) // 2] if apart else ""
        key = place.text if place is not None else "", when
        if key not in places:
            places[key] = _Place(place, when, np.zeros(count, np.bool_), np.zeros(count), set(), [])
        its = group == number
        found = places[key]
        found.nodes[pieces.node[its]] = True
        np.add.at(found.own, pieces.node[its], pieces.own[its])
        found.inside += _inside(replay, pieces, mine, int(threads[longest]), found.name)
        found.steps.update(_steps(pieces.step[its], pieces.own[its]))
        found.groups.append(number)
    return list(places.values())


def _steps(step: I64, own: F64) -> list[int]:
    """The steps that work lies in, without those that have only a little of it, such as the end of the one before."""
    found, which = np.unique(step, return_inverse=True)
    amount = np.bincount(which.reshape(-1), own)
    return list(found[(amount >= MIN_PART * own.sum()) & (amount > 0)].tolist())


def _inside(replay: Replay, pieces: _Pieces, mine: I64, thread: int, name: str) -> float:
    """How much work of these pieces lies in the program's ranges of a name (ns)."""
    trace = replay.analysis.trace
    regions = replay.analysis.threads.activity(thread).user_regions
    of_name = per_value(regions.event[:-1], lambda at: at >= 0 and trace.name(at) == name, bool)
    ranges = regions.edges[:-1][of_name], regions.edges[1:][of_name]
    covered = measure(ranges, pieces.begin[mine], pieces.end[mine])
    return float(np.minimum(covered, pieces.own[mine]).sum())
