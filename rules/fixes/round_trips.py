"""Round trips: what is copied to the host, calculated with there, and copied back."""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL, F64, I64, Attribute, CopyKind, EventKind, derived
from parsers.model.arrays import distinct_values, in_both
from parsers.model.events import of_kinds
from parsers.model.late import dataclass
from parsers.model.names.calls import Call
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import measure, union
from rules.analysis.cpu.cpu_time import collectives_on_cpu
from rules.fixes.backward import backward_ns, optimizers_ns
from rules.fixes.changes import LEFT_ON_GPU, copies, per_step, until_next_work
from rules.remedies.engines import directive_advice
from rules.replay.replay import Replay, replay_of
from rules.replay.surroundings import surroundings_of


def in_collectives(replay: Replay) -> tuple[F64, F64]:
    """How much of the time before each call a collective ran on its rank's CPU, and waited for others there (ns).

    It waits as much longer as it takes than the same one, by its number, on the rank where that takes least.
    """
    trace, host = replay.analysis.trace, replay.host
    table, took, alone = trace.events, np.zeros(len(host)), np.zeros(len(host))
    events = table.by_start(collectives_on_cpu(trace))
    rank = trace.lane_rank[table.lane[events]]
    least = _least(rank, table.duration[events])
    begin, of_node = host.start - host.gap.astype(np.int64), host.span_of_thread[host.thread]
    for number, span in enumerate(replay.spans):
        mine = rank == (-1 if span.rank is None else span.rank)
        nodes, end = of_node == number, table.end[events[mine]]
        for found, start in ((took, table.start[events[mine]]), (alone, end - least[mine])):
            found[nodes] = measure(union(start, end), begin[nodes], host.start[nodes])
    return took, took - np.minimum(alone, took)


def _least(rank: I64, duration: I64) -> I64:
    """What each collective takes on the rank where it takes least; its own time where ranks had not equally many."""
    ranks = [np.flatnonzero(rank == each) for each in distinct_values(rank).tolist()]
    least = duration.copy()
    if len({len(each) for each in ranks}) == 1:
        for each in ranks:
            least[each] = np.min([duration[other] for other in ranks], axis=0)
    return least


MIN_BYTES = 1_000_000  # of a step, in each direction
MIN_SAME_SIZES = 0.8  # of the bytes of a trip: what comes back has the sizes of what went
# of operators on the CPU in a step: without any the copies are no trip of one tensor
MIN_WORK_NS = 1_000_000.0
# of a collective on the CPU before a call: less is one that the program need not wait for
MIN_MEETING_NS = 50_000.0
MOSTLY = 0.5
MIN_SWAPPED_SIZES, MIN_SWAPPED = 2, 8  # copies of a step each way, and how many sizes they have
# copies of a step to the host that operators on the CPU compute with, and for how long each: else it looks at a result
MIN_KEPT, MIN_COMPUTED_NS = 16, 5_000.0
MAX_BYTES_PER_NS = 200.0  # no CPU reads faster: what takes less does not compute with what was copied
_COPYING = (
    *("aten::to", "aten::_to_copy", "aten::copy_", "aten::clone", "aten::contiguous", "aten::detach"),
    *("aten::empty", "aten::empty_like", "aten::empty_strided"),
)
LEFT_OF_LONG = 0.02  # of what long operators on the CPU take, when they run on the GPU
MAX_INPUT = 0.1  # of the host's time: more is a batch that is sent behind the results of another one


