"""Stacks of samples as nested calls: what neighbouring samples of a thread share is one call that goes on."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

import numpy as np

from parsers.model import BOOL, I32, I64, Effect, EventKind, Excessive, Lane, LaneKind
from parsers.model.arrays import MAX_NUMBER, median_of
from parsers.model.builder import TraceBuilder
from parsers.model.late import dataclass
from parsers.model.quality import FEW_SAMPLES, MIN_SAMPLES

_MAX_SAMPLE = 1.5  # times the usual distance: where the next sample comes later, the thread did not run
MAX_THREADS = 20_000  # of one file
MAX_DEPTH = 4_000  # frames of one stack; Python's own limit is 1,000


COUNTED_NS = 10_000_000  # for which a sample stands where no time is stated: py-spy takes 100 a second
COUNTED = "The samples have no times: each is drawn as 10 ms, as if taken 100 times a second, in the order of the file."
WEIGHED_NS = 1  # for which one of a weight stands that is no count of samples, such as cycles
WEIGHED = (
    "The weights of the stacks cannot be numbers of samples, and their unit is not stated: each one is drawn as 1 ns, "
    "in the order of the file. Shares are right; times are only if the weights are nanoseconds."
)
OPERATORS_NS = 1_000  # PyTorch states microseconds
OPERATORS = (
    "Stacks of PyTorch's operators with their times, on the CPU or on the GPU: export_stacks does not say which of the "
    "two it was asked for."
)
_FEW_STACKS = 20  # of which each may well have been seen many thousand times
_OFTEN = 10_000  # more often than half of many stacks are seen: some are rare
_MAX_COUNTED = 30 * 24 * 3600 * 100  # of a month
_PERIOD = 1_000  # and more: what all weights are multiples of is what one sample stands for


@dataclass(frozen=True, slots=True, eq=False)
class SampledThread:
    """The samples of one thread in their order; times in ns, each sample stands for [start, end).

    ``frame`` holds the frames of all stacks, outermost first, as the builder's strings; stack ``n`` is
    ``frame[offset[n] : offset[n + 1]]``.
    """

    name: str
    start: I64
    end: I64
    offset: I64
    frame: I32
    process: int | None = None
    thread: int | None = None


def add_thread(builder: TraceBuilder, sampled: SampledThread) -> None:
    """Add the calls of one thread, to a lane of its own."""
    lane = builder.lane(
        Lane(LaneKind.SAMPLED_STACKS, sampled.name, process=sampled.process, thread=sampled.thread)
    )
    first, last, name = shared_calls(sampled.offset, sampled.frame, sampled.start[1:] == sampled.end[:-1])
    builder.quality.read(len(first))
    builder.add(sampled.start[first], sampled.end[last], name, lane, EventKind.SAMPLED_FRAME)


def shared_calls(offset: I64, frame: I32, goes_on: BOOL) -> tuple[I64, I64, I32]:
    """What neighbours in a row of stacks share, as calls: the first and the last stack of each, and its name.

    Stack ``n`` is ``frame[offset[n] : offset[n + 1]]``, outermost first. ``goes_on`` says of each stack but the first
    whether a call of the one before may go on in it.
    """
    length = np.diff(offset)
    if not len(length) or not int(length.max()):
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32)
    shared = _shared_with_before(offset, frame, goes_on, length)
    stack = np.repeat(np.arange(len(length)), length)
    depth = np.arange(len(frame)) - np.repeat(offset[:-1], length)
    begins = depth >= shared[stack]
    row, level, name = stack[begins], depth[begins], frame[begins]
    last = np.empty(len(row), np.int64)
    order = np.argsort(level, kind="stable")
    edges = np.searchsorted(level[order], np.arange(int(level.max()) + 2))
    for at in range(len(edges) - 1):
        mine = order[edges[at] : edges[at + 1]]
        # A call ends before the first later stack that shares no more frames than lie around it.
        stops = np.append(np.flatnonzero(shared <= at), len(length))
        last[mine] = stops[np.searchsorted(stops, row[mine], side="right")] - 1
    return row, last, name


def _shared_with_before(offset: I64, frame: I32, goes_on: BOOL, length: I64) -> I64:
    """How many of its outermost frames each stack has in common with the one before it; 0 behind a pause."""
    count = np.zeros(len(length), np.int64)
    least = np.minimum(length[1:], length[:-1])
    still = np.flatnonzero(goes_on & (least > 0)) + 1
    first = offset[:-1]
    level = 0
    while len(still):
        same = frame[first[still] + level] == frame[first[still - 1] + level]
        still = still[same]
        level += 1
        count[still] = level
        still = still[least[still - 1] > level]
    return count


def add_calls(builder: TraceBuilder, lane: Lane, marks: Iterable[tuple[bool, int, int]]) -> int:
    """Add calls that are told by their beginnings and ends, in the order of time; returns how many marks fit nowhere.

    A mark says whether a call begins, which name it has (a string of the builder) and when (ns). What never ended ends
    with the last mark.
    """
    opened: list[int] = []  # numbers of calls
    names, starts, ends = array("i"), array("q"), array("q")
    now, wrong = -MAX_NUMBER, 0
    for begins, name, at in marks:
        fits = len(opened) < MAX_DEPTH if begins else bool(opened) and names[opened[-1]] == name
        if at < now or not fits:
            wrong += 1
            continue
        now = at
        if begins:
            opened.append(len(names))
            names.append(name)
            starts.append(now)
            ends.append(MAX_NUMBER)
        else:
            ends[opened.pop()] = now
    if names:
        end = np.array(ends, np.int64)
        builder.quality.read(len(names))
        builder.add(
            np.array(starts, np.int64),
            np.where(end == MAX_NUMBER, now, end),
            np.array(names, np.int32),
            builder.lane(lane),
            EventKind.SAMPLED_FRAME,
        )
    return wrong


def usual_distance(times: Iterable[I64]) -> int:
    """The median time between two samples of a thread that follow one another, ns."""
    apart = [np.diff(np.sort(each)) for each in times if len(each) > 1]
    every = np.concatenate(apart) if apart else np.empty(0, np.int64)
    return max(int(median_of(every)), 1) if len(every) else COUNTED_NS


def sample_ends(time: I64, usual: int) -> I64:
    """Until when each sample stands: until the next one, if the thread ran until then; times are ascending."""
    follow = np.append(time[1:], np.iinfo(np.int64).max)
    return np.where(follow - time > round(_MAX_SAMPLE * usual), time + usual, follow)


def is_counted(weights: Iterable[float]) -> bool:
    """Whether the weights of stacks, whose unit is not stated, can be numbers of samples."""
    every = np.array(list(weights), np.float64)
    is_often = len(every) >= _FEW_STACKS and float(median_of(every)) > _OFTEN
    return not is_often and float(every.sum()) <= _MAX_COUNTED and not samples_in(every)


def samples_in(weights: Iterable[float]) -> int:
    """How many samples stacks hold whose weights are multiples of what one stands for, as cycles are; 0 for others."""
    every = np.array(list(weights), np.float64)
    whole = every.astype(np.int64)
    period = int(np.gcd.reduce(whole)) if len(every) > 1 and bool((whole == every).all()) else 0
    return int(whole.sum()) // period if period >= _PERIOD else 0


def tell_few(builder: TraceBuilder, samples: int) -> None:
    """Note how many samples there are, where that is too few for shares of the time."""
    if 0 < samples < MIN_SAMPLES:
        reason = "samples are too few to tell where the time went"
        builder.quality.note(FEW_SAMPLES, Effect.NOTED, reason, "", samples)


def set_aside(builder: TraceBuilder, what: str, count: int) -> None:
    """Account for samples that cannot be used; ``what`` they are, in the plural."""
    builder.quality.read(count)
    builder.quality.note("damaged", Effect.QUARANTINED, what, "", count)


def allow_threads(count: int) -> None:
    """Raise ``Excessive`` where no program has so many threads."""
    if count > MAX_THREADS:
        raise Excessive("threads", MAX_THREADS)


def stacks_of(samples: Sequence[Sequence[int]]) -> tuple[I64, I32]:
    """Offsets and frames of stacks that are lists, each cut after its outermost ``MAX_DEPTH`` frames."""
    kept = [each if len(each) <= MAX_DEPTH else each[:MAX_DEPTH] for each in samples]
    offset = np.zeros(len(kept) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, kept), np.int64, len(kept)), out=offset[1:])
    flat = np.fromiter((frame for each in kept for frame in each), np.int32, int(offset[-1]))
    return offset, flat


def frame_name(function: str, file: str, line: int) -> str:
    """ "train.py(12): load", as PyTorch's profiler calls frames; the function alone where its file is not known."""
    return f"{file}({line}): {function}" if file else function
