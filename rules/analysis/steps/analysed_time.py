"""Which part of a recording is analysed: its steady steps, else what the GPU did, without one long wait before it."""

from __future__ import annotations

import numpy as np

from parsers.model import I64, EventKind, Trace
from parsers.model.arrays import median_of
from parsers.model.events import of_kinds
from parsers.model.late import dataclass
from parsers.model.names.calls import Call, calls_of
from parsers.model.names.kernels import is_migration
from parsers.model.names.per_name import distinct, named
from rules.analysis.arithmetic.intervals import clip, durations, intersect, length, union
from rules.analysis.steps.first_use import LONG_CALL_NS, first_use
from rules.analysis.steps.steps import Step
from rules.terms import MAJORITY

LONG_WAIT = 0.2  # of the time
LITTLE_WORK = 0.05  # of the GPU's, before such a wait
BLOCKED = 0.8  # of such a wait, in calls
# of the time: one wait of that length is no part of what runs after it, whatever the CPU did
NEARLY_ALL = 0.95
MIN_BEFORE_NS = 10_000_000  # before the GPU's first work
ALL_OF_IT = 0.98  # of that time: an event of such length is around it and explains nothing
ENOUGH_OPERATIONS = 20  # after a start-up: fewer are chance
OFTEN_ENOUGH = 10  # times each kernel after a start-up, on average: then layers or passes repeat
MUCH_FIRST_USE = 0.15  # of the time, in the calls themselves
QUEUED_NS = 1_000_000  # from a launch to the first operation; longer: the GPU worked on something older
# of the time before the first kernel or after the last one: nothing moves, and the CPU, which touches pages, is in no
# call
_TELLING = (EventKind.REGION, EventKind.CPU_OP, EventKind.API)  # what the CPU did before the GPU's first work
_WAITING = (Call.SYNCHRONIZE, Call.COPY, Call.BLOCKING_COPY)


