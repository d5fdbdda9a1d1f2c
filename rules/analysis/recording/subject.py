"""What a recording is of, where it is no run to judge: mixed units, lost records, a capture, first use, too little."""

from __future__ import annotations

from enum import Enum, auto

import numpy as np

from parsers.model import I64, EventKind, derived
from parsers.model.arrays import without
from parsers.model.events import of_kinds
from parsers.model.late import dataclass, regex
from parsers.model.names.calls import Call, calls_of
from parsers.model.names.kernels import is_migration
from parsers.model.names.per_name import distinct, named
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import (
    Intervals,
    clip,
    complement,
    durations,
    length,
    subtract,
    union,
)
from rules.analysis.gpu.launch_sizes import nearly_empty
from rules.analysis.names.families import Family
from rules.analysis.recording.captures import captures_in_steps, captures_of
from rules.analysis.recording.completeness import (
    completeness_of,
    failed_launches,
    gpus_missing,
    is_sample,
    numbers_missing,
)
from rules.analysis.recording.time_units import other_units
from rules.analysis.steps.analysed_time import LITTLE_WORK
from rules.analysis.steps.first_use import MIN_TIMES, NEVER_STEADY_NS, first_use, repeats
from rules.terms import MAJORITY, NEARLY_ALL

PART_OF_IT = 0.2  # of the time and of the launches: a capture that took so much is what was recorded
MIN_OPERATIONS = 20  # of the GPU: what it waits for between fewer, which do not repeat, is chance
MIN_FIRST_OPERATIONS = 100  # the same where hardly a kernel runs again
MIN_FILLING_OPERATIONS = 5  # that fill the time: so much of it,
FILLED = 0.65  # for what the GPU waits for between so few is chance
# the CPU takes as long to launch so few: how it came to fall behind decides that they fill it
MIN_FILLED_NS = 200_000
_MIN_LONG = 3  # of so long each, as the copies of a native program are: nor are they
_LONG_NS = 1_000_000
_VERY_LONG_NS = 10_000_000  # one operation of such length that fills the time is what the program does
HARDLY = 0.01  # of the analysed time: what the GPU waits for between so little work is start-up
BEHIND = 0.1  # of the analysed time that a GPU works on after the CPU has ended
_CAPTURING = regex(
    r"^capture_|CUDAGraphNode.{0,200}?\brecord\b|cudagraph_trees.{0,200}?\brecord\b|capture_(model|graph)s?\b"
)


class SubjectKind(Enum):
    """What there is to see instead of a run."""

    TOO_LITTLE = auto()
    GRAPH_CAPTURE = auto()
    FIRST_USE = auto()
    FAILED_LAUNCHES = auto()
    LOST_RECORDS = auto()
    LOST_GPUS = auto()
    OTHER_UNIT = auto()
    SAMPLE = auto()
    WAITS_INCLUDED = auto()
    ONLY_COPIES = auto()
    ONLY_COLLECTIVES = auto()
    ONE_BY_ONE = auto()


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """``intervals`` are where it happens, ``events`` the calls or regions that show it, longest first."""

    kind: SubjectKind
    share: float  # of the analysed time
    operations: int  # that the GPU ran
    launches: int  # that were noted down and not run, that failed, or whose operations are missing
    intervals: Intervals
    events: I64

    @property
    def lacks_records(self) -> bool:
        """Whether what is missing ran, so that the time between what is left is not idle."""
        return self.kind in (SubjectKind.LOST_RECORDS, SubjectKind.LOST_GPUS, SubjectKind.SAMPLE)


@derived
def subject_of(analysis: Analysis) -> Subject | None:
    """What was recorded instead of a run; None for a run, and for recordings without GPU work."""
    trace = analysis.trace
    operations = trace.gpu_operations
    if not len(operations) or analysis.window_ns <= 0:
        return None
    found = (
        _other_unit(analysis)
        or _one_by_one(analysis)
        or _capture(analysis)
        or _failed_launches(analysis)
        or _lost_records(analysis)
        or _waits_included(analysis)
    )
    if found is None:
        found = _only_copies(analysis) or _too_little(analysis, MIN_OPERATIONS)
    if found is None and analysis.steps_in_window < 2:
        found = _only_collectives(analysis) or _first_use(analysis) or _first_pass(analysis)
    if found is None and not repeats(trace, operations):
        found = _too_little(analysis, MIN_FIRST_OPERATIONS)
    return found


def _other_unit(analysis: Analysis) -> Subject | None:
    """Times that cannot be compared: no gap between them is one."""
    if not other_units(analysis.trace):
        return None
    none = np.empty(0, np.int64)
    return Subject(SubjectKind.OTHER_UNIT, 1.0, len(analysis.trace.gpu_operations), 0, (none, none), none)


def _one_by_one(analysis: Analysis) -> Subject | None:
    """Kernels that a profiler ran alone to read their counters: only their own times are the program's.

    Where they fill the time all the same, what lies between them does not matter.
    """
    if not analysis.trace.quality.kernels_ran_one_by_one or _busy_ns(analysis) >= FILLED * analysis.window_ns:
        return None
    none = np.empty(0, np.int64)
    return Subject(SubjectKind.ONE_BY_ONE, 1.0, len(analysis.trace.gpu_operations), 0, (none, none), none)


