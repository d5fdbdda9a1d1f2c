"""The steps of a run: iterations of training or requests of inference, as the GPU executed them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from parsers.model import BOOL, I64, EventKind, Trace
from parsers.model.arrays import distinct_values, median_of, merged, stable_order
from parsers.model.events import of_kinds
from parsers.model.late import dataclass
from parsers.model.names.calls import Call, calls_of
from parsers.model.names.per_name import distinct, named
from parsers.model.names.steps import numbered, step_number
from rules.analysis.arithmetic.intervals import contains, durations, length, measure, union
from rules.analysis.names.operators import FIRST_CALLS, is_scripted
from rules.analysis.names.serving_steps import kind_of_step
from rules.analysis.steps.garbage import collections_among
from rules.analysis.steps.marks import Mark, cycles_of_loops, cycles_of_regions, follow_on, mark_of
from rules.analysis.steps.repetition import repetitions
from rules.terms import DEFAULTS, MAJORITY, NEARLY_ALL, Thresholds, Unit, threshold

WARM_UP_RATIO = threshold(
    "warm-up-step",
    "a leading step is warm-up from this many times the median of the later ones",
    Unit.TIMES,
    1.5,
    least=1.05,
    most=20,
    source="nsys-ai: longest step over the median",
)
SLOW_AGAIN = 0.5  # of the slowest early step
# of a step's launches: where the GPU ran fewer before the end of the recording, the step is cut off
BEFORE_RECORDING = -1
NEVER = np.iinfo(np.int64).max
# the same for what the program itself counts as its steps: others ran before the first mark
NEARLY_ALL_OUTSIDE = 0.75
SIDE_BY_SIDE = 0.1  # of the time of threads' regions that may overlap before they are requests served at once


@dataclass(frozen=True, slots=True)
class Step:
    """One iteration of one rank; ``steady`` is False for warm-up and other steps that do not represent the run.

    ``start`` is where its annotation starts, or where the GPU finished the work launched before, whichever is later;
    so a step holds the GPU work that it launched, also when the host runs ahead. ``found_by`` says how it was found:
    "ProfilerStep", "region" or "repetition". ``event`` is the annotation's event, -1 without one.
    """

    name: str
    rank: int | None
    start: int
    end: int
    steady: bool = True
    found_by: str = "ProfilerStep"
    event: int = -1

    @property
    def duration(self) -> int:
        return self.end - self.start


def find_steps(trace: Trace, thresholds: Thresholds = DEFAULTS) -> tuple[Step, ...]:
    """The steps of every rank, by rank and time; none where nothing repeats."""
    found: list[Step] = []
    for rank in distinct_values(trace.lane_rank).tolist():
        found += _steps_of_rank(trace, rank, thresholds[WARM_UP_RATIO])
    return tuple(found)


def _steps_of_rank(trace: Trace, rank: int, warm_up_ratio: float) -> list[Step]:
    lanes = trace.lane_rank == rank
    operations, launched = launched_operations(trace, rank)
    label = None if rank < 0 else rank
    annotations, found_by = _annotations(trace, lanes, operations, launched)
    if annotations is not None:
        starts, ends = _edges(trace, annotations)
        names = [trace.name(event) for event in annotations.tolist()]
        windows = _as_the_gpu_ran_them(trace, starts, ends, follow_on(names), operations, launched)
        steps = [
            Step(name, label, start, end, True, found_by, event)
            for name, event, (start, end) in zip(names, annotations.tolist(), windows, strict=True)
        ]
    else:
        cycles, found_by = _cycles(trace, lanes, operations, launched)
        steps = [
            Step(f"iteration {index + 1}", label, start, end, True, found_by)
            for index, (start, end) in enumerate(cycles)
        ]
    steps = [step for step in steps if step.end > step.start]
    outside = 1 - _share_within(trace, steps, operations) if steps and found_by != "ProfilerStep" else 0.0
    counted = all(step_number(step.name) is not None for step in steps) and annotations is not None
    if outside > (NEARLY_ALL_OUTSIDE if counted else MAJORITY):
        return []
    has_work = np.array(_has_work(trace, steps, operations), bool) & ~_cut_off(trace, steps, lanes)
    return _with_warm_up_marked(trace, lanes, steps, has_work.tolist(), warm_up_ratio)


def _cut_off(trace: Trace, steps: list[Step], lanes: BOOL) -> BOOL:
    """Steps at the end whose launches have no GPU operation: the recording ended before the GPU ran them."""
    cut = np.zeros(len(steps), bool)
    if not steps or any(step.event < 0 for step in steps):
        return cut
    launches = trace.events.of_kind(EventKind.API)
    launches = launches[lanes[trace.events.lane[launches]]]
    launching = of_kinds(calls_of(trace), Call.LAUNCH, Call.GRAPH_LAUNCH)
    launches = trace.events.by_start(launches[launching[trace.events.name[launches]]])
    at = trace.events.start[launches]
    ran = np.concatenate(([0], np.cumsum(trace.launched_something[launches])))
    annotations = np.array([step.event for step in steps], np.int64)
    first, last = (
        np.searchsorted(at, times[annotations]) for times in (trace.events.start, trace.events.end)
    )
    share = (ran[last] - ran[first]) / np.maximum(last - first, 1)
    lost = (last > first) & (share < NEARLY_ALL)
    if lost.all():
        return cut
    cut[np.flatnonzero(~lost)[-1] + 1 :] = True
    return cut


def _has_work(trace: Trace, steps: list[Step], operations: I64) -> list[bool]:
    """Whether any GPU operation runs in each step; all of them where none has any."""
    starts = merged(trace.events.start[operations])
    counts = [int(np.diff(np.searchsorted(starts, (step.start, step.end)))[0]) for step in steps]
    return [count > 0 for count in counts] if any(counts) else [True] * len(steps)


def launched_operations(trace: Trace, rank: int) -> tuple[I64, I64]:
    """GPU operations of a rank (-1: those of none) in order of their launch, and when each was launched.

    Operations without a launch row that precede every launched one of their stream were launched before the
    recording began.
    """
    operations = trace.gpu_operations[trace.lane_rank[trace.events.lane[trace.gpu_operations]] == rank]
    launch = trace.links.launch_of(operations)
    start = trace.events.start[operations]
    linked = launch >= 0
    lane = trace.events.lane[operations]
    first_linked = np.full(len(trace.lanes), NEVER, np.int64)
    np.minimum.at(first_linked, lane[linked], start[linked])
    early = (first_linked[lane] != NEVER) & (start < first_linked[lane])
    unlinked = np.where(early, BEFORE_RECORDING, start)
    launched = (
        np.where(linked, trace.events.start[np.maximum(launch, 0)], unlinked) if len(operations) else start
    )
    order = stable_order(start, within=launched)
    return (operations, launched) if order is None else (operations[order], launched[order])


def _cycles(trace: Trace, lanes: BOOL, operations: I64, launched: I64) -> tuple[list[tuple[int, int]], str]:
    """Iterations without an annotation of their own: by regions that take turns, kernels, or the framework's marks."""
    cycles = cycles_of_regions(trace, lanes)
    if cycles is not None and _coverage(trace, cycles[2], launched) >= MAJORITY:
        starts, ends, _ = cycles
    elif repeated := repetitions(trace, operations):
        return repeated, "repetition"
    elif (loops := cycles_of_loops(trace, lanes)) is not None:
        starts, ends = loops
    else:
        return [], "repetition"
    follows = np.ones(len(starts) - 1, bool)
    return _as_the_gpu_ran_them(trace, starts, ends, follows, operations, launched), "region"


