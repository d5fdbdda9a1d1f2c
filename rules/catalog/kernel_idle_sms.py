"""Kernels with fewer blocks than SMs, so that a part of the GPU has nothing to do."""

from __future__ import annotations

from parsers.model import KernelProfile
from rules.findings.base import Category, remedy, rule
from rules.kernels.checks.speed_of_light import LOW_PERCENT, speed_of_light
from rules.losses.kernel_findings import Fault, KernelRule, Reads, results_of

MIN_IDLE = 0.1


@rule
class KernelIdleSms(KernelRule):
    id = "kernel-idle-sms"
    category = Category.SMALL_GRID
    reads = Reads(r"launch__(sm_count|waves)|multiprocessor_count", "LaunchStats", "SMs")
    explanation = """
What it found
    The grid has fewer blocks than the GPU has SMs: at least a tenth of the GPU is idle while the kernel runs.

Why it costs time
    A block runs on one SM. SMs without a block cannot help the others.

How it decides
    From the number of blocks and SMs, for kernels that use less than 60 % of compute and memory, or for which that
    was not measured. Kernels that leave more than a quarter of the SMs idle have that as their main verdict and are
    not repeated here.

What to try
    More and smaller blocks, split along another dimension (split-K), several problems in one launch, or other kernels
    on another stream at the same time.

When it is wrong
    When other kernels ran on the idle SMs, which the profiler prevents by running one kernel at a time.
"""

    def fault(self, kernel: KernelProfile) -> Fault | None:
        sol = speed_of_light(kernel)
        if sol is not None and (sol.best >= LOW_PERCENT or sol.bound is Category.SMALL_GRID):
            return None
        results = results_of(kernel, "LaunchConfiguration", self.category)
        if not results or results[0].saving < MIN_IDLE:
            return None
        return Fault(
            title="SMs without a block",
            explanation=results[0].text,
            remedy=remedy(
                "Launch at least as many blocks as there are SMs: smaller blocks, or a split along another axis."
            ),
            saving=results[0].saving,
        )
