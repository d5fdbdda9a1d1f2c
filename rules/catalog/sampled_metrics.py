"""GPU metrics sampled beside the kernels: what limits those that take most time, without profiling them one by one."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.names.kernels import kernel_name
from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
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
from rules.terms import Culprit, CulpritKind
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
