"""The GPU finishes its kernels faster than the CPU launches new ones."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import I64, EventKind, Trace
from parsers.model.arrays import distinct_values, median_of
from parsers.model.events import of_kinds
from parsers.model.late import dataclass
from parsers.model.names.calls import WORK_CALLS, Call, calls_of
from parsers.model.names.per_name import named
from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import durations, intersect, length, union
from rules.analysis.gpu.gpu_vendor import has_graphs
from rules.analysis.gpu.inside_window import api_calls, operations
from rules.analysis.idle.causes import Cause
from rules.analysis.recording.training import is_training
from rules.findings.base import Category, Finding, Need, Remedy, Rule, remedy, rule
from rules.losses.lost_time import IdleTime, idle_finding
from rules.remedies.compiling import JIT_THE_STEP, PRECOMPILED_OPERATORS
from rules.remedies.engines import launch_advice, queueing_advice
from rules.remedies.launching import (
    CAPTURE,
    FUSED_OPTIMIZER,
    REPLAYED_AHEAD,
    captured,
    joined_loop,
    replayed_graph,
)
from rules.terms import MAJORITY, MIN_SHARE, Culprit, CulpritKind, Unit, threshold
from rules.wording.words import Words, counted, for_python, ours, part_of_step, share

SHORT_KERNEL_NS = threshold(
    "short-kernel",
    "kernels count as short below this mean duration",
    Unit.TIME,
    10_000,
    least=1_000,
    most=1_000_000,
    source="TraceLens; HTA compares with the launch call",
)
GRAPH_GAP_NS = 1_500  # between two kernels of a replayed CUDA graph on current GPUs: 1 to 2 us
ENOUGH_GAPS = 20_000  # of more, every second or third tells as much
MIN_LATE = 5  # operations that the GPU waited for: fewer say nothing of how fast a program launches


_COMPILES = "aclopCompileAndExecute"  # of Ascend's runtime
_COMPILE = "Fuse operators and cut launches: torch.compile with the backend of this accelerator."


@dataclass(frozen=True, slots=True)
class _Launches:
    """Launches of the window on one device."""

    kernels: int
    mean_kernel_ns: float
    interval_ns: float  # median distance to the launch before, of the launches that the GPU waited for
    optimizer_share: float  # of the idle time
    training: bool
    graphs: bool
    compiling_ns: int  # of the idle time, in a call that compiles an operator
    replays: int  # CUDA graphs that the GPU waited for, where that is most of the idle time
    again: float  # the part of the idle time that is not before the first launch of a graph


@rule
class LaunchingTooSlowly(Rule):
    id = "launching-too-slowly"
    category = Category.LAUNCH_BOUND
    needs = frozenset({Need.GPU_EVENTS, Need.LAUNCH_LINKS})
    explanation = """
What it found
    The CPU is busy launching kernels one after another, and each ends before the next one arrives.

Why it costs time
    Launching one kernel costs the CPU 5 to 10 us, and the PyTorch operator around it 20 to 50 us. A kernel that runs
    for 2 us leaves the GPU idle for the rest.

How it decides
    It takes each gap on the GPU whose next operation was launched during the gap, and looks at the launching thread.
    The time counts as launching when the thread was inside launch calls or operators, or in pauses between launches
    shorter than {launch-pause} or ten times the usual distance. Waiting for data, Python, a synchronisation or memory
    is counted separately. The GPU must have waited for 5 kernels or copies, or for a graph.

    If half of the time lies in calls of Ascend's runtime that compile an operator, it says so; and if half of it lies
    before CUDA graphs, that it is these which come too late. The first launch of the recording, or of a graph that
    was just built, is no steady lateness and does not count there.

What to try
    Launch fewer, larger kernels: torch.compile, fused or foreach optimizers, larger batches. Or launch many at
    once: CUDA graphs, torch.compile(mode="reduce-overhead").

