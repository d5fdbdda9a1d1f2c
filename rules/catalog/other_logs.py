"""What is told without a timeline: logs of GPUs, profiles of kernels, execution traces, kernels from the inside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from parsers.model import Trace, derived
from parsers.model.late import dataclass
from parsers.model.results import KERNEL_TIMES_TITLE
from parsers.model.units import NS_PER_MS, NS_PER_S, duration, operations, percent, size
from rules.analysis.analysis import Analysis
from rules.analysis.beside.inside_kernels import KernelInside, inside_kernels
from rules.analysis.beside.recorded_work import (
    OperatorWork,
    RecordedWork,
    is_of_this_timeline,
    kernel_time,
    number_in,
    recorded_work,
)
from rules.analysis.logs.device_log import device_logs, log_summary
from rules.findings.base import Category, Finding, Need, Rule, remedy, rule
from rules.kernels.operator_roofs import shown_shapes, work_of
from rules.losses.lost_time import evidence_of
from rules.terms import NOBODY, Culprit, CulpritKind
from rules.wording.words import Headline, listed, ours, shortened


@dataclass(slots=True)
class KernelTime:
    """One kernel in all scopes; ``moved`` and ``possible`` in GB/s, zero where the profile does not state them."""

    name: str
    ms: float = 0.0
    launches: float = 0.0
    moved_gb: float = 0.0
    moving_ms: float = 0.0
    possible: float = 0.0

    @property
    def moved(self) -> float:
        return self.moved_gb / self.moving_ms * 1e3 if self.moving_ms else 0.0


@dataclass(frozen=True, slots=True)
class KernelTimes:
    """Kernels and scopes with their times in ms, those with most of it first; ``""`` is no scope."""

    kernels: tuple[KernelTime, ...]
    scopes: tuple[tuple[str, float], ...]

    @property
    def ms(self) -> float:
        return sum(each.ms for each in self.kernels)


@derived
def kernel_times(trace: Trace) -> KernelTimes:
    """The profiles of a trace, added up."""
    kernels: dict[str, KernelTime] = {}
    scopes: Counter[str] = Counter()
    for table in trace.tables:
        if table.title != KERNEL_TIMES_TITLE:
            continue
        names = ("kernel", "scope", "launches", "time", "moved", "possible")
        columns = [table.column(name) or (None,) * len(table.rows) for name in names]
        for name, scope, launches, time, moved, possible in zip(*columns, strict=True):
            text, ms = str(name or ""), number_in(time)
            kernel = kernels.setdefault(text, KernelTime(text))
            kernel.ms += ms
            kernel.launches += number_in(launches)
            kernel.possible = max(kernel.possible, number_in(possible))
            if number_in(moved):
                kernel.moved_gb += number_in(moved) * ms / 1e3
                kernel.moving_ms += ms
            scopes[str(scope or "")] += ms  # type: ignore[assignment]
    by_time = tuple(sorted(kernels.values(), key=lambda each: -each.ms))
    return KernelTimes(by_time, tuple(scopes.most_common()))


_DEVICE_LOG_CODE = """# open the trace and the log of the same seconds together: they say when the GPU was slowed
with torch.profiler.profile(on_trace_ready=torch.profiler.tensorboard_trace_handler("trace")):
    run()"""


@rule
class DeviceLogAlone(Rule):
    id = "device-log-alone"
    category = Category.WHAT_WAS_RECORDED
    needs = frozenset({Need.DEVICE_LOG})
    explanation = """
What it found
    The recording is a log of one or more GPUs, without a timeline of what they ran.

Why it costs time
    It does not. A log says how busy a GPU was and what slowed it, not why.

How it decides
    Counters of utilisation or power were recorded, but no GPU operation.

What to try
    Record a timeline of the same seconds and open both together.

