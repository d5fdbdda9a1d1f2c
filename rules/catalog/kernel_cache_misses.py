"""Kernels that wait for single trips to DRAM although its bandwidth is hardly used."""

from __future__ import annotations

from parsers.model import KernelProfile
from rules.findings.base import Category, remedy, rule
from rules.kernels.checks.speed_of_light import dram_percent, speed_of_light
from rules.kernels.checks.stalls import capped, stalls
from rules.losses.kernel_findings import Fault, KernelRule, Reads
from rules.terms import MAJORITY

LOW_L2_HIT_PERCENT = 50.0
IDLE_DRAM_PERCENT = 30.0
L2_HIT = "lts__t_sector_hit_rate.pct"


@rule
class KernelCacheMisses(KernelRule):
    id = "kernel-cache-misses"
    category = Category.CACHE_MISSES
    reads = Reads(r"(l1tex|lts)__t_sector\w*(hit_rate|lookup_miss)", "MemoryWorkloadAnalysis", "cache hits")
    explanation = """
What it found
    Most of the time warps wait for loads that miss L2, while DRAM itself has little to do.

Why it costs time
    A trip to DRAM takes 400 to 800 cycles. When each address depends on the value loaded before, as in a linked list or
    a tree, the trips cannot overlap.

How it decides
    When the kernel waits (neither compute nor memory reaches 60 %), more than half of the waiting is for loads, fewer
    than half of the L2 accesses hit, and DRAM runs below 30 %.

What to try
    Make the data fit into L2 or shared memory, store it in the order in which it is read, fetch ahead, or let every
    thread follow several chains at once.

When it is wrong
    Data that is read only once cannot hit a cache: then more loads in flight help, not caching.
"""

    def fault(self, kernel: KernelProfile) -> Fault | None:
        sol, hits, dram = speed_of_light(kernel), kernel.number(L2_HIT), dram_percent(kernel)
        if sol is None or hits is None or dram is None or sol.bound is not Category.LATENCY_BOUND:
            return None
        waiting = sum(each.share for each in stalls(kernel) if each.reason == "long_scoreboard")
        if waiting < MAJORITY or hits >= LOW_L2_HIT_PERCENT or dram >= IDLE_DRAM_PERCENT:
            return None
        percent, _ = capped(kernel, waiting * (1 - hits / 100.0))
        return Fault(
            title="waits for one cache miss after another",
            explanation=(
                f"Warps wait {100 * waiting:.0f} % of the time for loads, only {hits:.0f} % of them hit L2, and "
                f"DRAM is used to {dram:.0f} %: the loads follow each other instead of overlapping."
            ),
            remedy=remedy(
                "Load several independent addresses at once, or prefetch the next one while working on this one.",
                "Store the data in the order in which it is read; replace linked structures by arrays.",
            ),
            saving=percent / 100.0,
        )
