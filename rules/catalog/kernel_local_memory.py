"""Kernels that keep registers' worth of data in memory: spills and arrays indexed at run time."""

from __future__ import annotations

from parsers.model import KernelProfile
from rules.findings.base import Category, remedy, rule
from rules.kernels.checks.memory import local_share, spilled_requests
from rules.kernels.checks.stalls import stalls
from rules.losses.kernel_findings import Fault, KernelRule, Reads, runs_at_the_compute_limit

MIN_LOCAL_SHARE = 0.10
_MEMORY_WAITS = frozenset({"long_scoreboard", "lg_throttle"})


@rule
class KernelLocalMemory(KernelRule):
    id = "kernel-local-memory"
    category = Category.LOCAL_MEMORY
    reads = Reads(
        r"local_(load|store)|mem_local|op_local|local_spilling|register_spilling",
        "MemoryWorkloadAnalysis_Tables",
        "local memory",
    )
    explanation = """
What it found
    A good part of the kernel's memory accesses go to local memory: registers that did not fit (spills), or arrays of
    a thread whose index is known only at run time.

Why it costs time
    Local memory is ordinary GPU memory behind the caches: an access takes 30 to several hundred cycles instead of
    none.

How it decides
    From the share of sectors (or instructions) that are local: at least 10 %. It is a register spill when the profiler
    counted spill instructions, otherwise "local memory". The ceiling is that share of the time spent waiting for
    memory.

What to try
    For spills: fewer live variables, smaller tiles, a higher register limit (__launch_bounds__, -maxrregcount). For
    arrays: constant indices (unroll the loop), shared memory, or fewer elements per thread.

When it is wrong
    When the accesses hit L1 and the kernel has other work meanwhile; kernels at the compute limit are left out.
"""

    def fault(self, kernel: KernelProfile) -> Fault | None:
        share = local_share(kernel)
        if share < MIN_LOCAL_SHARE or runs_at_the_compute_limit(kernel):
            return None
        spills = spilled_requests(kernel)
        waiting = sum(each.share for each in stalls(kernel) if each.reason in _MEMORY_WAITS)
        registers = kernel.number("launch__registers_per_thread")
        used = f" It uses {registers:.0f} registers per thread." if registers else ""
        what = (
            f"{spills:,.0f} of its memory instructions are register spills."
            if spills
            else "They are spilled registers or arrays that are indexed at run time; the report does not say which."
        )
        return Fault(
            title="register spills" if spills else "local memory instead of registers",
            explanation=f"{100 * share:.0f} % of its memory accesses go to local memory. {what}{used}",
            remedy=remedy(
                "Keep the arrays of a thread small and index them with constants (#pragma unroll), so that they stay "
                "in registers.",
                "Let the compiler use more registers: raise or remove -maxrregcount, adjust __launch_bounds__.",
                "Compile with -Xptxas -v: it reports the spills of every kernel.",
                code="__launch_bounds__(256, 1) __global__ void kernel(...)",
            ),
            saving=share * (min(waiting, 1.0) or 1.0),
            category=Category.REGISTER_SPILL if spills else Category.LOCAL_MEMORY,
        )