When it is wrong
    The profiler adds about 1 to 5 us to each launch and operator, so a recording overstates this; without the
    profiler the share is smaller but the cause is the same.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        waiting = IdleTime(analysis, Cause.LAUNCH)
        if share(analysis, waiting.ns) < analysis.thresholds[MIN_SHARE]:
            return
        facts = _launches(analysis, waiting)
        late = len(distinct_values(analysis.idle.next_operation[waiting.rows]))
        if late < MIN_LATE and not facts.replays:
            return
        if facts.replays and share(analysis, waiting.ns) * facts.again < analysis.thresholds[MIN_SHARE]:
            return
        culprit = waiting.culprit
        compiling = facts.compiling_ns >= MAJORITY * waiting.worst_ns
        yield idle_finding(
            self,
            waiting,
            what="The CPU launches too slowly, mostly compiling operators"
            if compiling
            else ours("$CUDA graphs are launched too late")
            if facts.replays
            else "The CPU launches too slowly",
            account=_explanation(analysis, waiting, facts)
            + (
                f" {waiting.extent.told(facts.compiling_ns)} of this are in {_COMPILES}, which compiles an operator "
                "for the shapes that it gets."
                if compiling
                else ""
            ),
            remedy=PRECOMPILED_OPERATORS
            if compiling
            else REPLAYED_AHEAD
            if facts.replays
            else _remedy(analysis, facts, culprit),
            category=Category.RECOMPILATION if compiling else None,
            unknown=(
                for_python(
                    "How much of the launch time is profiler overhead: record once without shapes and stacks and "
                    "compare step times."
                ),
                "How much of the launch time is profiler overhead: compare with a run without it.",
            ),
        )


def _launches(analysis: Analysis, waiting: IdleTime) -> _Launches:
    trace = analysis.trace
    kernels = operations(analysis, waiting.device, EventKind.KERNEL)
    collective = np.zeros(len(trace.events), np.bool_)  # these last as long as they wait for others
    collective[trace.collective_kernels] = True
    kernels = kernels[~collective[kernels]]
    calls = api_calls(analysis, waiting.device, *WORK_CALLS)
    starts = trace.events.start[calls]
    in_optimizer = sum(
        each.ns for each in waiting.blames if any("optim" in name.lower() for name in each.culprit.names)
    )
    replays, again = _replays(waiting)
    return _Launches(
        kernels=len(kernels),
        mean_kernel_ns=float(durations(trace, kernels).mean()) if len(kernels) else 0.0,
        interval_ns=_interval(analysis, waiting, starts),
        optimizer_share=in_optimizer / max(waiting.worst_ns, 1),
        training=is_training(analysis),
        graphs=bool((trace.events.kind[operations(analysis, waiting.device)] == EventKind.GRAPH).any()),
        compiling_ns=_compiling_ns(waiting),
        replays=replays,
        again=again,
    )


def _replays(waiting: IdleTime) -> tuple[int, float]:
    """How many launches of graphs the GPU waited for; 0 where it mostly waited for others.

    And the part of the time that it did not wait for a first one: of the recording, or of a graph just built.
    """
    trace, idle, rows = waiting.analysis.trace, waiting.analysis.idle, waiting.rows
    launch = trace.links.launch_of(np.maximum(idle.next_operation[rows], 0))
    known = (launch >= 0) & (idle.next_operation[rows] >= 0)
    sorts = calls_of(trace)[trace.events.name[np.maximum(launch, 0)]]
    graphs = known & (sorts == Call.GRAPH_LAUNCH)
    ns = idle.end[rows] - idle.start[rows]
    again = 1 - float(ns[graphs & np.isin(launch, _first_launches(trace))].sum()) / max(float(ns.sum()), 1.0)
    return len(distinct_values(launch[graphs])) if ns[graphs].sum() > MAJORITY * ns.sum() else 0, again


def _first_launches(trace: Trace) -> I64:
    """The first launch of a graph on each lane of calls, and the first behind each that builds one."""
    calls = trace.events.of_kind(EventKind.API)
    sort = calls_of(trace)[trace.events.name[calls]]
    calls = calls[of_kinds(sort, Call.GRAPH_LAUNCH, Call.GRAPH_BUILD)]
    order = np.lexsort((trace.events.start[calls], trace.events.lane[calls]))
    calls = calls[order]
    launches = calls_of(trace)[trace.events.name[calls]] == Call.GRAPH_LAUNCH
    lane = trace.events.lane[calls]
    behind = np.append(True, ~launches[:-1] | (lane[1:] != lane[:-1]))[: len(calls)]
    return np.asarray(calls[launches & behind])