@dataclass(frozen=True, slots=True)
class SetAside:
    """Time at the beginning that says nothing about what was recorded; ``call`` is the event that waited, or -1."""

    start: int
    end: int
    call: int
    starts_up: bool = False  # calls are made for the first time in it, and the GPU worked between them
    in_code: bool = False  # the CPU made no call that took so long: it was in code of its own
    before_work: bool = False  # the GPU did nothing yet; ``call`` is the longest event of the CPU in it
    after_work: bool = False  # the GPU has no more work, and the CPU fetches its results page by page

    @property
    def took(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class AnalysedTime:
    """[start, end) in ns from the trace start, and what was set aside before and after it."""

    start: int
    end: int
    set_aside: SetAside | None = None
    read_later: SetAside | None = None

    @property
    def longest_set_aside(self) -> SetAside | None:
        """What was set aside before or after it, whichever took longer."""
        known = [each for each in (self.set_aside, self.read_later) if each is not None]
        return max(known, key=lambda each: each.took, default=None)


def analysed_time(trace: Trace, steady: tuple[Step, ...]) -> AnalysedTime:
    """The steady steps, else first to last GPU operation, else the whole trace.

    With several ranks, the median of their first starts to the median of their last ends. Where nothing repeats, what
    the GPU or the CPU waited for before the recorded work began is set aside, and the time in which the CPU makes data
    or reads results in unified memory before the first kernel and after the last one. Steps leave out by themselves
    what comes before the GPU's first work: it is named where it takes longer than all of that work.
    """
    operations = trace.gpu_operations
    made: SetAside | None = None
    later: SetAside | None = None
    if steady:
        ranks = [-1 if step.rank is None else step.rank for step in steady]
        mine = [
            [step for step, of in zip(steady, ranks, strict=True) if of == rank]
            for rank in sorted(set(ranks))
        ]
        start = int(median_of([min(step.start for step in steps) for steps in mine]))
        end = int(median_of([max(step.end for step in steps) for steps in mine]))
        if max(map(len, mine)) > 1 or len(mine) > 1:
            worked = trace.events.start[operations], trace.events.end[operations]
            unused = (
                _before_the_gpu(trace, int(worked[0].min()), int(worked[1].max()))
                if len(operations)
                else None
            )
            return AnalysedTime(start, end, unused)
    elif len(operations):
        start, end = int(trace.events.start[operations].min()), int(trace.events.end[operations].max())
        made, later = _around_work(trace, operations)
        start, end = start if made is None else made.end, end if later is None else later.start
    else:
        return AnalysedTime(0, trace.duration)
    inside = operations[(trace.events.end[operations] > start) & (trace.events.start[operations] < end)]
    inside = trace.events.by_start(inside)
    start, queued = _behind_older_work(trace, inside, start)
    waited = _long_waits(trace, inside, start, end)
    if waited is None:
        waited = _start_up(trace, inside, start, end) if len(steady) < 2 else None
    if waited is not None:
        return AnalysedTime(waited.end, end, waited, later)
    if queued is None and not steady:
        queued = _before_the_gpu(trace, start, end) or made
    return AnalysedTime(start, end, queued, later)


def _around_work(trace: Trace, operations: I64) -> tuple[SetAside | None, SetAside | None]:
    """What comes before the first and after the last kernel, copy or fill that the program asked for.

    None where no page moves there, or where pages move and calls run for most of the time: then the program moves them.
    """
    table = trace.events
    moves = named(trace, operations, is_migration)
    asked = operations[~moves]
    if not moves.any() or not of_kinds(table.kind[asked], EventKind.KERNEL, EventKind.GRAPH).any():
        return None, None
    moved = operations[moves]
    calls = table.of_kind(EventKind.API)
    begins, ends = (np.concatenate((each[moved], each[calls])) for each in (table.start, table.end))
    busy = union(begins, ends)

    def own(begin: int, finish: int) -> bool:
        free = finish - begin - int(length(clip(busy, begin, finish)))
        return free >= MAJORITY * max(finish - begin, 1)

    start, end = int(table.start[operations].min()), int(table.end[operations].max())
    first, last = int(table.start[asked].min()), int(table.end[asked].max())
    before = SetAside(start, first, -1, before_work=True) if own(start, first) else None
    return before, SetAside(last, end, -1, after_work=True) if own(last, end) else None


def _before_the_gpu(trace: Trace, start: int, end: int) -> SetAside | None:
    """What the CPU does before the GPU's first work, where that takes longer than all that follows."""
    before = np.flatnonzero(trace.events.start < start)
    begin = int(trace.events.start[before].min()) if len(before) else start
    if start - begin < max(end - start, MIN_BEFORE_NS):
        return None
    inside = before[of_kinds(trace.events.kind[before], *_TELLING) & (trace.events.end[before] <= start)]
    inside = inside[trace.events.duration[inside] < ALL_OF_IT * (start - begin)]
    longest = int(inside[trace.events.duration[inside].argmax()]) if len(inside) else -1
    return SetAside(begin, start, longest, before_work=True)


def _start_up(trace: Trace, operations: I64, start: int, end: int) -> SetAside | None:
    """Up to the last gap of a first use, where its calls take much of the time and most kernels' time follows.

    It begins with the call that launched the GPU's first work where that took long, too. What follows is the run where
    it keeps the GPU at work, or where its kernels come again and again.
    """
    if len(operations) < ENOUGH_OPERATIONS or len(trace.devices) == 0:
        return None
    gaps, calls = first_use(trace, start, end)
    spent = intersect(union(*trace.events.spans(calls)), gaps)
    if length(spent) < MUCH_FIRST_USE * (end - start):
        return None
    cut = int(gaps[1][-1])
    kernels = operations[of_kinds(trace.events.kind[operations], EventKind.KERNEL, EventKind.GRAPH)]
    following = kernels[trace.events.start[kernels] >= cut]
    done, worked = (length(union(*trace.events.spans(each))) for each in (following, kernels))
    kinds = len(distinct(trace.events.name[following]))
    if len(following) < ENOUGH_OPERATIONS or done < MAJORITY * worked:
        return None
    if done < MAJORITY * (end - cut) and len(following) < OFTEN_ENOUGH * kinds:
        return None
    launch = int(trace.links.launch_of(operations[:1])[0])
    if (
        launch >= 0 and durations(trace, launch) >= LONG_CALL_NS
    ):  # the first of them led to the GPU's first work
        start = min(start, int(trace.events.start[launch]))
        calls = np.append(calls, launch)
    return SetAside(start, cut, int(calls[durations(trace, calls).argmax()]), True)


def _long_waits(trace: Trace, operations: I64, start: int, end: int) -> SetAside | None:
    """The long wait before the recorded work, and those that follow on it before any work that matters."""
    found: SetAside | None = None
    while (waited := _long_wait(trace, operations, start, end)) is not None:
        longer = found is not None and found.took >= waited.took
        found = SetAside(
            found.start if found is not None else waited.start,
            waited.end,
            found.call if found is not None and longer else waited.call,
            in_code=found.in_code if found is not None and longer else waited.in_code,
        )
        operations = operations[trace.events.start[operations] >= waited.end]
        start = waited.end
    return found


def _behind_older_work(trace: Trace, operations: I64, start: int) -> tuple[int, SetAside | None]:
    """Where the first operation had long been launched, the GPU was busy with what the recording does not hold."""
    launch = int(trace.links.launch_of(operations[:1])[0]) if len(operations) else -1
    begin = int(trace.events.start[operations[0]]) if len(operations) else start
    queued = begin - max(int(trace.events.end[launch]), start) if launch >= 0 else 0
    if queued < max(QUEUED_NS, MAJORITY * (begin - start)):
        return start, None
    return begin, SetAside(start, begin, -1)


def _starts_up(trace: Trace, following: I64, begin: int, finish: int) -> bool:
    """Whether kernels are launched for the first time in a wait, slowly, and enough of them follow to be judged."""
    calls = trace.events.of_kind(EventKind.API)
    calls = calls[calls_of(trace)[trace.events.name[calls]] == Call.LAUNCH]
    calls = trace.events.by_start(calls)
    first = calls[np.unique(trace.events.name[calls], return_index=True)[1]]
    slow = durations(trace, first) >= LONG_CALL_NS
    inside = (trace.events.start[first] < finish) & (trace.events.end[first] > begin)
    return len(following) >= ENOUGH_OPERATIONS and bool((slow & inside).any())


def _long_wait(trace: Trace, operations: I64, start: int, end: int) -> SetAside | None:
    """The longest wait of [start, end), where it is spent in calls that take long, with hardly any work before it."""
    if len(operations) < 2:
        return None
    starts = trace.events.start[operations]
    reach = np.maximum.accumulate(trace.events.end[operations])
    idle = np.maximum(starts[1:] - reach[:-1], 0)
    at = int(idle.argmax())
    begin, finish = int(reach[at]), int(starts[at + 1])
    worked = reach[-1] - starts[0] - int(idle.sum())
    before = reach[at] - starts[0] - int(idle[:at].sum())
    if finish - begin < LONG_WAIT * (end - start) or before > LITTLE_WORK * worked:
        return None
    calls = trace.events.of_kind(EventKind.API)
    waits = of_kinds(calls_of(trace)[trace.events.name[calls]], *_WAITING) | (
        durations(trace, calls) >= LONG_CALL_NS
    )
    calls = calls[waits]
    spent = clip(union(*trace.events.spans(calls)), begin, finish)
    if length(spent) < BLOCKED * (finish - begin) and not _starts_up(
        trace, operations[at + 1 :], begin, finish
    ):
        alone = finish - begin >= NEARLY_ALL * (end - start) and len(operations) - at > ENOUGH_OPERATIONS
        return SetAside(begin, finish, -1, in_code=True) if alone else None
    shared = np.minimum(trace.events.end[calls], finish) - np.maximum(trace.events.start[calls], begin)
    return SetAside(begin, finish, int(calls[shared.argmax()]))