When it is wrong
    Utilisation counts every moment in which any kernel runs, however small: 100 % can hide a GPU that hardly works.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        logs = device_logs(trace)
        if not logs or len(trace.gpu_operations):
            return
        yield self.finding(
            analysis,
            headline=Headline(log_summary(trace).partition(":")[0]),
            account=" ".join(f"{log.text}." for log in logs),
            remedy=remedy(
                ours(
                    "Record what the GPU runs as well (torch.profiler, $RecordATimeline), and open both together."
                ),
                code=_DEVICE_LOG_CODE,
            ),
            unknown=("What ran on the GPU, and what it waited for: this requires a timeline.",),
        )


MAX_NAMED = 3
MIN_NAMED = 0.05  # of the kernels' time
NEAR_THE_LIMIT = 0.8  # of the memory's bandwidth: a kernel as fast as that can only move less
MAX_NAME = 40  # characters
_PROFILE_CODE = """import triton.profiler as proton
proton.start("run", data="trace", hook="triton")  # when each kernel ran, too
...
proton.finalize()"""


@rule
class ProfiledTimes(Rule):
    id = "profiled-times"
    category = Category.WHAT_WAS_RECORDED
    needs = frozenset({Need.KERNEL_TIMES})
    explanation = f"""
What it found
    A profile states how long each kernel ran in all, and which scope or line launched it.

Why it costs time
    It may cost nothing. These are the kernels to make faster, if the GPU is what the program waits for.

How it decides
    Times of all launches are added up. Kernels and scopes with at least {percent(MIN_NAMED)} of the time are named.
    Where the program stated the bytes that a kernel moves, they are divided by its time and compared with the
    bandwidth that follows from the memory's clock and width.

What to try
    Make the longest kernel faster. One that reaches {percent(NEAR_THE_LIMIT)} of the memory's bandwidth only becomes
    faster by moving less: by fusion, or with smaller data types.

When it is wrong
    A profile without a timeline shows neither gaps nor waiting: a GPU that is idle most of the time looks the same.
    Kernels of the backward pass start on a thread of its own, outside the scopes around the forward pass.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        times = kernel_times(analysis.trace)
        if not times.kernels or not times.ms:
            return
        longest = times.kernels[0]
        has_timeline = len(analysis.trace.gpu_operations) > 0
        yield self.finding(
            analysis,
            headline=Headline(
                f"{percent(longest.ms / times.ms)} of the kernels' time is in {shortened(longest.name, MAX_NAME)}",
                names_culprit=True,
            ),
            account=_times_account(times),
            remedy=remedy(_advice(longest))
            if has_timeline
            else remedy(
                _advice(longest),
                "Record a timeline as well, to see whether the GPU waits.",
                code=_PROFILE_CODE,
            ),
            culprit=Culprit(CulpritKind.KERNEL, longest.name),
            unknown=()
            if has_timeline
            else ("Whether the GPU was idle between kernels: this requires a timeline.",),
        )


def _advice(longest: KernelTime) -> str:
    if NEAR_THE_LIMIT <= _reached(longest) <= 1:
        return "Let it move less: fuse it with its neighbours, or use a smaller data type."
    return "Profile the longest kernel with Nsight Compute, to see what limits it."


def _reached(kernel: KernelTime) -> float:
    """The part of the memory's bandwidth; above 1, data came from a cache or was not moved."""
    return kernel.moved / kernel.possible if kernel.possible else 0.0


def _times_account(times: KernelTimes) -> str:
    launches = sum(each.launches for each in times.kernels)
    ran = f"{launches:,.0f} launches" if launches > 1 else "The kernels"
    named = [each for each in times.kernels if each.ms >= MIN_NAMED * times.ms][:MAX_NAMED]
    kernels = listed([f"{shortened(each.name, MAX_NAME)} ({percent(each.ms / times.ms)})" for each in named])
    text = f"{ran} ran for {duration(times.ms * NS_PER_MS)} in all"
    text += f", most of it in {kernels}." if named else "."
    scopes = [(name, ms) for name, ms in times.scopes if ms >= MIN_NAMED * times.ms][:MAX_NAMED]
    if any(name for name, _ in scopes):
        told = [
            f"{shortened(name, MAX_NAME) or 'no scope'} ({percent(ms / times.ms)})" for name, ms in scopes
        ]
        text += f" By scope: {listed(told)}."
    moving = [each for each in times.kernels if 0 < _reached(each) <= 1][:MAX_NAMED]
    if moving:
        rates = [
            f"{shortened(each.name, MAX_NAME)} moves {each.moved:,.0f} GB/s ({percent(_reached(each))} of what the "
            "memory allows)"
            for each in moving
        ]
        text += f" By the bytes that the program states, {listed(rates)}."
    return text


