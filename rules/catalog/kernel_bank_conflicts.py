"""Kernels whose shared-memory accesses collide in the same bank."""

from __future__ import annotations

from parsers.model import KernelProfile
from rules.findings.base import Category, remedy, rule
from rules.kernels.checks.occupancy import is_warp_specialised
from rules.kernels.checks.speed_of_light import L1
from rules.losses.kernel_findings import Fault, KernelRule, Reads, results_of, runs_at_the_compute_limit

MIN_SAVING = 0.1


@rule
class KernelBankConflicts(KernelRule):
    id = "kernel-bank-conflicts"
    category = Category.BANK_CONFLICTS
    reads = Reads(
        r"data_bank_conflicts_pipe_lsu_mem_shared|memory_l1_wavefronts_shared",
        "MemoryWorkloadAnalysis_Tables",
        "bank conflicts",
    )
    explanation = """
What it found
    Threads of a warp access different words of the same one of the 32 banks of shared memory.

Why it costs time
    One bank serves one word at a time: a 32-way conflict makes one access take 32 passes, and all warps of the SM
    queue behind it.

How it decides
    From the share of passes (wavefronts) that exist only because of conflicts, weighed by how busy L1 and shared
    memory are. It is reported from 10 % of the kernel's time, but not when the arithmetic units are at their limit or
    when the kernel feeds the tensor cores asynchronously.

What to try
    Pad rows by one element (tile[32][33]), swizzle the column index with XOR, or change which thread handles which
    element.

When it is wrong
    Tensor-core kernels with hardware swizzling count some conflicts that they hide behind other work.
"""

    def fault(self, kernel: KernelProfile) -> Fault | None:
        if runs_at_the_compute_limit(kernel) or is_warp_specialised(kernel):
            return None
        results, busy = results_of(kernel, "SharedMemoryConflicts"), 1.0
        if not results:
            results = results_of(kernel, "UncoalescedSharedAccess")
            busy = min(kernel.number(L1) or 100.0, 100.0) / 100.0
        saving = busy * results[0].saving if results else 0.0
        if saving < MIN_SAVING:
            return None
        return Fault(
            title="bank conflicts in shared memory",
            explanation=" ".join(each.text for each in results),
            remedy=remedy(
                "Pad the rows of the shared array by one element so that a column spreads over all banks.",
                "Or swizzle: index the column with (column ^ row), as matrix libraries do.",
                code="__shared__ float tile[32][33];  // 33 instead of 32",
            ),
            saving=saving,
            confidence="high",
        )