@dataclass(frozen=True, slots=True, eq=False)
class RoundTrips:
    """``calls`` lie on a trip, behind its first copy to the host up to its last one back, and ``copies`` are these.

    ``work_ns`` is the host time before each call that belongs to a trip, less ``left_ns``, which is what the same work
    is taken to need on the GPU. ``bytes`` go to the host in all steps.
    """

    calls: BOOL
    copies: BOOL
    work_ns: F64
    left_ns: F64
    bytes: float
    swapped: bool = False  # sent both ways again and again, and hardly anything is calculated
    exchanged: bool = False  # the CPUs of the ranks reduce or gather it
    # by directives, which copy the arrays of each loop both ways unless they are told otherwise
    mapped: bool = False
    kept: bool = False  # it stays there, as averages of weights do that the CPU keeps

    @staticmethod
    def none(replay: Replay) -> RoundTrips:
        nowhere, nothing = np.zeros(len(replay.host), bool), np.zeros(len(replay.host))
        return RoundTrips(nowhere, nowhere, nothing, nothing, 0.0)

    def and_also(self, other: RoundTrips) -> RoundTrips:
        """Both, where a copy belongs to either."""
        return RoundTrips(
            self.calls | other.calls,
            self.copies | other.copies,
            np.maximum(self.work_ns, other.work_ns),
            np.where(self.calls, self.left_ns, other.left_ns),
            max(self.bytes, other.bytes),
            self.swapped or other.swapped,
            self.exchanged or other.exchanged,
            self.mapped,
        )

    def worked(self) -> float:
        """Host time of all steps that belongs to the trips (ns)."""
        return float(self.work_ns.sum() + self.left_ns.sum())


@derived
def round_trips(analysis: Analysis) -> RoundTrips:
    """The round trips in the replayed steps; no calls where there are none that matter."""
    replay = replay_of(analysis)
    near, far = _near(replay), _of_parameters(replay)
    if far.worked() > near.worked():
        return far
    found = near.and_also(_exchanged(replay)).and_also(_swapped(replay))
    return found if found.calls.any() else _kept(replay)


def _near(replay: Replay) -> RoundTrips:
    """Trips during which the GPU gets no other work."""
    around, host = surroundings_of(replay.analysis), replay.host
    there, back = _bytes(replay, CopyKind.D2H), _bytes(replay, CopyKind.H2D)
    launches = of_kinds(host.call, Call.LAUNCH, Call.GRAPH_LAUNCH)
    stretch = np.cumsum(launches | np.append(True, np.diff(host.thread) != 0))
    number = int(stretch[-1]) + 1
    place = np.arange(len(host))
    first, last = np.full(number, len(host)), np.full(number, -1)
    np.minimum.at(first, stretch[there > 0], place[there > 0])
    np.maximum.at(last, stretch[back > 0], place[back > 0])
    calls = (place >= first[stretch]) & (place <= last[stretch])
    behind = calls & (place > first[stretch])
    begun = np.where(behind, host.gap, 0.0)

    def sums(of: F64) -> F64:
        return np.asarray(np.bincount(stretch, of, minlength=number))

    gone, come = sums(np.where(calls, there, 0.0)), sums(np.where(calls, back, 0.0))
    same = _of_same_sizes(stretch[calls], there[calls], back[calls], number)
    is_trip = (same >= MIN_SAME_SIZES * np.maximum(gone, come)) & (same > 0)
    is_trip &= sums(np.where(behind, around.input_ns, 0.0)) <= MAX_INPUT * sums(begun)
    calls &= is_trip[stretch]
    behind &= calls
    operators = np.where(behind, np.minimum(around.operators_ns, host.gap), 0.0)
    copied = calls & ((there > 0) | (back > 0))
    mapped = bool(directive_advice(replay.analysis.trace))
    if mapped:  # before the first and behind the last loop, too
        amount = np.maximum(there, back)
        copied = (amount > 0) & np.isin(amount, amount[copied])
    return _that_matter(
        replay,
        calls | copied,
        copied,
        operators if mapped else np.where(behind, host.gap, 0.0),
        operators,
        operators,
        LEFT_ON_GPU,
        mapped=mapped,
    )


def _that_matter(
    replay: Replay,
    calls: BOOL,
    copied: BOOL,
    work: F64,
    operators: F64,
    needed: F64,
    share_left: float,
    mapped: bool = False,
) -> RoundTrips:
    """Round trips of ``work`` before their calls, where copies and what ``needed`` the CPU (ns) are large enough.

    What directives ``mapped`` needs no CPU: it goes both ways because nothing says that it stays.
    """
    bytes_there = float(_bytes(replay, CopyKind.D2H)[copied].sum())
    least = 0.0 if mapped else MIN_WORK_NS
    if per_step(replay, bytes_there) < MIN_BYTES or per_step(replay, float(needed.sum())) < least:
        return RoundTrips.none(replay)
    left = share_left * operators
    return RoundTrips(calls, copied, np.maximum(work - left, 0.0), left, bytes_there, mapped=mapped)


