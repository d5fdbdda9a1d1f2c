"""Metrics of kernels beside or without their times: what samples of a GPU's counters say, and what nvprof printed."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.late import dataclass
from parsers.model.names.kernels import distinct_names, kernel_name
from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.beside.counted_metrics import CountedKernel, counted_kernels
from rules.analysis.beside.gpu_metrics import (
    MIN_SAMPLES,
    NEAR_THE_LIMIT,
    DeviceUse,
    KernelUse,
    Limit,
    gpu_use,
)
from rules.findings.base import Category, Finding, Need, Rule, remedy, rule
from rules.losses.lost_time import evidence_of
from rules.terms import NOBODY, Culprit, CulpritKind
from rules.wording.words import Headline, Words, listed, ours, shortened

MIN_TOLD = 0.1  # of the kernels' time has to be sampled
MIN_LIMIT = 0.05  # of it: what limits less is not told
MAX_NAME = 50  # characters
_ADVICE: dict[Limit, Words] = {
    Limit.TENSOR: "What runs on tensor cores only gets faster with narrower types, or with less to compute.",
    Limit.MEMORY: "Let these kernels move less: fuse them with their neighbours, or use narrower types.",
    Limit.ISSUE: "Let these kernels execute fewer instructions: vectorised loads, less index arithmetic, fusion.",
    Limit.FEW_BLOCKS: "Give these kernels more blocks: larger batches, smaller tiles, or several of them at once.",
    Limit.LATENCY: ours(
        "Profile these kernels with $NsightCompute: they wait, and only counters tell for what."
    ),
}
_TITLES = {
    Limit.TENSOR: "Tensor cores are the limit",
    Limit.MEMORY: "Memory bandwidth is the limit",
    Limit.ISSUE: "Issuing instructions is the limit",
    Limit.FEW_BLOCKS: "Too few blocks keep the GPU busy",
    Limit.LATENCY: "Kernels wait without using the GPU up",
}


@rule
class SampledMetrics(Rule):
    id = "sampled-metrics"
    category = Category.KERNEL_LIMITS
    needs = frozenset({Need.GPU_OPERATIONS, Need.GPU_METRICS})
    explanation = f"""
What it found
    GPU metrics were sampled while kernels ran, and show what limits those that run long enough.

Why it costs time
    It may cost nothing. A kernel at the limit of the tensor cores or of the memory is as fast as its work allows; one
    that is near no limit could be faster.

How it decides
    A sample counts for a kernel if nothing else ran from the sample before it to the one after. Kernels with at least
    {MIN_SAMPLES} such samples are judged by their means: whichever of tensor cores, memory bandwidth (reads and
    writes) and issued instructions is used most limits the kernel, if it is used to at least {NEAR_THE_LIMIT:.0f} %.
    Otherwise the kernel has too few blocks, if multiprocessors are idle, or it waits for latency.

What to try
    Start with the kernels that are near no limit and take most time. For the others, give them less to do.

When it is wrong
    Metrics are means over the whole GPU and the whole sample. Kernels shorter than two samples are not judged: a
    higher sampling rate (--gpu-metrics-frequency) shows more of them.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        for use in gpu_use(analysis):
            if use.sampled_ns < MIN_TOLD * use.kernels_ns:
                continue
            by_limit = _by_limit(use)
            first, kernels = by_limit[0]
            told = [limit for limit, some in by_limit if _time(some) >= MIN_LIMIT * use.sampled_ns]
            yield self.finding(
                analysis,
                headline=Headline(
                    _TITLES[first], f"{percent(_time(kernels) / use.sampled_ns)} of the sampled kernels' time"
                ),
                account=_account(analysis, use, by_limit),
                remedy=remedy(*(_ADVICE[limit] for limit in told)),
                culprit=Culprit(CulpritKind.KERNEL, analysis.trace.strings[kernels[0].name]),
                device=use.device,
                evidence=evidence_of(
                    analysis.trace, np.array([each.longest for each in kernels[:3]], np.int64)
                ),
                unknown=(ours("Why kernels wait: this requires $NsightComputes counters."),),
                confidence="medium",
            )


