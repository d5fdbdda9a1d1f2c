"""Kernels whose blocks do not fill their warps: their launch alone leaves lanes without a thread."""

from __future__ import annotations

from parsers.model import KernelProfile
from rules.findings.base import Category, remedy, rule
from rules.kernels.checks.launch import WARP, threads_of
from rules.kernels.checks.speed_of_light import dram_percent
from rules.losses.kernel_findings import Fault, KernelRule, Reads, results_of

MIN_SAVING = 0.05
OF_A_SECTOR = 8  # 32 bits each: what fewer threads ask for, memory moves with what nobody asked for


@rule
class KernelPartialWarps(KernelRule):
    id = "kernel-partial-warps"
    category = Category.DIVERGENCE
    reads = Reads(r"launch__", "LaunchStats", "block sizes")
    explanation = """
What it found
    The blocks have fewer threads than a warp has lanes, or a number of threads that is not a multiple of it.

Why it costs time
    A warp of 32 lanes takes its time however many threads it has. With one thread in each block, 31 of 32 lanes do
    nothing in every warp.

How it decides
    From the block size. The ceiling is the share of lanes without a thread, less what DRAM is busy for meanwhile;
    blocks of less than 8 threads use only a part of each 32 bytes that it moves. It is reported when 5 % of the
    kernel's time could be saved.

What to try
    Blocks of 128 to 256 threads, a multiple of 32. Several small pieces of work fit into one block.

When it is wrong
    When the GPU hides it: with many blocks on each SM, warps with few threads take turns, and memory is the limit.
"""

    def fault(self, kernel: KernelProfile) -> Fault | None:
        results = [
            each
            for each in results_of(kernel, "LaunchConfiguration", self.category)
            if each.saving >= MIN_SAVING
        ]
        if not results:
            return None
        threads = threads_of(kernel)
        needed = min(threads / OF_A_SECTOR, 1.0) * (dram_percent(kernel) or 0.0) / 100
        saving = min(max(each.saving for each in results), 1 - needed)
        if saving < MIN_SAVING:
            return None
        few = f"blocks of {threads} thread{'s' if threads != 1 else ''} leave {WARP - threads} of {WARP} lanes idle"
        return Fault(
            title=few if threads < WARP else "the last warp of each block is partly empty",
            explanation=" ".join(each.text for each in results),
            remedy=remedy(
                "Choose a block size that is a multiple of 32: 128 or 256 threads suit most kernels.",
                "Give each thread of a warp its own element, instead of one element to a block.",
                code="kernel<<<(n + 255) / 256, 256>>>(...);  // i = blockIdx.x * blockDim.x + threadIdx.x",
            ),
            saving=saving,
            confidence="high",
        )
