"""Where the time of a program without a GPU goes: loading, operators, and what lies between them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from parsers.model import BOOL, I64, EventKind, Trace, derived
from parsers.model.arrays import distinct_values, median_of, percentile_of, without
from parsers.model.events import of_kinds
from parsers.model.late import dataclass, regex
from parsers.model.names.calls import Call, calls_of
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.innermost import Innermost, outermost
from rules.analysis.arithmetic.intervals import (
    Intervals,
    clip,
    complement,
    contains,
    intersect,
    length,
    measure,
    subtract,
    union,
)
from rules.analysis.cpu.interruptions import (
    LONG_GAP_NS,
    holds_rare_calls,
    interrupted_among,
    medians_of_kinds,
    too_long,
)
from rules.analysis.idle.threads import ThreadActivity
from rules.analysis.names.operators import waits_for_a_lock
from rules.analysis.names.software import runs_on_gpus_alone
from rules.analysis.recording.completeness import is_cut
from rules.analysis.recording.recording_costs import FRAME_ALONE_NS, MAX_SHARE_ALONE, WRITING_ALONE_NS
from rules.analysis.steps.garbage import collections_among
from rules.analysis.stretches.worker_starts import worker_starts

TRIVIAL_PERCENTILE = 10  # of operators' durations: how long one takes that computes hardly anything
MAX_CALL_NS = 10_000  # without what an operator computes
MIN_SAME_PLACE = 3  # steps that have the same place: of fewer, nobody knows which one is usual
_ON_CPU = regex(r"(gloo|mpi|ucc):")  # the ranges that PyTorch opens while a collective runs on the CPU
_OWN_RECORDER = regex(r"(.*[/\\])?stallscope_recorder[/\\](session|status)\.py")
_OF_A_GPU = regex(r"cuda|cudnn|cublas|nccl|miopen|hipblas|\bhip|triton", re.IGNORECASE)
# runs kernels that Inductor wrote, which no operator shows
_COMPILED_GRAPH = regex(r"##? ?Call CompiledFxGraph")
_ASKS_ON_ANY_DEVICE = "aten::cudnn_is_acceptable"  # as recurrent networks do on the CPU, too

Shares = list[tuple[int, int]]  # the longest event of each name, and ns in which that name is innermost


@dataclass(frozen=True, slots=True, eq=False)
class _Gaps:
    """When neither an operator nor a loader runs, and how long the same gap usually is."""

    start: I64
    end: I64
    interrupted: BOOL  # much longer than usual: something else had the CPU
    usual_ns: I64

    @property
    def ns(self) -> I64:
        return self.end - self.start

    @property
    def long(self) -> BOOL:
        return self.ns >= LONG_GAP_NS

    def where(self, chosen: BOOL) -> Intervals:
        return self.start[chosen], self.end[chosen]


@dataclass(frozen=True, eq=False)
class CpuTime:
    """The busiest thread of a recording without GPU work, inside ``window``; times in ns."""

    analysis: Analysis
    thread: int
    activity: ThreadActivity
    busy_ns: int
    collectives: Intervals  # that run on the CPU for this rank, on threads of their own
    # while workers of a data loader end and start, or Python collects its garbage: faults of their own
    pauses: Intervals
    step_begins: I64  # ascending

    @property
    def window(self) -> tuple[int, int]:
        return self.analysis.window

    @property
    def steps(self) -> int:
        return self.analysis.steps_in_window

    @property
    def window_ns(self) -> int:
        return self.analysis.window_ns

    @property
    def trace(self) -> Trace:
        return self.activity.trace

    @cached_property
    def starts_gpu_work(self) -> bool:
        """Whether operators, calls to the driver, or a library show that a GPU worked, which was not recorded."""
        calls = calls_of(self.trace)[self.trace.events.name[self.trace.events.of_kind(EventKind.API)]]
        if (calls > Call.SYNCHRONIZE).any() or runs_on_gpus_alone(self.trace):
            return (
                True  # what only asks, and the profiler's own wait at the end, are called without work, too
            )
        names = distinct_values(self.trace.events.name[self._operators]).tolist()
        return bool(self.trace.quality.operators_of_an_unrecorded_gpu) or any(
            _OF_A_GPU.search(name) and name != _ASKS_ON_ANY_DEVICE
            for name in map(self.trace.strings.__getitem__, names)
        )

    @cached_property
    def is_all(self) -> bool:
        """Whether operators were recorded, and nothing hints at a GPU that worked without being recorded."""
        return len(self._operators) > 0 and not self.trace.devices and not self.starts_gpu_work

    @property
    def _operators(self) -> I64:
        return self.activity.of_kind(EventKind.CPU_OP)

    @cached_property
    def loading(self) -> Intervals:
        """Inside a data loader, or a range named like one."""
        return subtract(clip(_open(self.activity.inputs), *self.window), self.pauses)

    @cached_property
    def computing(self) -> Intervals:
        """Inside operators and compiled graphs, loading left out."""
        table, mine = self.trace.events, self.activity.of_kind(EventKind.REGION)
        graphs = mine[named(self.trace, mine, _COMPILED_GRAPH.match)]
        running = union(*map(np.concatenate, zip(self.activity.running, table.spans(graphs), strict=True)))
        return subtract(clip(running, *self.window), self.loading)

    @property
    def computes(self) -> float:
        """The part of the window inside operators."""
        return length(self.computing) / max(self.window_ns, 1)

    @cached_property
    def operators(self) -> I64:
        """The outermost operators, by start, loading left out."""
        events = outermost(self.trace, self._operators)
        start = self.trace.events.start[events]
        inside = (start >= self.window[0]) & (start < self.window[1]) & ~contains(self.loading, start)
        return np.asarray(events[inside])

    @cached_property
    def calling(self) -> Intervals:
        """Short gaps between operators: what Python and PyTorch need to call the next one."""
        return self._gaps.where(~self._gaps.long)

    @cached_property
    def outside(self) -> Intervals:
        """Long times in which neither operator, loader nor collective runs, and which are no chance."""
        return subtract(self._gaps.where(self._gaps.long & ~self._gaps.interrupted), self.collectives)

    @cached_property
    def communicating(self) -> Intervals:
        """Long times in which neither an operator nor a loader runs, and a collective does."""
        return intersect(self._gaps.where(self._gaps.long), self.collectives)

    @cached_property
    def _gaps(self) -> _Gaps:
        """Without steps, what lies before the first and after the last operator is the profiler's start and end."""
        starts, ends = zip(self.computing, self.loading, self.pauses, strict=True)
        busy = union(np.concatenate(starts), np.concatenate(ends))
        if not len(busy[0]):
            start, end = complement(busy, *self.window)
            return _Gaps(start, end, np.zeros(len(start), bool), end - start)
        around = self.window if self.steps else (int(busy[0][0]), int(busy[1][-1]))
        start, end = subtract(complement(busy, *around), self._recorder)
        usual, took = self._usual_gaps(start, end), end - start
        less = self._usual_gaps(start, end, upper=False)
        in_doubt = interrupted_among(took, less) & ~interrupted_among(took, usual)
        if np.count_nonzero(interrupted_among(*self._usual_operators)) >= np.count_nonzero(in_doubt):
            usual = np.where(in_doubt, less, usual)
        interrupted = interrupted_among(took, usual) & ~too_long(took, usual)
        interrupted &= ~holds_rare_calls(self.activity, self.window, (start, end), interrupted)
        return _Gaps(start, end, interrupted, usual)

    @cached_property
    def _recorder(self) -> Intervals:
        """When this program's own recorder wrote what it is doing, where stacks show it."""
        table, frames = self.trace.events, self.activity.of_kind(EventKind.PYTHON)
        mine = frames[named(self.trace, frames, _OWN_RECORDER.match)]
        return union(*table.spans(mine))

    @cached_property
    def _usual_operators(self) -> tuple[I64, I64]:
        """How long each operator takes, and usually."""
        table, operators = self.trace.events, self.operators
        took = table.duration[operators].astype(np.int64)
        return took, self._usual(took, table.name[operators].astype(np.int64), table.start[operators])

    def _usual_gaps(self, start: I64, end: I64, *, upper: bool = True) -> I64:
        """How long each gap usually is; where half of them are long, these are the usual ones if ``upper``.

        At the same place of the other steps, or between these two operators anywhere where too few steps have that
        place. Between operators that are called for different things, as the tensors of a batch are made, the long gaps
        are where the work is.
        """
        table, operators = self.trace.events, self.operators
        after = np.searchsorted(table.start[operators], end)
        between = (after > 0) & (after < len(operators))
        between[between] = table.start[operators[after[between]]] == end[between]
        places = np.flatnonzero(between)
        names = table.name[operators].astype(np.int64)
        pair = names[after[places] - 1] << 32 | names[after[places]]
        long = (end - start)[places]
        usual = end - start
        usual[places] = self._usual(long, pair, start[places], upper=upper)
        return usual

    def _usual(self, took: I64, kind: I64, start: I64, *, upper: bool = True) -> I64:
        """How long each thing of a kind usually takes: at the same place of the steps, or anywhere if few have that."""
        step = np.searchsorted(self.step_begins, start, side="right")
        order = np.lexsort((start, kind, step))
        same = np.append(False, (np.diff(kind[order]) == 0) & (np.diff(step[order]) == 0))
        number = np.arange(len(order))
        place = np.empty(len(order), np.int64)
        place[order] = number - np.maximum.accumulate(np.where(same, 0, number))
        at_place, count = medians_of_kinds(took, kind, place, upper=upper)
        anywhere, _ = medians_of_kinds(took, kind)
        return np.where(count >= MIN_SAME_PLACE, at_place, anywhere)

    @cached_property
    def _interruptions(self) -> tuple[float, int]:
        """How many times longer all that is short took because something else had the CPU, and how short that is (ns).

        What takes no longer than a usual interruption shows whether it was interrupted. What takes longer holds its
        own ones.
        """
        gaps, (took, usual) = self._gaps, self._usual_operators
        took = np.append(took, gaps.ns)
        usual = np.append(usual, np.where(gaps.interrupted, gaps.usual_ns, gaps.ns))
        held_up = interrupted_among(took, usual)
        if not held_up.any():
            return 1.0, 0
        short = int(median_of((took - usual)[held_up]))
        usual = np.where(held_up, usual, took)
        brief = usual < short
        return float(took[brief].sum() / max(usual[brief].sum(), 1)), short

    @property
    def slowed(self) -> float:
        """How many times longer short operators and gaps took, all together, because something else had the CPU."""
        return self._interruptions[0]

    @cached_property
    def loading_ns(self) -> int:
        """Without the recorder, as the other figures below."""
        return self.without_recorder(self.loading)

    @cached_property
    def outside_ns(self) -> int:
        """With its part of the interruptions, which hit all that runs."""
        (slowed, short), (start, end) = self._interruptions, self.outside
        brief = end - start < short
        gaps = self._gaps
        hidden = gaps.interrupted & (gaps.usual_ns >= LONG_GAP_NS)
        more = (slowed - 1) * self.without_recorder((start[brief], end[brief]))
        more += np.where(gaps.usual_ns < short, slowed * gaps.usual_ns, gaps.ns)[hidden].sum()
        return min(self.outside_seen_ns + round(float(more)), self.step_ns - self.loading_ns)

    @cached_property
    def outside_seen_ns(self) -> int:
        """Without its part of the interruptions."""
        return self.without_recorder(self.outside)

    @cached_property
    def communicating_ns(self) -> int:
        return self.without_recorder(self.communicating)

    @cached_property
    def step_ns(self) -> int:
        """All of the window."""
        rest = subtract(subtract(subtract(self.whole, self.loading), self.outside), self.communicating)
        apart = self.loading_ns + self.outside_seen_ns + self.communicating_ns
        return apart + self.without_recorder(rest)

    @property
    def recorder_share(self) -> float:
        """The part of the window that is the recorder's."""
        return max(1.0 - self.step_ns / self.window_ns, 0.0) if self.window_ns else 0.0

    @cached_property
    def call_ns(self) -> int:
        """What calling an operator takes that computes hardly anything (ns), with the recorder."""
        took = self.trace.events.duration[self.operators]
        return min(int(percentile_of(took, TRIVIAL_PERCENTILE)), MAX_CALL_NS) if len(took) else 0

    def overhead_ns(self, *, in_full: bool = False) -> int:
        """What calling operators costs: as long as the shortest ones take, for each, and the short gaps.

        ``in_full``: all that short operators take, where none would be needed. What else had the CPU meanwhile delays
        calls as much as what they compute.
        """
        took = self.trace.events.duration[self.operators]
        shortest = self.call_ns
        called = np.where(took < LONG_GAP_NS, took, shortest) if in_full else np.minimum(took, shortest)
        spent = int(called.sum()) + length(self.calling)
        spent -= min(WRITING_ALONE_NS * len(took), round(MAX_SHARE_ALONE * spent))
        return min(round(spent * self.slowed), self.step_ns)

    def shares(self, column: Innermost, within: Intervals | None = None) -> Shares:
        """Time by name, longest first, in the window or the part of it that is ``within`` some intervals."""
        return self.by_name(*self.spent(column, within))

    def by_name(self, event: I64, spent: I64) -> Shares:
        """What events spent in all (ns), by their names, longest first."""
        if not len(event):
            return []
        trace = self.trace
        _, first, name = np.unique(trace.events.name[event], return_index=True, return_inverse=True)
        total = np.bincount(name, weights=spent).astype(np.int64)
        order = np.lexsort((spent, name))
        longest = event[order[np.searchsorted(name[order], np.arange(len(first)), side="right") - 1]]
        by_size = np.argsort(-total, kind="stable")
        return list(zip(longest[by_size].tolist(), total[by_size].tolist(), strict=True))

    def spent(self, column: Innermost, within: Intervals | None = None) -> tuple[I64, I64]:
        """Events that are innermost for some time, and for how many ns; one that is so again comes again."""
        start = np.clip(column.edges, *self.window)
        end = np.append(start[1:], self.window[1])
        spent = end - start if within is None else measure(within, start, end)
        inside = (column.event >= 0) & (spent > 0)
        return column.event[inside].astype(np.int64), spent[inside]

    @property
    def whole(self) -> Intervals:
        return np.array([self.window[0]], np.int64), np.array([self.window[1]], np.int64)

    @cached_property
    def _records(self) -> tuple[I64, I64]:
        """When operators and ranges were written down, and when frames were."""
        start, kind = self.trace.events.start[self.activity.events], self.activity.kind
        costly = of_kinds(kind, EventKind.CPU_OP, EventKind.REGION)
        return np.sort(start[costly]), np.sort(start[kind == EventKind.PYTHON])

    def without_recorder(self, intervals: Intervals) -> int:
        """How long some disjoint intervals are without what writing down their records took."""
        whole = length(intervals)
        records, frames = (int(contains(intervals, each).sum()) for each in self._records)
        return whole - min(
            WRITING_ALONE_NS * records + FRAME_ALONE_NS * frames, round(MAX_SHARE_ALONE * whole)
        )