def _too_little(analysis: Analysis, least: int) -> Subject | None:
    trace, none = analysis.trace, np.empty(0, np.int64)
    operations = trace.gpu_operations
    pages = int(np.count_nonzero(named(trace, operations, is_migration)))
    counted = len(operations) - (pages if pages < MIN_OPERATIONS else 0)
    if counted >= least and not _hardly_works(analysis):
        return None
    busy = _busy_ns(analysis)
    fills = busy >= FILLED * analysis.window_ns
    if fills and counted >= MIN_FILLING_OPERATIONS and busy >= MIN_FILLED_NS:
        return None
    lasted = trace.events.duration[operations]
    if fills and (np.count_nonzero(lasted >= _LONG_NS) >= _MIN_LONG or lasted.max() >= _VERY_LONG_NS):
        return None
    if fills and busy >= _LONG_NS and _is_starved(analysis, busy):
        return None
    if analysis.steps_in_window >= 2 and analysis.work_outside_steps <= MAJORITY:
        return None
    return Subject(SubjectKind.TOO_LITTLE, 1.0, len(operations), 0, (none, none), none)


def _only_copies(analysis: Analysis) -> Subject | None:
    """Copies that leave the GPU idle most of the time, and not one kernel: a program that starts, or ends."""
    trace, none = analysis.trace, np.empty(0, np.int64)
    operations = trace.gpu_operations
    copies = trace.events.of_kind(EventKind.MEMCPY, EventKind.MEMSET)
    if len(operations) < MIN_OPERATIONS or len(copies) < len(operations) or completeness_of(trace).launches:
        return None
    if _busy_ns(analysis) >= MAJORITY * analysis.window_ns:
        return None
    return Subject(SubjectKind.ONLY_COPIES, 1.0, len(operations), 0, (none, none), none)


def _only_collectives(analysis: Analysis) -> Subject | None:
    """Collectives without any work to send something of, and gaps between them: a test of links, or a start."""
    trace, none = analysis.trace, np.empty(0, np.int64)
    kernels = trace.events.of_kind(EventKind.KERNEL, EventKind.GRAPH)
    computes = analysis.family_of_string[trace.events.name[kernels]] != Family.COLLECTIVE
    if not len(kernels) or computes.any() or _busy_ns(analysis) >= NEARLY_ALL * analysis.window_ns:
        return None
    return Subject(SubjectKind.ONLY_COLLECTIVES, 1.0, len(kernels), 0, (none, none), none)


def _hardly_works(analysis: Analysis) -> bool:
    """Whether few kernels ran, each once or twice, in a time that is a hundred times as long as the GPU's work."""
    trace = analysis.trace
    kernels = trace.events.of_kind(EventKind.KERNEL, EventKind.GRAPH)
    few = 0 < len(kernels) < min(MIN_OPERATIONS, MIN_TIMES * len(distinct(trace.events.name[kernels])))
    return few and _busy_ns(analysis) < HARDLY * analysis.window_ns


def _busy_ns(analysis: Analysis) -> int:
    events, operations = analysis.trace.events, analysis.trace.gpu_operations
    return length(clip(union(*events.spans(operations)), *analysis.window))


def _is_starved(analysis: Analysis, busy_ns: int) -> bool:
    """Whether kernels that their launch starves run for most of the busy time: one such launch tells enough."""
    starved = np.concatenate([nearly_empty(analysis, device)[0] for device in analysis.active_devices])
    return int(durations(analysis.trace, starved).sum()) >= MAJORITY * busy_ns


def _failed_launches(analysis: Analysis) -> Subject | None:
    """Every launch returned an error: no kernel ran, and none is missing."""
    failed, none = failed_launches(analysis.trace), np.empty(0, np.int64)
    if not failed.are_all:
        return None
    operations, launches = len(analysis.trace.gpu_operations), failed.launches
    return Subject(SubjectKind.FAILED_LAUNCHES, 1.0, operations, len(launches), (none, none), launches)


def _lost_records(analysis: Analysis) -> Subject | None:
    """Launches without operations: idle time between those that are left would be made of the missing ones."""
    completeness = completeness_of(analysis.trace)
    none = np.empty(0, np.int64)
    operations = len(analysis.trace.gpu_operations)
    if is_sample(analysis.trace):
        return Subject(SubjectKind.SAMPLE, 1.0, operations, 0, (none, none), none)
    if missing := numbers_missing(analysis.trace):
        share = missing / (missing + operations)
        return Subject(SubjectKind.LOST_RECORDS, share, operations, missing, (none, none), none)
    missing, started_on = gpus_missing(analysis.trace)
    if missing:
        share = missing / started_on
        return Subject(SubjectKind.LOST_GPUS, share, operations, 0, (none, none), none)
    if not completeness.has_lost_records:
        return None
    return Subject(
        SubjectKind.LOST_RECORDS,
        1.0 - completeness.share,
        operations,
        len(completeness.lost),
        (none, none),
        completeness.lost,
    )


