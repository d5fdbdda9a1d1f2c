"""What was open around each call of a replay, and what the host did in the time before it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from parsers.model import BOOL, F64, I64, EventKind, derived
from parsers.model.arrays import merged
from parsers.model.late import dataclass
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.innermost import Innermost
from rules.analysis.arithmetic.intervals import Intervals, measure, subtract, union
from rules.analysis.cpu.asleep import asleep
from rules.analysis.cpu.interruptions import lock_waits
from rules.analysis.idle.threads import ThreadActivity, UserFrames
from rules.analysis.names.regions import is_collection
from rules.analysis.stretches.script_compiling import script_compiling
from rules.analysis.stretches.worker_starts import WorkerStarts, worker_starts
from rules.replay.chance import operators_before, time_within
from rules.replay.replay import Replay, replay_of

SILENT_NS = 150_000  # between two records: the program did something that the profiler does not know


@dataclass(frozen=True, eq=False)
class Surroundings:
    """For each host node: the innermost events around its call (-1: none), and the parts of the gap before it (ns)."""

    replay: Replay

    @cached_property
    def operator(self) -> I64:
        return self._innermost(lambda activity: activity.operators)

    @cached_property
    def read_back(self) -> I64:
        """The innermost operator that waits for a value from the GPU."""
        return self._innermost(lambda activity: activity.read_backs)

    @cached_property
    def region(self) -> I64:
        return self._innermost(lambda activity: activity.user_regions)

    @cached_property
    def whole_operator(self) -> I64:
        """The outermost operator of ATen around the call: what the program, or autograd, called."""
        return self._innermost(lambda each: Innermost.of(each.trace, each.whole_operators))

    def inside(self, wanted: Callable[[str], object]) -> BOOL:
        """Whether an operator or range with a wanted name is open around the call."""
        return np.asarray(self.around(wanted) >= 0)

    def around(self, wanted: Callable[[str], object]) -> I64:
        """The innermost operator or range with a wanted name."""
        trace = self.replay.analysis.trace

        def chosen(activity: ThreadActivity) -> Innermost:
            events = activity.of_kind(EventKind.CPU_OP, EventKind.REGION)
            return Innermost.of(trace, events[named(trace, events, wanted)])

        return self._innermost(chosen)

    @cached_property
    def input_ns(self) -> F64:
        """How much of each gap passed inside a data loader, or a range named like one, and no workers started."""
        analysis = self.replay.analysis

        def loading(thread: int) -> Intervals:
            inputs = analysis.threads.activity(thread).inputs
            begins = inputs.event >= 0
            edges = np.append(inputs.edges, inputs.edges[-1:])
            fetching = union(inputs.edges[begins], edges[1:][begins])
            return subtract(fetching, worker_starts(analysis, thread).whole)

        return time_within(self.replay.host, loading)

    @cached_property
    def worker_starts_ns(self) -> F64:
        """How much of each gap a data loader's worker processes ended and started."""
        return self._of_worker_starts(lambda starts: starts.processes)

    @cached_property
    def first_batches_ns(self) -> F64:
        """How much of each gap was spent on the first batch of workers that had just started."""
        return self._of_worker_starts(lambda starts: starts.first_batches)

    def _of_worker_starts(self, part: Callable[[WorkerStarts], Intervals]) -> F64:
        analysis = self.replay.analysis
        return time_within(self.replay.host, lambda thread: part(worker_starts(analysis, thread)))

    @cached_property
    def garbage_ns(self) -> F64:
        """How much of each gap Python collected its garbage."""
        return self.time_inside(is_collection, EventKind.REGION, EventKind.PYTHON)

    def time_inside(self, wanted: Callable[[str], object], *kinds: EventKind) -> F64:
        """How much of each gap passed inside events of these kinds with a wanted name (ns)."""
        trace, threads = self.replay.analysis.trace, self.replay.analysis.threads

        def intervals(thread: int) -> Intervals:
            events = threads.events(thread)
            events = events[np.isin(trace.events.kind[events], kinds)]
            events = events[named(trace, events, wanted)]
            return union(*trace.events.spans(events))

        return time_within(self.replay.host, intervals)

    @cached_property
    def pauses_ns(self) -> F64:
        """How much of each gap is a pause that has a fix of its own, or comes once: see what they are added up of."""
        return self.garbage_ns + self.worker_starts_ns + self.first_batches_ns + self.script_compiling_ns

    @cached_property
    def script_compiling_ns(self) -> F64:
        """How much of each gap TorchScript compiled in one of its first calls."""
        analysis = self.replay.analysis
        return time_within(self.replay.host, lambda thread: script_compiling(analysis, thread))

    @cached_property
    def lock_ns(self) -> F64:
        """How much of each gap the thread waited for Python's lock."""
        host, analysis = self.replay.host, self.replay.analysis
        found = np.zeros(len(host))
        for thread, members in enumerate(host.members):
            mine = slice(int(host.first[thread]), int(host.first[thread + 1]))
            begin = host.start[mine] - host.gap[mine].astype(np.int64)
            found[mine] = measure(lock_waits(analysis, members), begin, host.start[mine])
        return np.maximum(found - self.garbage_ns, 0.0)

    @cached_property
    def asleep_ns(self) -> F64:
        """How much of each gap the thread slept or waited off the processor, but for that lock."""
        analysis = self.replay.analysis

        def sleeping(thread: int) -> Intervals:
            parts = asleep(analysis, thread).values()
            whole = (np.concatenate(side) for side in zip(*parts, strict=True))
            return subtract(union(*whole), lock_waits(analysis, (thread,)))

        return time_within(self.replay.host, sleeping)

    @cached_property
    def operators_ns(self) -> F64:
        """How much of each gap passed inside operators."""
        return operators_before(self.replay.analysis, self.replay.host)

    @cached_property
    def silent_ns(self) -> F64:
        """How much of each gap passed in stretches of at least ``SILENT_NS`` in which no other record began.

        A recording may begin with the first step, so what comes before its first record counts, too.
        """
        host, trace = self.replay.host, self.replay.analysis.trace
        found = np.zeros(len(host))
        for thread, members in enumerate(host.members):
            events = np.concatenate([self.replay.analysis.threads.events(each) for each in members])
            events = trace.events.only(events, EventKind.CPU_OP, EventKind.API)
            begun = self.replay.spans[int(host.span_of_thread[thread])].start
            times = merged(np.append(trace.events.start[events], begun))
            apart = np.diff(times)
            long = np.flatnonzero(apart >= SILENT_NS)
            mine = slice(int(host.first[thread]), int(host.first[thread + 1]))
            begin = host.start[mine] - host.gap[mine].astype(np.int64)
            found[mine] = measure((times[long], times[long + 1]), begin, host.start[mine])
        return found

    def frame(self, node: int) -> int:
        """The user's own Python frame around most of the time before a call; -1 without any."""
        host = self.replay.host
        start = host.start[node : node + 1]
        begin = start - host.gap[node : node + 1].astype(np.int64)
        thread = int(self.replay.analysis.threads.of_events(host.event[node : node + 1])[0])
        if thread not in self._frames:
            self._frames[thread] = UserFrames.of(self.replay.analysis.threads, thread)
        return int(self._frames[thread].around(begin, start)[0])

    @cached_property
    def _frames(self) -> dict[int, UserFrames]:
        return {}

    def place(self, node: int, *, loading: bool = True) -> str:
        """The name of the range, frame or operator that the time before a call passed in; empty when none is known.

        Without ``loading``, ranges of loaders are left out: they are no name of what passes beside them.
        """
        analysis, host = self.replay.analysis, self.replay.host
        thread = int(analysis.threads.of_events(host.event[node : node + 1])[0])
        middle = host.start[node : node + 1] - (host.gap[node : node + 1] / 2).astype(np.int64)
        activity = analysis.threads.activity(thread)
        for found in (
            int(activity.user_regions.at(middle)[0]),
            self.frame(node),
            int(activity.operators.at(middle)[0]),
        ):
            left_out = not loading and found == int(activity.inputs.at(middle)[0])
            if found >= 0 and not left_out and not is_collection(analysis.trace.name(found)):
                return analysis.trace.name(found)
        return ""

    def _innermost(self, of: Callable[[ThreadActivity], Innermost]) -> I64:
        host = self.replay.host
        found = np.full(len(host), -1, np.int64)
        for activity, mine in self.replay.analysis.threads.by_thread(host.event):
            found[mine] = of(activity).at(host.start[mine])
        return found


@derived
def surroundings_of(analysis: Analysis) -> Surroundings:
    """The surroundings of the calls of a recording's replay; made once."""
    return Surroundings(replay_of(analysis))