def _compiling_ns(waiting: IdleTime) -> int:
    events = waiting.analysis.trace.events
    calls = events.of_kind(EventKind.API)
    calls = calls[named(waiting.analysis.trace, calls, lambda name: name.endswith(_COMPILES))]
    return length(intersect(union(*events.spans(calls)), waiting.intervals))


def _interval(analysis: Analysis, waiting: IdleTime, starts: I64) -> float:
    some = waiting.rows[:: len(waiting.rows) // ENOUGH_GAPS + 1]
    following = distinct_values(analysis.idle.next_operation[some])
    launches = analysis.trace.links.launch_of(following[following >= 0])
    place = np.searchsorted(starts, analysis.trace.events.start[launches[launches >= 0]])
    place = place[(place > 0) & (place < len(starts))]
    return float(median_of(starts[place] - starts[place - 1])) if len(place) else 0.0


def _explanation(analysis: Analysis, waiting: IdleTime, facts: _Launches) -> Words:
    whole = waiting.part
    if facts.replays:
        late = counted(analysis, facts.replays, "graph", verb="come")
        return f"{late} when the GPU has nothing left to do: it idles {whole} before them."
    ran = counted(analysis, facts.kernels, "kernel", verb="run")
    kernels = f"{ran} {duration(facts.mean_kernel_ns)} each on average"
    if facts.interval_ns > facts.mean_kernel_ns:
        slow = f"; where the GPU waits, the CPU needs about {duration(facts.interval_ns)} per launch"
    else:
        slow = ", but the short ones end before the CPU has launched the next"
    text: Words = f"{kernels}{slow}: the GPU idles {whole} between them."
    least = analysis.thresholds[MIN_SHARE]
    if where := waiting.where(4, least):
        text += f" Where{waiting.on_worst}: {where}."
    floor = facts.kernels * GRAPH_GAP_NS
    if facts.kernels and waiting.ns > 2 * floor and has_graphs(analysis.trace):
        text += ours(" Replayed as a $CUDA graph, the same kernels would leave gaps of about ")
        text += f"{part_of_step(analysis, floor)}."
    return text


def _remedy(analysis: Analysis, facts: _Launches, culprit: Culprit) -> Remedy:
    trace = analysis.trace
    graphs = has_graphs(trace)
    graph = replayed_graph(trace, training=facts.training)
    queued = queueing_advice(trace)
    native = (
        *(queued or ((CAPTURE,) if graphs else ())),
        "Offload the loop around them as well (collapse): one kernel then does the work of many."
        if queued
        else "Fuse small kernels, and give each more work.",
    )
    code = FUSED_OPTIMIZER.code if facts.optimizer_share > 0.5 else graph.code if graphs else ""
    advice = launch_advice(trace) or _advice(analysis, facts, culprit)
    return remedy(*map(for_python, advice), native=native, jax=JIT_THE_STEP.advice, code=code)


def _advice(analysis: Analysis, facts: _Launches, culprit: Culprit) -> list[Words]:
    advice: list[Words] = list(FUSED_OPTIMIZER.advice) if facts.optimizer_share > 0.25 else []
    advice += [
        captured(training=facts.training) if has_graphs(analysis.trace) else _COMPILE,
        "Give each kernel more work: a larger batch, or several small tensors in one operation."
        if facts.training
        else "Serve several requests as one batch, so that the same launches do more work.",
    ]
    inside = "" if culprit.is_in(CulpritKind.OUTSIDE) else f" in {culprit.said}"
    if facts.mean_kernel_ns < analysis.thresholds[SHORT_KERNEL_NS] and not facts.graphs:
        advice.append(joined_loop(tensors=True, inside=inside).advice[0])
    return advice