def _as_the_gpu_ran_them(
    trace: Trace, starts: I64, ends: I64, follows: BOOL, operations: I64, launched: I64
) -> list[tuple[int, int]]:
    done = np.maximum.accumulate(trace.events.end[operations]) if len(operations) else np.empty(0, np.int64)

    def boundary(times: I64) -> I64:
        before = np.searchsorted(launched, times, side="left") - 1
        return np.maximum(times, np.where(before < 0, 0, done[np.maximum(before, 0)])) if len(done) else times

    first = boundary(starts)
    last = boundary(ends)
    last[:-1] = np.where(follows, first[1:], last[:-1])
    return list(zip(first.tolist(), np.maximum(last, first).tolist(), strict=True))


def _annotations(
    trace: Trace, lanes: BOOL, operations: I64, launched: I64
) -> tuple[I64, str] | tuple[None, str]:
    stated = trace.events.of_kind(EventKind.STEP)
    stated = stated[lanes[trace.events.lane[stated]]]
    profiler = [event for event in stated.tolist() if trace.name(event).startswith("ProfilerStep")]
    single: I64 | None = None
    for candidates, found_by in ((profiler, "ProfilerStep"), (stated.tolist(), "region")):
        if candidates:
            chosen = _disjoint(trace, _of_one_lane(trace, np.array(candidates, np.int64)))
            if not len(operations) and _are_only_remainders(trace, lanes, chosen):
                continue
            if len(chosen) > 1:
                return chosen, found_by
            single = chosen if single is None and found_by == "ProfilerStep" else single
    regions = _step_regions(trace, lanes, operations, launched)
    if regions is not None:
        return regions, "region"
    return (single, "ProfilerStep") if single is not None else (None, "")


