"""Steps that are interrupted: by the driver's allocations, by Python's garbage, by checks of every gradient."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import I64, EventKind, Trace
from parsers.model.late import regex
from parsers.model.names.calls import Call
from parsers.model.names.per_name import named
from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, clip, length, pairs, subtract, union
from rules.analysis.cpu.cpu_time import CpuTime, cpu_time
from rules.analysis.gpu.inside_window import api_calls, total
from rules.analysis.idle.causes import Cause
from rules.analysis.names.host_language import Audience, program_of
from rules.analysis.names.operators import is_autograd_function
from rules.analysis.names.regions import is_collection
from rules.analysis.steps.garbage import collections_among
from rules.findings.base import Category, Finding, Need, Rule, Severity, rule
from rules.losses.first_memory import HARDLY_ANY, asked_and_freed, is_kept_from_now_on
from rules.losses.lost_time import IdleTime, event_evidence, idle_finding
from rules.losses.pauses import longest_pause
from rules.remedies.host_work import COLLECT_SELDOM, NO_ANOMALY_DETECTION
from rules.remedies.memory import KEPT_FROM_NOW_ON, kept_memory
from rules.terms import MAJORITY, MIN_SHARE, Culprit, CulpritKind, Unit, threshold
from rules.wording.words import (
    Headline,
    Words,
    counted,
    for_jax,
    for_native,
    of_every_step,
    ours,
    share,
    without_stacks,
)

MIN_ALLOCATING = threshold(
    "allocation",
    "allocating inside steps is reported from this share of the analysed time",
    Unit.SHARE,
    0.005,
    least=0.0001,
    most=0.5,
    source="a steady step allocates nothing, so even a little is a sign",
)

MANY_CALLS = 50  # in a step that ask for memory: one for each tensor
AS_MANY = 0.25  # by which the calls that give back may differ


_OF_HOST_MEMORY = regex(r"(cuda|hip|cuMem)\w*Host|cudaMallocHost")


@rule
class AllocationInStep(Rule):
    id = "allocation-in-step"
    category = Category.ALLOCATOR
    needs = frozenset({Need.GPU_EVENTS, Need.LAUNCH_LINKS, Need.API_CALLS})
    explanation = f"""
What it found
    The program asks the driver for memory, or gives it back, in every step: cudaMalloc, cudaFree, cudaHostAlloc.

Why it costs time
    Each of these calls takes tens of microseconds to milliseconds, and cudaFree waits until the GPU has finished.
    Meanwhile nothing is launched. With a caching allocator they should be rare after the first steps.

How it decides
    It counts the time the GPU idles while the launching thread is inside such a call, and the time after a call that
    waited for the GPU, to the extent that the CPU had been ahead. Only steady steps count: allocating in the first
    steps is normal.

What to try
    Remove torch.cuda.empty_cache() from the loop. Keep shapes the same, or pad them to a few sizes. Use expandable
    segments. Leave some memory free: a full GPU makes the allocator free its cache and start again.

When it is wrong
    If the recording covers only the start of a program, allocation is expected. Where PyTorch's recording has fewer
    than two steps, and calls that give memory back are at most {percent(HARDLY_ANY)} of those that ask for it, this is
    information: PyTorch keeps the memory. Recording memory use as well makes each of these calls longer: for one
    program, Nsight Systems with --cuda-memory-usage recorded 1.6 times the allocation time that PyTorch's profiler
    recorded without it.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        waiting = IdleTime(analysis, Cause.ALLOCATOR)
        if share(analysis, waiting.ns) < analysis.thresholds[MIN_ALLOCATING]:
            return
        pinned = _is_of_host_memory(waiting.culprit)
        uncached = _without_cache(analysis, waiting)
        kept = not uncached and is_kept_from_now_on(analysis, waiting.device)
        yield idle_finding(
            self,
            waiting,
            what="Allocating memory for the first time stalls the GPU"
            if kept
            else "Allocating memory stalls the GPU",
            account=_explanation(analysis, waiting, "allocated" if kept else "allocated and freed")
            + (_CACHE_IS_OFF if uncached else _CACHE_FILLS if kept else ""),
            remedy=KEPT_FROM_NOW_ON if kept else kept_memory(trace, pinned=pinned, uncached=uncached),
            severity=Severity.INFO if kept else None,
            unknown=(
                for_jax("Which arrays: take a memory profile (jax.profiler.save_device_memory_profile)."),
                for_native(ours("Which line allocates: record backtraces ($RecordBacktraces).")),
                _cannot_tell(trace, pinned),
            ),
        )


