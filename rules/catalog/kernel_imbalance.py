"""Kernels whose work is spread unevenly over the GPU."""

from __future__ import annotations

from parsers.model import KernelProfile
from rules.findings.base import Category, remedy, rule
from rules.kernels.checks.speed_of_light import HIGH_PERCENT, fills_the_gpu, speed_of_light
from rules.losses.kernel_findings import Fault, KernelRule, Reads, results_of

MIN_SAVING = 0.1
SHORT_NS = 10_000
_SHARED_UNITS = ("SMs", "L2 slices", "DRAM channels")


@rule
class KernelImbalance(KernelRule):
    id = "kernel-imbalance"
    category = Category.IMBALANCE
    reads = Reads(r"__cycles_active\.max", "WorkloadDistribution", "each unit's busy cycles")
    explanation = """
What it found
    Some SMs (or slices of L2, or channels of DRAM) were active much longer than the average one.

Why it costs time
    The kernel ends when its last block ends; units that finish earlier wait.

How it decides
    From the active cycles of the busiest unit against the average: 10 % of the kernel's time or more. Grids with too
    few blocks, kernels below 10 us and kernels near a limit are left out.

What to try
    Smaller blocks, the largest pieces of work first, blocks that fetch work from a counter, another address layout if
    memory channels are uneven.

When it is wrong
    When other kernels ran at the same time.
"""

    def fault(self, kernel: KernelProfile) -> Fault | None:
        sol = speed_of_light(kernel)
        if not fills_the_gpu(kernel) or (kernel.duration_ns or 0.0) < SHORT_NS:
            return None
        if sol is not None and sol.best >= HIGH_PERCENT:
            return None
        loud = [
            each
            for each in results_of(kernel, "WorkloadImbalance")
            if each.subject in _SHARED_UNITS and each.saving >= MIN_SAVING
        ]
        if not loud:
            return None
        return Fault(
            title=f"uneven work: some {loud[0].subject} are busy much longer",
            explanation=loud[0].text,
            remedy=remedy(
                "Split the work into more and smaller blocks, and start the largest ones first.",
                "Or let blocks fetch their next piece of work from an atomic counter.",
            ),
            saving=loud[0].saving,
        )