def _by_limit(use: DeviceUse) -> list[tuple[Limit, list[KernelUse]]]:
    """The kernels by what limits them, what takes most time first."""
    found: dict[Limit, list[KernelUse]] = {}
    for kernel in use.kernels:
        found.setdefault(kernel.limit, []).append(kernel)
    return sorted(found.items(), key=lambda each: -_time(each[1]))


def _time(kernels: Iterable[KernelUse]) -> int:
    return sum(each.time_ns for each in kernels)


def _account(analysis: Analysis, use: DeviceUse, by_limit: list[tuple[Limit, list[KernelUse]]]) -> str:
    parts = []
    for limit, kernels in by_limit:
        if (share := _time(kernels) / use.sampled_ns) >= MIN_LIMIT:
            name = shortened(kernel_name(analysis.trace.strings[kernels[0].name]), MAX_NAME)
            parts.append(f"{percent(share)} {limit.value} ({name}: {_used(kernels[0])})")
    return (
        f"Metrics were sampled every {duration(use.interval_ns)}. Kernels that take "
        f"{percent(use.sampled_ns / use.kernels_ns)} of the kernels' time ran long enough to be judged. Of their "
        f"time, {listed(parts)}."
    )


def _used(kernel: KernelUse) -> str:
    """What a kernel uses, of what tells about it."""
    used = percent(kernel.reached / 100.0)
    if kernel.limit is Limit.FEW_BLOCKS:
        return f"{used} of the multiprocessors are active"
    if kernel.limit is Limit.LATENCY:
        tensor, memory = (percent(each / 100.0) for each in (kernel.tensor, kernel.memory))
        return f"tensor cores {tensor}, memory {memory}, instructions {percent(kernel.issue / 100.0)}"
    return f"{used} used"


MAX_NAMED = 3
MIN_EFFICIENCY = 0.5  # of what an access moves, of a warp's lanes, of the time of the SMs
MIN_OCCUPANCY = 0.25
MIN_BUSY = 0.75  # of the memory, as nvprof grades it from 0 to 10


@dataclass(frozen=True, slots=True)
class _Fault:
    """What a metric below ``least`` says of a kernel that has any, and what to do about it."""

    metric: str
    least: float
    said: str
    advice: str


_FAULTS = (
    _Fault(
        "gld_efficiency",
        MIN_EFFICIENCY,
        "Scattered loads",
        "Let threadIdx.x be the fastest-changing index of what a warp reads, and store a structure of arrays.",
    ),
    _Fault(
        "gst_efficiency",
        MIN_EFFICIENCY,
        "Scattered stores",
        "Let threadIdx.x be the fastest-changing index of what a warp writes.",
    ),
    _Fault(
        "warp_execution_efficiency",
        MIN_EFFICIENCY,
        "Idle lanes of warps",
        "Let the threads of a warp take the same branch and loop equally often, in blocks of a multiple of 32 threads.",
    ),
    _Fault(
        "shared_efficiency",
        MIN_EFFICIENCY,
        "Bank conflicts in shared memory",
        "Let neighbouring threads use neighbouring words of shared memory; pad its rows against bank conflicts.",
    ),
    _Fault(
        "sm_efficiency",
        MIN_EFFICIENCY,
        "SMs without work",
        "Launch more blocks, of equal work: at least two for each SM.",
    ),
    _Fault(
        "achieved_occupancy",
        MIN_OCCUPANCY,
        "Few warps on each SM",
        "Launch more threads, or let each use fewer registers and less shared memory.",
    ),
)
_MEMORY = "dram_utilization"


