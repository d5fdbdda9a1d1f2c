"""Kernels whose warps wait for each other at barriers."""

from __future__ import annotations

from parsers.model import KernelProfile
from rules.findings.base import Category, remedy, rule
from rules.kernels.checks.explanations import stall_reasons
from rules.kernels.checks.occupancy import is_warp_specialised
from rules.losses.kernel_findings import Fault, KernelRule, Reads, results_of, runs_at_the_compute_limit


@rule
class KernelBarrierStall(KernelRule):
    id = "kernel-barrier-stall"
    category = Category.BARRIER_STALL
    reads = Reads(r"issue_stalled_barrier", "WarpStateStats", "stalls")
    explanation = """
What it found
    Warps spend more than 30 % of the time between two instructions at a barrier of their block, or at a memory fence.

Why it costs time
    A block continues only when its last warp has arrived; until then all others hold registers and do nothing.

How it decides
    From the stall reasons "barrier" and "membar" while the schedulers issue in fewer than 80 % of the cycles. Kernels
    at the compute limit and kernels that feed the tensor cores asynchronously are left out.

What to try
    Fewer barriers, smaller blocks so that several fit on an SM, equal work for all warps, warp-level primitives.

When it is wrong
    In producer-consumer kernels some warps wait on purpose.
"""

    def fault(self, kernel: KernelProfile) -> Fault | None:
        if runs_at_the_compute_limit(kernel) or is_warp_specialised(kernel):
            return None
        results = results_of(kernel, "CPIStall", self.category)
        if not results:
            return None
        return Fault(
            title="warps wait for each other at barriers",
            explanation=results[0].text,
            remedy=remedy(
                stall_reasons()[results[0].subject].fix,
                "Try half the block size: another block on the SM can work while this one waits.",
            ),
            saving=results[0].saving,
        )
