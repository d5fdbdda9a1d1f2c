"""Which part of a recording is replayed: some steady steps of every rank, as the CPU went through them."""

from __future__ import annotations

import numpy as np

from parsers.model import F64, I64
from parsers.model.late import dataclass
from parsers.model.names.calls import Call, calls_of
from rules.analysis.analysis import Analysis
from rules.analysis.steps.steps import Step

MAX_STEPS = 16  # where the first of them are like all
UNUSUAL = 0.25  # by such a part longer or shorter than all steps on average
# of the API calls of all ranks in the replayed steps; the first three steps are never left out
MAX_EVENTS = 60_000
MIN_STEPS = 3
OUTLASTS = 0.5  # of what is analysed
STARTS_AT_ONCE_NS = 20_000  # a kernel's launch that began longer before the GPU did anything loads its code


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """The replayed steps of one rank: ``edges`` are the CPU times (ns) at which each begins, and the last one's end.

    ``numbers`` are the steps' places among all steps of the rank; empty where the recording has no steps and the
    whole of it is replayed as one.
    """

    rank: int | None
    devices: tuple[int, ...]
    edges: I64
    numbers: tuple[int, ...]

    @property
    def start(self) -> int:
        return int(self.edges[0])

    @property
    def end(self) -> int:
        return int(self.edges[-1])

    @property
    def count(self) -> int:
        """Steps, at least one."""
        return len(self.edges) - 1


def spans_of(analysis: Analysis) -> tuple[Span, ...]:
    """One span for each rank that works on a GPU, all with equally many steps; none where nothing ran.

    The steps are in the longest run of steady ones, and as many as have ``MAX_EVENTS`` calls: the first ``MAX_STEPS``,
    or where these take unusually long or short, all, or those that take as long as all of the run on average.
    """
    trace = analysis.trace
    ranks = sorted(
        {-1 if (rank := trace.devices[device].rank) is None else rank for device in analysis.active_devices}
    )
    found = [_span_of(analysis, None if rank < 0 else rank) for rank in ranks]
    if not found:
        return ()
    count = min(span.count for span in found)
    first, most = _chosen(analysis, found, count)
    return tuple(
        Span(
            span.rank, span.devices, span.edges[first : first + most + 1], span.numbers[first : first + most]
        )
        for span in found
    )


def _span_of(analysis: Analysis, rank: int | None) -> Span:
    trace = analysis.trace
    devices = tuple(device for device in analysis.active_devices if trace.devices[device].rank == rank)
    mine = [step for step in analysis.steps if step.rank == rank]
    run = _longest_run([step.steady for step in mine])
    if not run:
        t0, t1 = _launching_time(analysis, devices)
        return Span(rank, devices, np.array([t0, t1], np.int64), ())
    starts = [_launched_from(analysis, devices, mine[number]) for number in run]
    following = mine[run[-1] + 1 : run[-1] + 2]
    end = (
        _launched_from(analysis, devices, following[0])
        if following
        else _end(analysis, devices, mine[run[-1]])
    )
    edges = np.maximum.accumulate(np.array([*starts, max(end, starts[-1])], np.int64))
    return Span(rank, devices, edges, tuple(run))


def _longest_run(steady: list[bool]) -> list[int]:
    """The places of the longest unbroken run of True; the first of equally long ones."""
    best: list[int] = []
    run: list[int] = []
    for place, each in enumerate(steady):
        run = [*run, place] if each else []
        if len(run) > len(best):
            best = run
    return best


def _launched_from(analysis: Analysis, devices: tuple[int, ...], step: Step) -> int:
    """When the CPU began a step: its annotation's start, else the launch of its first GPU operation."""
    trace = analysis.trace
    if step.event >= 0:
        return int(trace.events.start[step.event])
    first: list[int] = []
    for device in devices:
        operations = analysis.trace.operations_of_device(device)
        at = int(np.searchsorted(trace.events.start[operations], step.start))
        here = operations[at : at + 1]
        launch = trace.links.launch_of(here)
        first += trace.events.start[launch[launch >= 0]].tolist()
    return min(first, default=step.start)


def _end(analysis: Analysis, devices: tuple[int, ...], step: Step) -> int:
    """Where the last recorded step ends for the CPU."""
    if step.event >= 0:
        return min(int(analysis.trace.events.end[step.event]), step.end)
    t0, t1 = _launching_time(analysis, devices)
    return max(t0, min(t1, step.end))


def _launching_time(analysis: Analysis, devices: tuple[int, ...]) -> tuple[int, int]:
    """From the first launch of what is analysed to the end of the last call that a launching thread makes meanwhile.

    A call that goes on for long when the GPU is done waits for what is not analysed, and is no part of it.
    """
    trace, (begin, end) = analysis.trace, analysis.window
    latest = end + OUTLASTS * (end - begin)
    starts, ends = [], []
    for device in devices:
        operations = trace.operations_of_device(device)
        at = trace.events.start[operations]
        launches = trace.links.launch_of(operations[(at >= begin) & (at < end)])
        launches = launches[launches >= 0]
        early = trace.events.start[launches] < begin - STARTS_AT_ONCE_NS
        early &= calls_of(trace)[trace.events.name[launches]] == Call.LAUNCH
        launches = launches[~early] if not early.all() else launches
        if len(launches):
            starts.append(int(trace.events.start[launches].min()))
            ends.append(int(trace.events.end[launches].max()))
            for thread in analysis.threads.drivers(device)[0]:
                calls, _ = analysis.threads.noted_calls(thread)
                calls = calls[trace.events.start[calls] < end]
                calls = calls[trace.events.end[calls] <= latest]
                if len(calls):
                    ends.append(int(trace.events.end[calls].max()))
    return (min(starts), max(ends)) if starts else (0, 0)


def _chosen(analysis: Analysis, spans: list[Span], count: int) -> tuple[int, int]:
    """The first of the steps that are replayed, and how many, of ``count`` that each rank has."""
    calls = np.zeros(count, np.int64)
    trace = analysis.trace
    for span in spans:
        threads = {thread for device in span.devices for thread in analysis.threads.drivers(device)[0]}
        for thread in threads:
            noted, _ = analysis.threads.noted_calls(thread)
            calls += np.diff(np.searchsorted(trace.events.start[noted], span.edges[: count + 1]))
    within = max(int(np.count_nonzero(np.cumsum(calls) <= MAX_EVENTS)), min(MIN_STEPS, count))
    first = min(within, MAX_STEPS)
    lengths = np.mean([np.diff(span.edges[: count + 1]) for span in spans], axis=0)
    if abs(lengths[:first].mean() - lengths.mean()) <= UNUSUAL * lengths.mean():
        return 0, first
    away = np.abs(_sums(lengths, within) / within - lengths.mean())
    away[1:][_sums(calls, within)[1:] > MAX_EVENTS] = np.inf
    return int(away.argmin()), within


def _sums(values: F64 | I64, many: int) -> F64:
    """The sum of each so many neighbours."""
    total: F64 = np.append(0.0, np.cumsum(values))
    sums: F64 = total[many:] - total[:-many]
    return sums