def _exchanged(replay: Replay) -> RoundTrips:
    """What goes to the host for a collective on the ranks' CPUs that ends before the GPU gets other work.

    Nothing need come back. What a rank waits there for others stays, unless collectives of the GPUs show it again.
    """
    analysis, host = replay.analysis, replay.host
    there, back = _bytes(replay, CopyKind.D2H), _bytes(replay, CopyKind.H2D)
    if not len(collectives_on_cpu(analysis.trace)) or not there.any():
        return RoundTrips.none(replay)
    took, waited = in_collectives(replay)
    meets = took >= MIN_MEETING_NS
    launches = of_kinds(host.call, Call.LAUNCH, Call.GRAPH_LAUNCH)
    begins = np.append(True, np.diff(host.thread) != 0)
    # what a launch waits for is before it
    stretch = np.cumsum(launches | begins) - (launches & meets & ~begins)
    number, place = int(stretch.max()) + 1, np.arange(len(host))
    first, last = np.full(number, len(host)), np.full(number, -1)
    np.minimum.at(first, stretch[there > 0], place[there > 0])
    np.maximum.at(last, stretch[meets], place[meets])
    behind = (place > first[stretch]) & (place <= last[stretch])
    calls = behind | ((place == first[stretch]) & (last[stretch] > place))
    copied = calls & ((there > 0) | ((back > 0) & meets))
    operators = np.where(behind, np.minimum(surroundings_of(analysis).operators_ns, host.gap), 0.0)
    work = np.where(behind, host.gap, 0.0)
    if not (replay.device.meeting >= 0).any():
        work -= np.where(behind, np.minimum(waited, work), 0.0)
    needed = np.where(behind, took - waited, 0.0) + operators
    if per_step(replay, float(needed.sum())) < MIN_WORK_NS:
        return RoundTrips.none(replay)
    left = LEFT_ON_GPU * np.minimum(needed, work)
    return RoundTrips(calls, copied, work - left, left, float(there[copied].sum()), exchanged=True)


def _kept(replay: Replay) -> RoundTrips:
    """What the CPU computes with between many copies to the host, and what comes of it stays there.

    Nothing need be waited for in between, unlike a result that a program looks at.
    """
    host, there = replay.host, _bytes(replay, CopyKind.D2H)
    copied = there > 0
    behind, around = until_next_work(replay, copied), surroundings_of(replay.analysis)
    computed = np.where(behind, around.time_inside(_computes, EventKind.CPU_OP), 0.0)
    saved = np.maximum(around.silent_ns - around.operators_ns, 0.0)[behind]  # or whatever no operator does
    latest = np.maximum.accumulate(np.where(copied, np.arange(len(copied)), 0))
    latest = np.append(0, latest[:-1])  # before each call
    follows = behind & (computed >= np.maximum(MIN_COMPUTED_NS, there[latest] / MAX_BYTES_PER_NS))
    used = distinct_values(latest[follows])
    if (
        round(per_step(replay, float(np.count_nonzero(follows)))) < MIN_KEPT
        or np.count_nonzero(follows) < MOSTLY * np.count_nonzero(copied)
        or per_step(replay, float(there[used].sum())) < MIN_BYTES
        or per_step(replay, float(computed.sum())) < MIN_WORK_NS
        or computed.sum() < saved.sum()
    ):
        return RoundTrips.none(replay)
    left = LEFT_ON_GPU * computed
    work = np.where(behind & copied, host.gap, computed) - left
    return RoundTrips(copied | behind, copied, work, left, float(there.sum()), kept=True)


def _computes(name: str) -> bool:
    return name.startswith("aten::") and name not in _COPYING