_CACHE_IS_OFF = (
    " As many calls free memory as allocate it: PyTorch's cache, which does neither, is switched off."
)

_CACHE_FILLS = (
    " Hardly any of them gives memory back, and nothing repeats in the recording: PyTorch keeps this memory, and does "
    "not ask for it again."
)


def _without_cache(analysis: Analysis, waiting: IdleTime) -> bool:
    """Whether each tensor is a call of its own: many calls a step, half of which ask and half of which give back."""
    if program_of(analysis.trace) is not Audience.PYTORCH:
        return False
    asks, frees = asked_and_freed(analysis, waiting.device)
    many = asks >= MANY_CALLS * max(analysis.steps_in_window, 1)
    return many and abs(asks - frees) <= AS_MANY * asks


def _is_of_host_memory(culprit: Culprit) -> bool:
    return culprit.kind is CulpritKind.CALL and _OF_HOST_MEMORY.match(culprit.name) is not None


def _cannot_tell(trace: Trace, pinned: bool) -> Words:
    if pinned:
        return without_stacks(trace, "Which tensors are pinned: record with stacks (with_stack=True).")
    tensors = "which tensors are allocated: use torch.cuda.memory._record_memory_history()"
    if any("allocated memory" in counter.name for counter in trace.counters):
        return (
            "How much of these calls is recording overhead, because memory use was recorded as well: record once "
            f"without it. And {tensors}."
        )
    return f"{tensors[0].upper()}{tensors[1:]}, or record with profile_memory=True."


def _explanation(analysis: Analysis, waiting: IdleTime, done: str) -> str:
    calls = api_calls(analysis, waiting.device, Call.ALLOCATE)
    what = "Memory"
    if _is_of_host_memory(waiting.culprit):
        others = any(not _OF_HOST_MEMORY.match(analysis.trace.name(call)) for call in calls.tolist())
        what = "Memory, pinned host memory above all," if others else "Pinned host memory"
    text = (
        f"{what} is {done}: {counted(analysis, len(calls), 'call')}, "
        f"{duration(total(analysis, calls) / max(len(calls), 1))} each on average. Meanwhile the GPU idles: "
        f"{waiting.part}."
    )
    return f"{text} Where{waiting.on_worst}: {waiting.where(4)}."


MAX_EVIDENCE = 3


@rule
class GarbageCollection(Rule):
    id = "garbage-collection"
    category = Category.HOST_BOUND
    needs = frozenset({Need.CPU_EVENTS})
    explanation = """
What it found
    Python collects its garbage while the program trains or serves.

Why it costs time
    A full collection looks at every object that can refer to others. With hundreds of thousands of them it takes
    tens of milliseconds, in which no Python code runs and nothing is launched.

How it decides
    It adds up ranges and frames of the collector: a script that Stallscope records gets a range for each full
    collection; torch's profiler writes frames with stacks, and ranges with record_python_gc_info. On a GPU it counts
    what of that time the GPU idles. Below {least-share} of the step nothing is reported. Without such records nobody
    can tell: a collection is then part of the unnamed Python work.

What to try
    Collect every few hundred steps: gc.freeze() after building the model, gc.disable(), and gc.collect() in the loop.

When it is wrong
    If one collection happened to fall into a short recording and comes rarely.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace, threads = analysis.trace, analysis.threads

        def collecting(thread: int) -> Intervals:
            return collections_among(trace, threads.events(thread))

        found = longest_pause(analysis, collecting)
        if found is None or share(analysis, found.ns) < analysis.thresholds[MIN_SHARE]:
            return
        events = threads.events(found.thread)
        events = trace.events.only(events, EventKind.REGION, EventKind.PYTHON)
        events = events[named(trace, events, is_collection)]
        start = trace.events.start[events]
        events = events[(start >= analysis.window[0]) & (start < analysis.window[1])]
        starts, ends = collecting(found.thread)
        inside = (starts >= analysis.window[0]) & (starts < analysis.window[1])
        count, each = int(np.count_nonzero(inside)), float(np.mean((ends - starts)[inside]))
        times = "A collection takes" if count == 1 else f"{count:,} collections take"
        average = "" if count == 1 else " on average"
        waits = "the GPU idles" if found.device >= 0 else "nothing else runs"
        yield self.finding(
            analysis,
            ceiling_ns=found.ns,
            headline=Headline("Collecting garbage stops Python", found.extent.share(found.ns)),
            account=f"{times} {duration(each)}{average}, and meanwhile {waits}: {found.extent.part(found.ns)}.",
            remedy=COLLECT_SELDOM,
            culprit=Culprit(CulpritKind.REGION, "Python's garbage collection"),
            device=found.device if found.device >= 0 else None,
            evidence=event_evidence(trace, events, MAX_EVIDENCE),
            intervals=pairs(found.intervals),
            unknown=("What creates the garbage, and whether a collection is asked for or comes by itself.",),
        )


MIN_FUNCTIONS = 5
MAX_OF_FORWARD = 0.95  # of the forward pass may be the recording of stacks
_WITHOUT_RESULT = "AccumulateGrad"  # nothing to check
_CHECK, _CHECKS = "aten::isnan", ("aten::isnan", "aten::_is_any_true", "aten::any", "aten::is_nonzero")


@rule
class AnomalyDetection(Rule):
    id = "anomaly-detection"
    category = Category.HOST_BOUND
    needs = frozenset({Need.CPU_EVENTS})
    explanation = f"""