def _of_one_lane(trace: Trace, events: I64) -> I64:
    """Where several lanes state the same steps, as XProf's do for each device, those of the lane that has most."""
    lanes, names = trace.events.lane[events], trace.events.name[events]
    most = events[lanes == np.bincount(lanes).argmax()]
    return most if np.isin(names, trace.events.name[most]).all() else events


def _are_only_remainders(trace: Trace, lanes: BOOL, steps: I64) -> bool:
    """Whether neither an operator nor a range begins in any: what the program does came before its profiler's step().

    PyTorch's first profilers marked with a range only the call of step() itself.
    """
    named = trace.events.of_kind(EventKind.CPU_OP, EventKind.REGION)
    begun = trace.events.start[named[lanes[trace.events.lane[named]]]]
    return len(begun) > 0 and not contains(trace.events.spans(steps), begun).any()


def _disjoint(trace: Trace, events: I64) -> I64:
    """Sorted by start, duplicates on other lanes and anything inside an earlier one left out."""
    events = events[np.lexsort((-trace.events.end[events], trace.events.start[events]))]
    if (trace.events.start[events[1:]] >= trace.events.end[events[:-1]]).all():
        return events
    kept: list[int] = []
    for event in events.tolist():
        if not kept or trace.events.start[event] >= trace.events.end[kept[-1]]:
            kept.append(event)
    return np.array(kept, np.int64)


def _left_open(trace: Trace, events: I64) -> I64 | None:
    """Sorted by start, where each holds all later ones: ranges that were pushed and not popped; None for others."""
    events = trace.events.by_start(events)
    starts, ends = trace.events.spans(events)
    return (
        events if len(events) > 2 and (starts[1:] < ends[-1]).all() and (np.diff(ends) <= 0).all() else None
    )


def _edges(trace: Trace, events: I64) -> tuple[I64, I64]:
    """Where steps start and end by their annotations; one that was left open ends where the next one starts."""
    starts, ends = trace.events.start[events], trace.events.end[events].copy()
    if len(events) > 1 and (starts[1:] < ends[:-1]).any():
        ends[:-1] = np.minimum(ends[:-1], starts[1:])
        ends[-1] = min(ends[-1], starts[-1] + int(median_of(np.diff(starts))))
    return starts, ends