def collectives_on_cpu(trace: Trace) -> I64:
    """The ranges in which a collective runs on a CPU."""
    ranges = trace.events.of_kind(EventKind.REGION)
    return ranges[named(trace, ranges, _ON_CPU.match)]


@derived
def cpu_time(analysis: Analysis) -> CpuTime | None:
    """Of a recording that is whole and holds neither work of a GPU nor calls that launch any; None for others."""
    return _busiest(analysis, range(len(analysis.threads.keys)))


def cpu_time_beside_calls(analysis: Analysis) -> CpuTime | None:
    """The same where calls to the driver were recorded, and nothing of what they launched; None for others."""
    trace = analysis.trace
    if trace.quality.kernels_without_times or not (trace.events.kind == EventKind.API).any():
        return None
    return _busiest(analysis, range(len(analysis.threads.keys)), with_calls=True)


def cpu_time_of_rank(analysis: Analysis, rank: int | None) -> CpuTime | None:
    """The same of the busiest thread of one rank."""
    wanted = -1 if rank is None else rank
    return _busiest(analysis, [index for index, key in enumerate(analysis.threads.keys) if key[0] == wanted])


def _busiest(analysis: Analysis, among: Sequence[int], with_calls: bool = False) -> CpuTime | None:
    trace, threads, window = analysis.trace, analysis.threads, analysis.window
    if len(trace.gpu_operations) or is_cut(trace):
        return None
    if not with_calls and (trace.events.kind == EventKind.API).any():
        return None
    if trace.quality.operators_lie_in_rows:
        return None
    found, activity, most = -1, None, 0
    events = collectives_on_cpu(trace)
    busy = without(trace.events.of_kind(EventKind.CPU_OP, EventKind.REGION), events)
    if not len(busy):
        busy = trace.events.of_kind(EventKind.PYTHON)  # of a profiler that records functions alone
    owner = threads.of_events(busy)
    at_most = np.bincount(owner[owner >= 0], trace.events.duration[busy[owner >= 0]], len(threads.keys))
    for thread in sorted(among, key=lambda each: -at_most[each]):
        if at_most[thread] <= most:
            break
        each = threads.activity(thread)
        if (busy_ns := _busy_ns(each, window)) > most:
            found, activity, most = thread, each, busy_ns
    if activity is None:
        return None
    mine = events[np.isin(trace.events.lane[events], _lanes_of_rank(trace, threads.keys[found][0]))]
    collectives = union(*trace.events.spans(mine))
    known = worker_starts(analysis, found).whole, collections_among(trace, threads.events(found))
    pauses = clip(union(*(np.concatenate(edges) for edges in zip(*known, strict=True))), *window)
    rank = threads.keys[found][0]
    begins = [each.start for each in analysis.steps if each.rank is None or each.rank == rank]
    begun = np.sort(np.array(begins, np.int64))
    return CpuTime(analysis, found, activity, most, collectives, pauses, begun)


def _lanes_of_rank(trace: Trace, rank: int) -> list[int]:
    return [index for index, each in enumerate(trace.lanes) if each.rank == (None if rank < 0 else rank)]


def _busy_ns(activity: ThreadActivity, window: tuple[int, int]) -> int:
    within = clip(activity.running, *window), clip(_open(activity.regions), *window)
    return max(map(length, within)) or _in_functions_ns(activity, window)


def _in_functions_ns(activity: ThreadActivity, window: tuple[int, int]) -> int:
    """How long Python's functions run, those left out that wait for other threads."""
    column = activity.functions
    took = np.diff(np.clip(column.edges, *window), append=window[1])
    inside = column.event >= 0
    waits = named(activity.trace, column.event[inside].astype(np.int64), waits_for_a_lock)
    return int(took[inside][~waits].sum())


def _open(column: Innermost) -> Intervals:
    """When any of a column's events is open."""
    if not len(column.edges):
        return column.edges, column.edges
    open_now = np.append(column.event[:-1] >= 0, False)
    return union(column.edges[open_now], np.append(column.edges[1:], column.edges[-1])[open_now])
