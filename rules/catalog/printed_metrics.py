"""Metrics that nvprof counted: which faults they show in which kernels, as long as no times say what matters."""

from __future__ import annotations

from collections.abc import Iterable

from parsers.model.late import dataclass
from parsers.model.names.kernels import distinct_names
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.beside.counted_metrics import CountedKernel, counted_kernels
from rules.findings.base import Category, Finding, Need, Rule, remedy, rule
from rules.terms import NOBODY, Culprit, CulpritKind
from rules.wording.words import Headline, listed, ours, shortened

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
            account=" ".join([*(_account(*each) for each in found), *_of_memory(busy), _WITHOUT_TIMES]),
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


def _account(fault: _Fault, those: list[CountedKernel]) -> str:
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