What it found
    Only the CPU was recorded, and torch.autograd's anomaly detection is on.

Why it costs time
    Every function of the backward pass checks its gradients for NaN, and every operator of the forward pass records
    the Python stack that called it. With small tensors that takes several times as long as the computation.

How it decides
    At least {percent(MAJORITY)} of the functions of the backward pass call aten::isnan. Their checks are counted,
    and up to {percent(MAX_OF_FORWARD)} of the forward pass's operators, which contain the recording of stacks.

What to try
    Leave it off: torch.autograd.set_detect_anomaly(False). Turn it on only to find a NaN that you have seen.

When it is wrong
    If the operators of the forward pass are large: then recording stacks is a small part of them.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        time = cpu_time(analysis)
        if time is None or not time.is_all:
            return
        trace, table, operators = analysis.trace, analysis.trace.events, time.operators
        backward = operators[named(trace, operators, is_autograd_function)]
        events = time.activity.events
        asks = events[named(trace, events, _CHECK.__eq__)]
        functions = backward[~named(trace, backward, lambda name: name.endswith(_WITHOUT_RESULT))]
        checked = _holding(time, functions, asks)
        if checked < max(MIN_FUNCTIONS, MAJORITY * len(functions)):
            return
        checks = events[named(trace, events, _CHECKS.__contains__)]
        checking = clip(union(*table.spans(checks)), *time.window)
        forward = _forward(time, backward)
        stacks_ns = round(MAX_OF_FORWARD * length(forward))
        lost, steps = length(checking) + stacks_ns, max(time.steps, 1)
        yield self.finding(
            analysis,
            ceiling_ns=lost,
            headline=Headline(
                "Anomaly detection is on", f"up to {of_every_step(analysis, share(analysis, lost))}"
            ),
            account=f"{percent(checked / len(functions))} of the functions of the backward pass check their gradients "
            f"for NaN, which takes {duration(length(checking) / steps)} a step. Every operator of the forward pass "
            f"records a Python stack: up to {duration(stacks_ns / steps)} of its {duration(length(forward) / steps)}.",
            remedy=NO_ANOMALY_DETECTION,
            culprit=Culprit(CulpritKind.OPERATOR, _CHECK),
            evidence=event_evidence(trace, asks, MAX_EVIDENCE),
            unknown=("How deep the stacks are, and so how long recording one takes.",),
            confidence="medium",
        )


def _holding(time: CpuTime, around: I64, inside: I64) -> int:
    """Around how many events any of the others begins."""
    table = time.trace.events
    at = np.sort(table.start[inside])
    held = np.searchsorted(at, table.end[around]) > np.searchsorted(at, table.start[around])
    return int(np.count_nonzero(held))


def _forward(time: CpuTime, backward: I64) -> Intervals:
    """Inside operators, without the backward pass and the optimizer."""
    trace, table = time.trace, time.trace.events
    updates = time.activity.of_kind(EventKind.REGION)
    updates = updates[named(trace, updates, lambda name: "optimizer" in name.lower())]
    others = np.concatenate((backward, updates))
    return subtract(time.computing, union(*table.spans(others)))