_OPERATORS_CODE = """observer = ExecutionTraceObserver().register_callback("operators.json")
with torch.profiler.profile(execution_trace_observer=observer) as prof:   # both of the same steps
    run()
prof.export_chrome_trace("trace.json")"""


@rule
class RecordedWorkOfOperators(Rule):
    id = "recorded-work"
    category = Category.WHAT_WAS_RECORDED
    needs = frozenset({Need.EXECUTION_TRACE})
    explanation = f"""
What it found
    An execution trace lists every operator that ran, with the shapes and types of its inputs.

Why it costs time
    It does not. Operators with most operations are those that a GPU should spend most of its time in.

How it decides
    Operations of matrix products, convolutions and attention follow from their shapes. Operators with at least
    {percent(MIN_NAMED)} of all operations are named. Beside a timeline that has each of these operators exactly as
    often, the operations are divided by the time of its kernels.

What to try
    Open it together with the timeline of the same steps. If the GPU spends its time elsewhere than the operations,
    look at what it does there.

When it is wrong
    Operators of custom kernels have operations that nobody knows here. A rate counts the time of all kernels, also of
    those that compute nothing.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        work = recorded_work(trace, _operations_of)
        rate = ""
        if work.operations and len(trace.gpu_operations) and is_of_this_timeline(trace, work):
            time = kernel_time(trace)
            if time > 0:
                rate = (
                    f" The timeline has the same operators; its kernels took {duration(time)}, which makes "
                    f"{operations(work.operations / time * NS_PER_S)}."
                )
        first = work.operators[0] if work.operators else None
        yield self.finding(
            analysis,
            headline=_work_headline(work, first),
            account=_work_account(work) + rate,
            remedy=remedy()
            if rate
            else remedy(
                "Open it together with a timeline of the same steps, to see how fast they are.",
                code=_OPERATORS_CODE,
            ),
            culprit=Culprit(CulpritKind.OPERATOR, first.name) if first is not None else NOBODY,
            unknown=() if rate else ("How long the operators took: this requires a timeline.",),
        )


def _operations_of(name: str, shapes: str, types: str, values: Callable[[], Sequence[str]]) -> float:
    work = work_of(name, shapes, types, "", values)
    return work.operations if work is not None else 0.0


def _work_headline(work: RecordedWork, first: OperatorWork | None) -> Headline:
    if first is None:
        return Headline(f"{_times(work.calls, 'operator call')} without matrix products or convolutions")
    mine = sum(each.operations for each in work.operators if each.name == first.name)
    share = percent(mine / work.operations)
    what = "the arithmetic that is known" if work.uncounted else "all arithmetic"
    return Headline(f"{share} of {what} is in {shortened(first.name, MAX_NAME)}", names_culprit=True)


def _work_account(work: RecordedWork) -> str:
    text = f"{_times(work.calls, 'operator call')} {'was' if work.calls == 1 else 'were'} recorded."
    if work.operations:
        told = [
            f"{shortened(each.name, MAX_NAME)} of {shown_shapes(each.shapes)} "
            f"({percent(each.operations / work.operations)})"
            for each in work.operators
            if each.operations >= MIN_NAMED * work.operations
        ][:MAX_NAMED]
        text += f" Products and convolutions need {operations(work.operations).removesuffix('/s')}"
        text += f", most of it in {listed(told)}." if told else "."
    if work.uncounted:
        called = _times(work.uncounted, "convolution")
        text += f" Not counted: {called}, of which neither the strides nor what they call were recorded."
    for each in work.copies[:MAX_NAMED]:
        moved = size(each.megabytes * 1e6)
        copies = _times(each.count, "copy", "copies")
        text += f" {copies} from {each.source} to {each.target} moved {moved}."
    return text


def _times(count: int, one: str, several: str = "") -> str:
    return f"{count:,} {one if count == 1 else several or one + 's'}"


MIN_NAMED_PART = 0.01  # of the warps' time
MAX_PART_NAME = 25  # characters, so that two fit into a title
UNEVEN = 1.5  # times the median warp: then the slowest one decides how long the kernel takes
_PARTS_CODE = """import triton.profiler.language as pl
pl.enable_semantic("triton")

