"""Kernels whose warps run with many of their threads switched off."""

from __future__ import annotations

from parsers.model import KernelProfile
from rules.findings.base import Category, remedy, rule
from rules.losses.kernel_findings import Fault, KernelRule, Reads, results_of

MIN_SAVING = 0.05


@rule
class KernelDivergence(KernelRule):
    id = "kernel-divergence"
    category = Category.DIVERGENCE
    reads = Reads(r"thread_inst_executed_per_inst_executed", "WarpStateStats", "active threads of a warp")
    explanation = """
What it found
    On average fewer than 24 of the 32 threads of a warp execute an instruction.

Why it costs time
    A warp executes one instruction at a time for all its threads. Threads on another path wait, and their lanes do
    nothing.

How it decides
    From the average number of active threads for each executed instruction, weighed by how busy the arithmetic units
    are: idle lanes cost nothing in a kernel that waits for memory.

What to try
    Let the condition depend on the warp instead of the thread, sort the work by path, move the divergent part into a
    kernel of its own.

When it is wrong
    When the arithmetic units are not the limit, and for triangular or ragged data where some divergence is unavoidable.
"""

    def fault(self, kernel: KernelProfile) -> Fault | None:
        loud = [each for each in results_of(kernel, "ThreadDivergence") if each.saving >= MIN_SAVING]
        if not loud:
            return None
        return Fault(
            title="threads of a warp take different paths",
            explanation=" ".join(each.text for each in loud),
            remedy=remedy(
                "Make the condition the same for all 32 threads of a warp (by warp index, not by thread index).",
                "Sort or group the elements so that a warp handles one kind.",
            ),
            saving=max(each.saving for each in loud),
            confidence="high",
        )