def _of_parameters(replay: Replay) -> RoundTrips:
    """What goes through parameters on the CPU: back in the forward pass, and there in the backward pass.

    The CPU must work long inside the backward pass or an optimizer, and most of what goes there has the size of
    something that comes back.
    """
    analysis, host = replay.analysis, replay.host
    around = surroundings_of(analysis)
    there, back = _bytes(replay, CopyKind.D2H), _bytes(replay, CopyKind.H2D)
    steps = host.step - host.step.min()
    same = _of_same_sizes(steps, there, back, int(steps.max()) + 1).sum()
    if same < MIN_SAME_SIZES * there.sum():
        return RoundTrips.none(replay)
    sizes = in_both(there[there > 0], back[back > 0])
    goes, returns = np.isin(there, sizes) & (there > 0), np.isin(back, sizes) & (back > 0)
    long = _from_one_to_the_other(host.thread, goes, returns) & (around.silent_ns >= MOSTLY * host.gap)
    trained = np.where(long, np.minimum(optimizers_ns(analysis) + backward_ns(analysis), host.gap), 0.0)
    operators = np.where(long, np.minimum(around.operators_ns, host.gap), 0.0)
    work = np.maximum(operators, trained)
    return _that_matter(replay, goes | returns | long, goes | returns, work, operators, trained, LEFT_OF_LONG)


def _swapped(replay: Replay) -> RoundTrips:
    """What each step sends both ways in many copies of the same sizes, as weights are that share the GPU's memory.

    Copies of a single size may be what comes in and what goes out, and so may few.
    """
    host = replay.host
    there, back = _bytes(replay, CopyKind.D2H), _bytes(replay, CopyKind.H2D)
    steps = host.step - host.step.min()
    same = float(_of_same_sizes(steps, there, back, int(steps.max()) + 1).sum())
    if same < MIN_SAME_SIZES * max(there.sum(), back.sum()) or per_step(replay, same) < MIN_BYTES:
        return RoundTrips.none(replay)
    sizes = in_both(there[there > 0], back[back > 0])
    copied = np.isin(np.maximum(there, back), sizes) & ((there > 0) | (back > 0))
    each_way = per_step(replay, float(copied.sum())) / 2
    if len(sizes) < MIN_SWAPPED_SIZES or each_way < MIN_SWAPPED:
        return RoundTrips.none(replay)
    work = np.where(copied, host.gap, 0.0)
    exchanged = len(collectives_on_cpu(replay.analysis.trace)) > 0
    return RoundTrips(
        copied,
        copied,
        work,
        np.zeros(len(host)),
        float(there[copied].sum()),
        swapped=True,
        exchanged=exchanged,
    )


def _from_one_to_the_other(thread: I64, begins: BOOL, ends: BOOL) -> BOOL:
    """The calls behind each that begins, up to the next that ends; a thread's steps follow one another in a ring."""
    place = np.arange(len(begins))
    starts = np.append(True, np.diff(thread) != 0)
    begun = np.maximum.accumulate(np.where(begins, place, -1))
    ended = np.maximum.accumulate(np.where(ends, place, -1))
    ended_before = np.append(-1, ended[:-1])
    first = np.maximum.accumulate(np.where(starts, place, -1))
    left_open_by_last_step = (begun < first) & (ended_before < first)
    return np.asarray(((begun >= first) & (begun > ended_before)) | left_open_by_last_step)


def _bytes(replay: Replay, kind: CopyKind) -> F64:
    """What each call copies in a direction."""
    operations = np.flatnonzero(copies(replay, kind))
    amount = replay.analysis.trace.attribute(Attribute.BYTES, replay.device.event[operations])
    return np.asarray(np.bincount(replay.device.launch[operations], amount, minlength=len(replay.host)))


def _of_same_sizes(stretch: I64, there: F64, back: F64, number: int) -> F64:
    """The bytes of each stretch of calls that go and come back in copies of the same sizes."""
    found = np.zeros(number)
    copied = np.flatnonzero((there > 0) | (back > 0))
    if not len(copied):
        return found
    size = np.maximum(there, back)[copied].astype(np.int64)
    sort, which = np.unique(np.column_stack((stretch[copied], size)), axis=0, return_inverse=True)
    pairs = np.minimum(*(np.bincount(which.reshape(-1), each[copied] > 0) for each in (there, back)))
    np.add.at(found, sort[:, 0], pairs * sort[:, 1])
    return found