def _step_regions(trace: Trace, lanes: BOOL, operations: I64, launched: I64) -> I64 | None:
    """Regions that repeat and hold most launches: numbered ones, or same-named ones with a word for a step.

    Of several, those that give the GPU most work; of nested ones with the same work, the outer.
    """
    time = np.concatenate(([0], np.cumsum(durations(trace, operations)))) if len(operations) else np.zeros(1)
    regions = trace.events.of_kind(EventKind.REGION)
    regions = regions[lanes[trace.events.lane[regions]]]
    marks = {
        name: mark
        for name in distinct(trace.events.name[regions]).tolist()
        if (mark := mark_of(trace.strings[name])) is not None
    }
    may_be = np.zeros(len(trace.strings), bool)
    may_be[list(marks)] = True
    regions = regions[may_be[trace.events.name[regions]]]
    groups: dict[Mark, dict[int, list[int]]] = {}
    for event, lane, name in zip(
        regions.tolist(),
        trace.events.lane[regions].tolist(),
        trace.events.name[regions].tolist(),
        strict=True,
    ):
        groups.setdefault(marks[name], {}).setdefault(lane, []).append(event)
    scored = []
    for mark, of_lanes in groups.items():
        if _side_by_side(trace, [np.array(members, np.int64) for members in of_lanes.values()]):
            continue
        for members in of_lanes.values():
            events = np.array(members, np.int64)
            if (len(events) < 2 and not mark.stated) or (mark.numbered and not _counts_up(trace, events)):
                continue
            chosen = _left_open(trace, events) if mark.numbered else None
            if chosen is None:
                chosen = _disjoint(trace, events)
            if len(chosen) < len(events) or _coverage(trace, chosen, launched) < MAJORITY:
                continue
            if mark.numbered and _are_parts(trace, mark.stem, chosen, launched):
                continue
            starts, ends = _edges(trace, chosen)
            work = int(
                (time[np.searchsorted(launched, ends)] - time[np.searchsorted(launched, starts)]).sum()
            )
            scored.append((not mark.is_coarse, mark.says_step, work, float((ends - starts).mean()), chosen))
    return max(scored, key=lambda each: each[:4])[4] if scored else None


def _share_within(trace: Trace, steps: list[Step], operations: I64) -> float:
    """The share of the operations' time between the first and the last step; 1 without operations."""
    starts, times = trace.events.start[operations], durations(trace, operations)
    inside = (starts >= steps[0].start) & (starts < max(step.end for step in steps))
    return float(times[inside].sum() / max(times.sum(), 1)) if len(operations) else 1.0


def _side_by_side(trace: Trace, groups: list[I64]) -> bool:
    """Whether regions of one sort run on several threads at the same time: requests that are served at once."""
    if len(groups) < 2:
        return False
    joined = [union(*trace.events.spans(events)) for events in groups]
    apart = sum(length(each) for each in joined)
    together = length(union(*(np.concatenate(edges) for edges in zip(*joined, strict=True))))
    return together < (1 - SIDE_BY_SIDE) * apart


def _counts_up(trace: Trace, events: I64) -> bool:
    ordered = trace.events.by_start(events)
    numbers = [parts[1] for event in ordered.tolist() if (parts := numbered(trace.name(event)))]
    return all(later > earlier for earlier, later in pairwise(numbers))


def _are_parts(trace: Trace, whole: str, events: I64, launched: I64) -> bool:
    """Whether these are parts of one range, numbered within it ("load 2 1" in "load 2"), and one launches most."""
    if numbered(whole) is None:
        return False
    low, high = trace.events.start[events].min(), trace.events.end[events].max()
    regions = trace.events.of_kind(EventKind.REGION)
    around = regions[(trace.events.start[regions] <= low) & (trace.events.end[regions] >= high)]
    if not any(trace.name(event) == whole for event in around.tolist()):
        return False
    starts, ends = trace.events.spans(events)
    launches = np.searchsorted(launched, ends) - np.searchsorted(launched, starts)
    return bool(launches.max(initial=0) >= NEARLY_ALL * launches.sum())