def _waits_included(analysis: Analysis) -> Subject | None:
    """Times between events around each operator hold its launch as well, unless the GPU is still at work long after the
    CPU: then it had a queue, and was never waiting."""
    trace = analysis.trace
    if not trace.quality.gpu_times_include_waiting:
        return None
    operations, operators = trace.gpu_operations, trace.events.of_kind(EventKind.CPU_OP)
    end = trace.events.end
    lag = int(end[operations].max()) - int(end[operators].max(initial=0))
    if lag >= BEHIND * analysis.window_ns:
        return None
    none = np.empty(0, np.int64)
    return Subject(SubjectKind.WAITS_INCLUDED, 1.0, len(operations), 0, (none, none), none)


def _capture(analysis: Analysis) -> Subject | None:
    trace = analysis.trace
    calls = trace.events.of_kind(EventKind.API)
    captures = captures_of(trace)
    ranges = trace.events.of_kind(EventKind.REGION, EventKind.PYTHON)
    ranges = ranges[named(trace, ranges, _CAPTURING.search)]
    where = union(
        np.concatenate((captures.start, trace.events.start[ranges])),
        np.concatenate((captures.end, trace.events.end[ranges])),
    )
    part = length(clip(where, *analysis.window)) / analysis.window_ns
    if part < PART_OF_IT or captures_in_steps(analysis):
        return None
    launches = calls[of_kinds(calls_of(trace)[trace.events.name[calls]], Call.LAUNCH, Call.GRAPH_LAUNCH)]
    made = len(launches)
    launches = launches[~trace.launched_something[launches]]
    noted = sum(
        int(((trace.events.start[launches] >= start) & (trace.events.end[launches] <= end)).sum())
        for start, end in zip(*(each.tolist() for each in where), strict=True)
    )
    if part < MAJORITY and noted < PART_OF_IT * made:
        return None
    events = np.concatenate((captures.call, ranges))
    events = events[np.argsort(-durations(trace, events), kind="stable")]
    return Subject(SubjectKind.GRAPH_CAPTURE, part, len(trace.gpu_operations), noted, where, events)


def _first_use(analysis: Analysis) -> Subject | None:
    """Calls made for the first time keep the GPU waiting half of the time, or of what follows before it computes.

    What the CPU does while the GPU has hardly computed anything, such as making the model, is start-up as well then.
    """
    where, events = first_use(analysis.trace, *analysis.window)
    before = subtract(_before_computing(analysis), where)
    if length(where) < MAJORITY * (analysis.window_ns - length(before)):
        return None
    whole = union(np.concatenate((where[0], before[0])), np.concatenate((where[1], before[1])))
    part = length(whole) / analysis.window_ns
    return Subject(SubjectKind.FIRST_USE, part, len(analysis.trace.gpu_operations), 0, whole, events)


def _before_computing(analysis: Analysis) -> Intervals:
    """The waits of the busiest GPU before a small part of its computing is done; collectives and copies are none."""
    trace, events = analysis.trace, analysis.trace.events
    ran = max((trace.operations_of_device(device) for device in range(len(trace.devices))), key=len)
    kernels = ran[of_kinds(events.kind[ran], EventKind.KERNEL, EventKind.GRAPH)]
    kernels = events.by_start(without(kernels, trace.collective_kernels))
    done = np.cumsum(events.duration[kernels])
    start, end = analysis.window
    if not len(kernels) or not done[-1]:
        return complement(union(*events.spans(ran)), start, start)
    edge = int(events.start[kernels[np.searchsorted(done, LITTLE_WORK * done[-1], side="right")]])
    return complement(union(*events.spans(ran)), start, min(max(edge, start), end))


def _first_pass(analysis: Analysis) -> Subject | None:
    """The operator or region whose first call waits for the GPU's context goes on to the end of the recorded work.

    What follows the wait in it is then the first pass as well: memory is asked for and kernels are chosen in it.
    """
    trace, waited = analysis.trace, analysis.analysed.set_aside
    if waited is None or waited.before_work or waited.took < NEARLY_ALL * (waited.took + analysis.window_ns):
        return None
    events = trace.events
    where, calls = first_use(trace, waited.start, waited.end)
    calls = calls[events.duration[calls] >= NEVER_STEADY_NS]
    if not len(calls):
        return None
    threads = analysis.threads
    of_thread = threads.events(int(threads.of_events(calls[:1])[0]))
    around = of_thread[of_kinds(events.kind[of_thread], EventKind.CPU_OP, EventKind.REGION)]
    around = around[events.start[around] <= events.start[calls[0]]]
    later = np.sort(events.start[of_thread[of_kinds(events.kind[of_thread], EventKind.API)]])
    later = later[later >= waited.end]
    if not len(around) or np.searchsorted(later, events.end[around].max()) < NEARLY_ALL * len(later):
        return None
    part = waited.took / (waited.took + analysis.window_ns)
    return Subject(SubjectKind.FIRST_USE, part, len(trace.gpu_operations), 0, where, calls)
