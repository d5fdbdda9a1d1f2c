"""Whether parts of a recording state their times in different units: ns, us or ms where the others have another one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from parsers.model import BOOL, F64, GPU_WORK, I32, I64, EventKind, Trace, derived
from parsers.model.arrays import Array, among, distinct_values, median_of
from parsers.model.events import of_kinds
from parsers.model.late import dataclass
from parsers.model.names.calls import WORK_CALLS, calls_of, runs_a_kernel
from parsers.model.names.per_name import named
from rules.analysis.gpu.gpu_vendor import is_another_kind
from rules.analysis.steps.first_use import first_launches

# Units differ by these powers of ten: times of one part are so many decades larger than those of the others.
_DECADES = (3, 6)
MIN_EVENTS = 20  # of a part: fewer are told nothing by their times
MAX_SAMPLED = 100_000  # events of a part, taken evenly
# How near to a power the ratio of two extents lies, and by how much the places of deciles in them may differ: one clock
# read in two units agrees exactly but for the delay from a launch to its operation.
SAME_EXTENT, SAME_EXTENT_OF_READINGS, SAME_COURSE = 0.05, 0.02, 0.05
# of the durations of one name: near enough to a power (0.2 decades are a factor of 1.6)
SAME_DURATIONS = 0.2
# No kernel takes less than 0.8 us, and no call that launches one less than 0.5: docs/predictions.md
IMPOSSIBLY_SHORT_NS = 100
SOME_OF_IT, MAJORITY = 0.2, 0.7
MIN_NAMES = 3  # that two ranks share
DEEP = 8  # rows: operations of a stream, and calls of a thread, hardly ever overlap one other


_CALLS = "the CPU's calls"
_PARTS = {
    _CALLS: (EventKind.API,),
    "operators and ranges": (EventKind.CPU_OP, EventKind.REGION, EventKind.STEP),
    "Python's frames": (EventKind.PYTHON,),
    "copies": (EventKind.MEMCPY,),
}


@dataclass(frozen=True, slots=True)
class OtherUnit:
    """``part`` of the recording has other times than ``than``: by ``decades`` powers of ten, where that is known."""

    part: str
    than: str
    decades: int = 0


@derived
def other_units(trace: Trace) -> tuple[OtherUnit, ...]:
    """Every part whose times cannot be in the unit of the others; none in a sound recording."""
    if not len(trace.gpu_operations):
        return ()
    return (*_other_courses(trace), *_impossible_durations(trace), *_overlapping(trace), *_other_ranks(trace))


def _evenly(events: I64) -> I64:
    return events[:: -(-len(events) // MAX_SAMPLED)] if len(events) > MAX_SAMPLED else events


def _other_courses(trace: Trace) -> Iterator[OtherUnit]:
    """Parts of one rank that go the same course as its GPU, in a thousand times the time or in a thousandth of it."""
    kind = trace.events.kind
    for rank in dict.fromkeys(lane.rank for lane in trace.lanes):
        mine = np.array([lane.rank == rank for lane in trace.lanes], bool)
        here = mine[trace.events.lane]
        on_gpu = _starts(trace, here & of_kinds(kind, *GPU_WORK))
        for part, kinds in _PARTS.items():
            if decades := _decades_apart(_starts(trace, here & of_kinds(kind, *kinds)), on_gpu, SAME_EXTENT):
                yield OtherUnit(part, "the GPU's operations", decades)
        for counter in trace.counters:
            of = counter.rank if counter.device is None else trace.devices[counter.device].rank
            if of == rank and (decades := _decades_apart(counter.time, on_gpu, SAME_EXTENT_OF_READINGS)):
                yield OtherUnit(f"readings of {counter.name}", "the GPU's operations", decades)
                break


def _starts(trace: Trace, wanted: BOOL) -> I64:
    return np.asarray(trace.events.start[_evenly(np.flatnonzero(wanted))])


def _decades_apart(times: I64, others: I64, tolerance: float) -> int:
    """By how many decades two columns of times that take the same course differ; 0 for any other pair."""
    if min(len(times), len(others)) < MIN_EVENTS:
        return 0
    extents = [float(each.max() - each.min()) for each in (times, others)]
    if min(extents) <= 0:
        return 0
    decades = _whole(float(np.log10(extents[0] / extents[1])), np.log10(1 + tolerance))
    if not decades:
        return 0
    mine, theirs = (np.quantile(each, np.linspace(0.0, 1.0, 11)) for each in (times, others))
    course = [(each - each[0]) / extent for each, extent in zip((mine, theirs), extents, strict=True)]
    return decades if np.abs(course[0] - course[1]).max() <= SAME_COURSE else 0


def _whole(logarithm: float, tolerance: float) -> int:
    """The power of ten that two units differ by, where a ratio is one; else 0."""
    decades = round(logarithm)
    return decades if abs(decades) in _DECADES and abs(logarithm - decades) <= tolerance else 0


def _impossible_durations(trace: Trace) -> Iterator[OtherUnit]:
    """Kernels and launches that are over sooner than any can be, or of which one name has two sorts of durations."""
    events = trace.events
    launching = of_kinds(calls_of(trace), *WORK_CALLS)
    parts = {
        "kernels": _evenly(events.of_kind(EventKind.KERNEL)),
        "launching calls": _evenly(events.of_kind(EventKind.API)),
    }
    calls = parts["launching calls"]
    calls = calls[launching[events.name[calls]]]
    parts["launching calls"] = calls[named(trace, calls, runs_a_kernel)]
    for part, found in parts.items():
        if len(found) < MIN_EVENTS:
            continue
        took = events.end[found] - events.start[found]
        timed = took > 0  # a recorder that knows no end states none
        over_at_once = found[(took < IMPOSSIBLY_SHORT_NS) & timed]
        short = np.count_nonzero(~_on_another_kind(trace, over_at_once))
        if short >= SOME_OF_IT * len(found):
            whole = "some " if short < MAJORITY * len(found) else ""
            yield OtherUnit(f"durations of {whole}{part}", "any that are possible")
            continue
        # first launches load code, which takes a thousand times as long
        timed &= ~among(found, distinct_values(first_launches(trace)))
        if decades := _two_sorts(events.name[found][timed], took[timed]):
            yield OtherUnit(f"durations of some {part}", "the others of the same names", decades)


def _on_another_kind(trace: Trace, events: I64) -> BOOL:
    """Which events ran on an accelerator that is no GPU: the start of a copy takes a few ns on a TPU."""
    other = np.array([is_another_kind(device) for device in trace.devices], bool)
    return np.append(other, False)[trace.lane_device[trace.events.lane[events]]]


def _overlapping(trace: Trace) -> Iterator[OtherUnit]:
    """Operations and calls most of which run on over many later ones of their own stream or thread."""
    events = trace.events
    clipped = sum(note.count for note in trace.quality.notes if note.kind == "overrun")
    for part, kinds in (("the GPU's operations", GPU_WORK), (_CALLS, (EventKind.API,))):
        found = of_kinds(events.kind, *kinds)
        count = np.count_nonzero(found)
        deep = np.count_nonzero(events.depth[found] >= DEEP) + (clipped if kinds is GPU_WORK else 0)
        if count >= MIN_EVENTS and deep >= SOME_OF_IT * count:
            yield OtherUnit(f"durations of {part}", "their starts")


def _two_sorts(name: I32, took: I64) -> int:
    """By how many decades the durations of most names fall into two sorts; 0 where they do not."""
    if len(name) < MIN_EVENTS or _apart(took.min(), took.max()) < min(_DECADES) - SAME_DURATIONS:
        return 0
    _, took, first, count = _sorted_by_name(name, took)
    low, high = (took[first + (count * part).astype(np.int64)] for part in (SOME_OF_IT, 1 - SOME_OF_IT))
    apart = _apart(low, high)
    enough = count >= 2 / SOME_OF_IT
    for decades in _DECADES:
        fits = enough & (np.abs(apart - decades) <= SAME_DURATIONS)
        if count[fits].sum() >= MAJORITY * len(name) and fits.sum() >= MAJORITY * enough.sum():
            return decades
    return 0


def _apart(low: I64, high: I64) -> F64:
    """How many decades lie between two durations (ns)."""
    return np.asarray(np.log10(np.maximum(high, 1) / np.maximum(low, 1)))


def _other_ranks(trace: Trace) -> Iterator[OtherUnit]:
    """Ranks whose kernels take a thousand times as long as kernels of the same names on the others."""
    kernels = _evenly(trace.events.of_kind(EventKind.KERNEL))
    rank_of_lane = trace.lane_rank
    rank = rank_of_lane[trace.events.lane[kernels]] if len(kernels) else kernels
    ranks = distinct_values(rank)
    if len(ranks) < 2:
        return
    took = np.log10(np.maximum(trace.events.end[kernels] - trace.events.start[kernels], 1))
    usual = {
        each: _usual(trace.events.name[kernels][rank == each], took[rank == each]) for each in ranks.tolist()
    }
    for each in ranks.tolist():
        apart = []
        for name, mine in usual[each].items():
            theirs = [usual[other][name] for other in usual if other != each and name in usual[other]]
            apart += [mine - float(median_of(theirs))] if theirs else []
        decades = _whole(float(median_of(apart)), SAME_DURATIONS) if len(apart) >= MIN_NAMES else 0
        if decades and (len(ranks) > 2 or each == ranks[-1]):
            yield OtherUnit(
                f"rank {each}", "the other ranks" if len(ranks) > 2 else f"rank {ranks[0]}", decades
            )


def _usual(name: I32, took: F64) -> dict[int, float]:
    """The median of each name."""
    names, took, first, count = _sorted_by_name(name, took)
    return dict(zip(names.tolist(), took[first + count // 2].tolist(), strict=True))


def _sorted_by_name(name: I32, took: Array) -> tuple[I32, Array, I64, I64]:
    """Each name, the durations by name and then by length, and for each name where its durations begin and how many."""
    order = np.lexsort((took, name))
    names, first, count = np.unique(name[order], return_index=True, return_counts=True)
    return names, took[order], first, count