def _coverage(trace: Trace, events: I64, launched: I64) -> float:
    """The share of the launches between the first start and the last end that happened inside the events."""
    starts, ends = _edges(trace, events)
    low, high = np.searchsorted(launched, [int(starts[0]), int(ends[-1])])
    if high <= low:
        return 1.0 if not len(launched) else 0.0
    inside = np.searchsorted(launched, ends) - np.searchsorted(launched, starts)
    return float(inside.sum()) / float(high - low)


def _with_warm_up_marked(
    trace: Trace, lanes: BOOL, steps: list[Step], has_work: list[bool], warm_up_ratio: float
) -> list[Step]:
    """Leading steps that are much slower than the later half are not steady, nor are steps without GPU work.

    Garbage is collected at any time: what that takes makes no step a warm-up. Nor is a prompt the warm-up of answers:
    where names tell what a step computes, it must be slow among its own kind as well, if there are several of it.
    """
    working = [index for index, works in enumerate(has_work) if works]
    lengths = np.array([step.duration for step in steps], np.int64) - collecting(trace, lanes, steps)
    times = lengths[working]
    if len(times) < 2:
        return [replace(step, steady=works) for step, works in zip(steps, has_work, strict=True)]
    compiled = [
        place
        for place in range(1, min(len(times), FIRST_CALLS))
        if _scripts_compile(trace, lanes, steps[working[place]])
    ]
    warm = np.arange(len(times)) <= _last_warm(times, warm_up_ratio, compiled)
    kinds = np.array([kind_of_step(steps[index].name) for index in working], np.int64)
    for kind in distinct_values(kinds[(kinds > 0) & warm]).tolist():
        mine = np.flatnonzero(kinds == kind)
        if len(mine) > 1:
            warm[mine] &= times[mine] > warm_up_ratio * float(median_of(times[mine[len(mine) // 2 :]]))
    left_out = {working[index] for index in np.flatnonzero(warm).tolist()}
    return [
        replace(step, steady=has_work[index] and index not in left_out) for index, step in enumerate(steps)
    ]


def collecting(trace: Trace, lanes: BOOL, steps: Sequence[Step]) -> I64:
    """How long Python collected garbage in each step, on any of these lanes (ns)."""
    spent = collections_among(trace, np.flatnonzero(lanes[trace.events.lane]))
    begins, ends = (np.array([getattr(step, edge) for step in steps], np.int64) for edge in ("start", "end"))
    return measure(spent, begins, ends)


def _scripts_compile(trace: Trace, lanes: BOOL, step: Step) -> bool:
    """Whether a call of TorchScript takes most of a step."""
    calls = trace.events.of_kind(EventKind.CPU_OP)
    calls = calls[lanes[trace.events.lane[calls]]]
    calls = calls[(trace.events.start[calls] >= step.start) & (trace.events.start[calls] < step.end)]
    calls = calls[named(trace, calls, is_scripted)]
    return bool((durations(trace, calls) > MAJORITY * step.duration).any())


def _last_warm(times: I64, warm_up_ratio: float, compiled: Sequence[int] = ()) -> int:
    """The last of the slow steps from the first one on, among them at most one fast one at a time; -1 without any.

    A program may compile again in its third step. Where a later step is about as slow, it is no warm-up. Scripted code
    only watches its first call, and compiles in the next: then its ``compiled`` step may be the first slow one.
    """
    usual = float(median_of(times[len(times) // 2 :]))
    last = -1
    for index in np.flatnonzero(times[: (len(times) + 1) // 2] > warm_up_ratio * usual).tolist():
        if index - last > (2 if last >= 0 else 1) and index not in compiled:
            break
        last = index
    if last < 0 or last + 1 >= len(times):
        return -1
    later, early = int(times[last + 1 :].max()), int(times[: last + 1].max())
    return -1 if later > warm_up_ratio * usual and later >= SLOW_AGAIN * early else last