with pl.scope("load"):          # inside the kernel, around each part that is to be told apart
    a = tl.load(a_ptr + offsets)"""


@rule
class InsideKernels(Rule):
    id = "inside-kernels"
    category = Category.WHAT_WAS_RECORDED
    needs = frozenset({Need.INSIDE_KERNELS})
    explanation = f"""
What it found
    A kernel was measured from the inside: its author marked parts of it, and each warp noted when it ran them.

Why it costs time
    It does not. The part that takes most of the warps' time is where a faster kernel has to be made.

How it decides
    Each moment of each warp is assigned to the innermost part it is in; warps of all blocks and launches are added
    up. Parts with at least {percent(MIN_NAMED_PART)} of the time are named. Warps are called uneven if the slowest one
    takes at least {UNEVEN} times as long as the median one.

What to try
    Mark smaller parts inside the largest one, until it is clear which lines it is. Waiting for loads is reduced by
    fetching earlier or by larger tiles, computing by tensor cores or cheaper functions.

When it is wrong
    Compilers move instructions across marks, and a load is waited for where its value is used, not where it stands.
    A first launch fills caches and is slower than others.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        for kernel in inside_kernels(trace)[:MAX_NAMED]:
            if not kernel.whole:
                continue
            longest = kernel.warps[np.argsort(-kernel.times, kind="stable")[:3]]
            yield self.finding(
                analysis,
                headline=_parts_headline(kernel),
                account=_parts_account(kernel),
                remedy=remedy(
                    "Mark smaller parts inside the largest one, to see which of its lines take the time.",
                    *(
                        (
                            "Give all warps the same amount of work: the kernel lasts as long as its slowest one.",
                        )
                        if kernel.slowest >= UNEVEN
                        else ()
                    ),
                    code=_PARTS_CODE,
                ),
                culprit=Culprit(CulpritKind.KERNEL, shortened(kernel.name, 80)),
                evidence=evidence_of(trace, longest),
                unknown=("What warps wait for in it: Nsight Compute names the stalls of each line.",),
                confidence="medium",
            )


def _parts_headline(kernel: KernelInside) -> Headline:
    part, time = kernel.parts[0]
    share = percent(time / kernel.whole)
    where = f"in {shortened(part, MAX_PART_NAME)}" if part else "in none of the marked parts"
    return Headline(f"{share} of its warps' time is {where}", subject=shortened(kernel.name, MAX_PART_NAME))


def _parts_account(kernel: KernelInside) -> str:
    count = len(kernel.warps)
    named = [
        (name, time / kernel.whole) for name, time in kernel.parts if time >= MIN_NAMED_PART * kernel.whole
    ]
    parts = listed(
        [f"{shortened(name, MAX_PART_NAME) or 'no marked part'} ({percent(share)})" for name, share in named]
    )
    warps = f"{count:,} warps" if count != 1 else "1 warp"
    on = f"{kernel.units:,} multiprocessors" if kernel.units != 1 else "1 multiprocessor"
    text = f"The time of {warps} on {on} goes to {parts}."
    if kernel.slowest >= UNEVEN:
        text += f" The slowest warp took {kernel.slowest:.1f} times as long as the median one."
    return text