@rule
class PrintedMetrics(Rule):
    id = "printed-metrics"
    category = Category.WHAT_WAS_RECORDED
    needs = frozenset({Need.PRINTED_METRICS})
    explanation = f"""
What it found
    nvprof counted metrics of kernels: how much of what they load is used, how many lanes and SMs work.

Why it costs time
    Loads that fetch more than is used, idle lanes and idle SMs are time that a kernel could save. How much that is
    for the program depends on how long the kernel takes, which such a table does not say.

How it decides
    A kernel is told if one of these is below {percent(MIN_EFFICIENCY)} on average over its launches, and not zero:
    gld_efficiency, gst_efficiency, warp_execution_efficiency, shared_efficiency, sm_efficiency; or achieved_occupancy
    below {percent(MIN_OCCUPANCY)}. The fault that most kernels have is told first. Without one, kernels that use the
    device's memory at {percent(MIN_BUSY)} or more (dram_utilization) are told as limited by it.

What to try
    The advice of each fault, in the kernels that take most of the time first: nvprof prints that without --metrics.

When it is wrong
    Metrics are averages over all launches of a kernel, and small launches count as much as large ones.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        kernels = counted_kernels(analysis.trace)
        found = [(fault, _with(kernels, fault)) for fault in _FAULTS]
        found = sorted((each for each in found if each[1]), key=lambda each: -len(each[1]))
        busy = [each for each in kernels if each.parts.get(_MEMORY, 0.0) >= MIN_BUSY]
        yield self.finding(
            analysis,
            headline=_headline(kernels, found, busy),
            account=" ".join([*(_told_of(*each) for each in found), *_of_memory(busy), _WITHOUT_TIMES]),
            remedy=remedy(
                *(fault.advice for fault, _ in found),
                *([] if found or busy else _more(kernels)),
                ours("Record times as well ($RecordATimeline), to see which kernel matters."),
            ),
            culprit=Culprit(CulpritKind.KERNEL, found[0][1][0].name) if found else NOBODY,
            unknown=("How long each kernel takes: a table of metrics does not say.",),
        )


_WITHOUT_TIMES = "The table holds no times, so it does not say which kernel matters."
_TELLING = (
    *("gld_efficiency", "gst_efficiency", "warp_execution_efficiency"),
    *("achieved_occupancy", "sm_efficiency", _MEMORY),
)


def _more(kernels: Iterable[CountedKernel]) -> list[str]:
    """What to count that was not counted yet."""
    counted = {metric for each in kernels for metric in each.parts}
    missing = [metric for metric in _TELLING if metric not in counted]
    return [f"Count what says more: nvprof --metrics {','.join(missing)}"] if missing else []


def _with(kernels: Iterable[CountedKernel], fault: _Fault) -> list[CountedKernel]:
    """The kernels with a fault, the worst first; a part of zero is of a kernel that does nothing of the kind."""
    those = [each for each in kernels if 0.0 < each.parts.get(fault.metric, 0.0) < fault.least]
    return sorted(those, key=lambda each: each.parts[fault.metric])


def _headline(
    kernels: tuple[CountedKernel, ...],
    found: list[tuple[_Fault, list[CountedKernel]]],
    busy: list[CountedKernel],
) -> Headline:
    if found:
        fault, those = found[0]
        return Headline(f"{fault.said} in {_part_of(those, kernels)}")
    if busy:
        return Headline(f"Limited by the GPU's memory: {_part_of(busy, kernels)}")
    told = any(fault.metric in each.parts for fault in _FAULTS for each in kernels)
    if told:
        return Headline(f"Metrics of {_counted(kernels)} show no fault")
    return Headline(f"The metrics of {_counted(kernels)} do not say what limits {_it_or_them(kernels)}")


def _part_of(those: list[CountedKernel], kernels: tuple[CountedKernel, ...]) -> str:
    """ "7 of 16 kernels", or the name of a kernel where no other was counted."""
    if len(kernels) == 1:
        return shortened(distinct_names([those[0].name])[0])
    return f"{len(those):,} of {_counted(kernels)}"


def _counted(kernels: tuple[CountedKernel, ...]) -> str:
    return "1 kernel" if len(kernels) == 1 else f"{len(kernels):,} kernels"


def _it_or_them(kernels: tuple[CountedKernel, ...]) -> str:
    return "it" if len(kernels) == 1 else "them"


def _told_of(fault: _Fault, those: list[CountedKernel]) -> str:
    named = those[:MAX_NAMED]
    names = distinct_names([each.name for each in named])
    told = [
        f"{shortened(name, 60)} {percent(each.parts[fault.metric])}"
        for name, each in zip(names, named, strict=True)
    ]
    more = f" and {len(those) - MAX_NAMED:,} more" if len(those) > MAX_NAMED else ""
    return f"{fault.metric}: {', '.join(told) if more else listed(told)}{more}."


def _of_memory(busy: list[CountedKernel]) -> list[str]:
    names = distinct_names([each.name for each in busy[:MAX_NAMED]])
    return [f"dram_utilization is high in {listed([shortened(name, 60) for name in names])}."] if busy else []
