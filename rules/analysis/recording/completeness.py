"""Whether the recording holds the GPU operations that its own launches say must have run."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np

from parsers.model import BOOL, I64, Attribute, CopyKind, EventKind, Trace, derived
from parsers.model.arrays import ascending, median_of, stable_order, without
from parsers.model.events import of_kinds
from parsers.model.late import dataclass, regex
from parsers.model.names.calls import Call, calls_of, launches_work, runs_a_kernel
from parsers.model.names.per_name import distinct, named
from rules.analysis.recording.captures import noted_only
from rules.terms import MAJORITY

_ENDED = ("cut", "cut-off database")
_DAMAGED = "damaged stretch"
_CUT = (*_ENDED, _DAMAGED, "damaged table")
MIN_LAUNCHES = 100  # fewer may all belong to work that the recording began or ended in
MIN_LAUNCHES_ALONE = 3  # between copies, where no kernel was recorded at all
MIN_SHARE = 0.7  # recordings that lost nothing have an operation for more than nine of ten such launches
# of the kernels have no launch: with more, launches lack operations because links are missing
MAX_ORPHANS = 0.1
ONE_TO_ONE = 1.05  # operations of a linked launch; with more the links are guesses by time, which miss some
# Calls are numbered by the driver. In 42 whole recordings of PyTorch the middle distance between the numbers of calls
# that follow one another is 1 to 15, and they reach over 1 to 18 times as many numbers; in two samples 36 and 216.
MIN_APART, MIN_REACH = 25, 60
# of the numbers that the driver gave to kernels: whole recordings of 11 programs hold 80 % and more of them
# XLA's events on the CPU, of every version of PjRt: one for a call of a program, and one for each GPU that it runs on
_XLA_CALL = regex(r"PjRt(StreamExecutor|CApi)LoadedExecutable::Execute")
_XLA_ON_ONE_GPU = regex(r"(PjRtStreamExecutor|CommonPjRt)LoadedExecutable::ExecuteHelper(OnSingleDevice)?")


@dataclass(frozen=True, slots=True, eq=False)
class Completeness:
    """Launches of single kernels that were made while the GPU was recorded; ``lost`` are those without an operation."""

    launches: int
    lost: I64

    @property
    def share(self) -> float:
        """The part of these launches that has its operation."""
        return 1.0 - len(self.lost) / self.launches if self.launches else 1.0

    @property
    def has_lost_records(self) -> bool:
        """Whether so many operations are missing that no share of time can be trusted."""
        least = MIN_LAUNCHES if self.share else MIN_LAUNCHES_ALONE
        return self.launches >= least and self.share < MIN_SHARE


@derived
def numbers_missing(trace: Trace) -> int:
    """Kernels that the driver numbered between those that were recorded, and that are not there; 0 where few lack.

    Kernels of one graph share their number, so numbers are counted and not kernels. Filling memory is a kernel of the
    driver's own, and so is copying it on the GPU: it takes a number, and stands among the other operations.
    """
    column = trace.attributes.get(Attribute.LAUNCH_NUMBER)
    if column is None or not len(column.event):
        return 0
    lanes = [(lane.rank, lane.process) for lane in trace.lanes]
    processes = {each: number for number, each in enumerate(dict.fromkeys(lanes))}
    of_lane = np.array([processes[each] for each in lanes], np.int32)
    process = of_lane[trace.events.lane[column.event]]
    drivers_own = np.bincount(
        of_lane[trace.events.lane[_kernels_of_the_driver(trace)]], minlength=len(processes)
    )
    missing = given = 0
    for each in distinct(process).tolist():
        numbers = ascending(column.value[process == each])
        given += int(numbers[-1] - numbers[0]) + 1
        missing += max(int(numbers[-1] - numbers[0]) + 1 - len(numbers) - int(drivers_own[each]), 0)
    return missing if given >= MIN_LAUNCHES and missing > (1 - MAJORITY) * given else 0


@derived
def gpus_missing(trace: Trace) -> tuple[int, int]:
    """GPUs that XLA starts its programs on and of which no kernel was recorded, and how many it starts them on; zeros
    where no such events were recorded.

    A program that runs on fewer GPUs than the others makes the mean smaller, so no more are missing than this tells.
    """
    events = trace.events.of_kind(EventKind.OTHER)
    calls = int(np.count_nonzero(named(trace, events, _XLA_CALL.fullmatch)))
    starts = named(trace, events, _XLA_ON_ONE_GPU.fullmatch)
    started_on = int(np.count_nonzero(starts)) // calls if calls else 0
    lanes = distinct(trace.events.lane[trace.events.of_kind(EventKind.KERNEL)]).tolist()
    recorded = {(trace.lanes[lane].rank, trace.lanes[lane].device) for lane in lanes}
    ranks = len({rank for rank, _ in recorded})
    missing = started_on * ranks - len(recorded)
    return (missing, started_on * ranks) if recorded and missing > 0 else (0, 0)


def _kernels_of_the_driver(trace: Trace) -> I64:
    copies = trace.events.of_kind(EventKind.MEMCPY)
    on_gpu = trace.attribute(Attribute.COPY_KIND, copies) == CopyKind.D2D.value
    return np.concatenate((trace.events.of_kind(EventKind.MEMSET), copies[on_gpu]))


def copies_asked_for(trace: Trace) -> int:
    """Calls that copy or fill memory."""
    calls = trace.events.of_kind(EventKind.API)
    classes = calls_of(trace)[trace.events.name[calls]]
    return int(np.count_nonzero(of_kinds(classes, Call.COPY, Call.BLOCKING_COPY, Call.MEMSET)))


@dataclass(frozen=True, slots=True, eq=False)
class FailedLaunches:
    """Launches that returned an error, so that what they launch never ran, with their codes."""

    launches: I64
    errors: I64
    are_all: bool  # of the recording, in which no kernel ran either

    def counted(self) -> list[tuple[int, int]]:
        """Each code and how many launches failed with it, the most frequent first."""
        return Counter(self.errors.tolist()).most_common()


@derived
def failed_launches(trace: Trace) -> FailedLaunches:
    """None where the recording does not say what calls returned."""
    calls = (
        trace.events.of_kind(EventKind.API) if Attribute.ERROR in trace.attributes else np.empty(0, np.int64)
    )
    launches = calls[named(trace, calls, launches_work)]
    errors = trace.attribute(Attribute.ERROR, launches, 0)
    failed = errors != 0
    ran = len(trace.events.of_kind(EventKind.KERNEL, EventKind.GRAPH))
    return FailedLaunches(launches[failed], errors[failed], bool(len(launches) and failed.all() and not ran))


@derived
def completeness_of(trace: Trace) -> Completeness:
    """Counts launches between the first and the last operation of the GPU; all of them where it has none.

    Launches of graphs run many operations, those that failed and those while one is captured none: they are not
    counted, nor is anything where only graphs were recorded, operations are not linked one to one, or many kernels
    have no launch.
    """
    calls = trace.events.of_kind(EventKind.API)
    launches = calls[of_kinds(calls_of(trace)[trace.events.name[calls]], Call.LAUNCH)]
    launches = launches[named(trace, launches, runs_a_kernel)]
    launches = launches[~noted_only(trace, launches)]
    launches = without(launches, failed_launches(trace).launches)
    operations = trace.gpu_operations
    if not len(operations):
        return Completeness(len(launches), launches)
    start = trace.events.start
    during = (start[launches] >= start[operations].min()) & (start[launches] <= start[operations].max())
    launches = launches[during]
    has_launch, has_operation = trace.events.marked(trace.links.operation), trace.launched_something
    linked = np.count_nonzero(trace.events.marked(launches)[trace.links.launch])
    ran = np.count_nonzero(has_operation[launches])
    kernels = trace.events.of_kind(EventKind.KERNEL)
    as_graphs = not len(kernels) and len(trace.events.of_kind(EventKind.GRAPH))
    orphans = len(kernels) - np.count_nonzero(has_launch[kernels])
    if (
        as_graphs
        or (len(kernels) and not ran)
        or linked > ONE_TO_ONE * ran
        or orphans > MAX_ORPHANS * len(kernels)
    ):
        return Completeness(0, np.empty(0, np.int64))
    outermost, has_operation = _by_outermost(trace, launches, has_operation[launches])
    return Completeness(len(outermost), outermost[~has_operation])


def is_cut(trace: Trace) -> bool:
    """Whether a file ended early or is damaged, so that what it does not hold may have happened."""
    return any(note.kind in _CUT for note in trace.quality.notes)


def ends_early(trace: Trace) -> bool:
    """Whether a file ended in the middle."""
    return any(note.kind in _ENDED for note in trace.quality.notes)


def lacks_a_part(trace: Trace) -> bool:
    """Whether a file of GPU work or memory ended in the middle or has a stretch there that cannot be read: files are
    written by kinds of events, not by time, so what is missing may have happened anywhere."""
    cut = ends_early(trace) or any(note.kind == _DAMAGED for note in trace.quality.notes)
    return cut and (len(trace.gpu_operations) > 0 or bool(trace.memory))


def is_sample(trace: Trace) -> bool:
    """Whether most calls were taken out of a recording after it was made, as the numbers of those left say, or most
    operations, as the waits say that those left had."""
    if trace.quality.operations_missing_before > MAJORITY * len(trace.gpu_operations):
        return True
    column = trace.attributes.get(Attribute.CORRELATION)
    if column is None:
        return False
    numbers = ascending(column.value[of_kinds(trace.events.kind[column.event], EventKind.API)])
    if len(numbers) < MIN_LAUNCHES:
        return False
    reach = (numbers[-1] - numbers[0]) / len(numbers)
    return bool(median_of(np.diff(numbers)) >= MIN_APART and reach >= MIN_REACH)


def _by_outermost(trace: Trace, launches: I64, linked: BOOL) -> tuple[I64, BOOL]:
    """Launches that lie in no other launch, and whether they or any in them are linked: one call makes another."""
    lane, start, end = trace.events.lane[launches], trace.events.start[launches], trace.events.end[launches]
    if (order := stable_order(start, within=lane)) is not None:
        launches, linked = launches[order], linked[order]
        lane, start, end = lane[order], start[order], end[order]
    begins = np.ones(len(launches), bool)
    edges = [0, *(np.flatnonzero(np.diff(lane)) + 1).tolist(), len(lane)]
    for first, last in pairwise(edges):
        reach = np.maximum.accumulate(end[first:last])
        begins[first + 1 : last] = start[first + 1 : last] >= reach[:-1]
    groups = np.flatnonzero(begins)
    if not len(groups):
        return launches, linked
    return launches[groups], np.logical_or.reduceat(linked, groups)
