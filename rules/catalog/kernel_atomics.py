"""Kernels that queue up at atomic operations."""

from __future__ import annotations

from parsers.model import KernelProfile
from rules.findings.base import Category, remedy, rule
from rules.kernels.checks.memory import atomic_share
from rules.kernels.checks.speed_of_light import HIGH_PERCENT, LOW_PERCENT, speed_of_light
from rules.kernels.checks.stalls import capped, stalls
from rules.losses.kernel_findings import Fault, KernelRule, Reads

MIN_ATOMIC_SHARE = 0.2
MIN_WAITING_SHARE = 0.3
# percent of the throughput: what else waits for memory then stands behind the atomics in the same queue
HARDLY_ANY_MEMORY = 25.0
_WAITS = frozenset({"lg_throttle", "long_scoreboard", "short_scoreboard", "mio_throttle", "drain"})


@rule
class KernelAtomics(KernelRule):
    id = "kernel-atomics"
    category = Category.ATOMICS
    reads = Reads(r"mem_global_op_(red|atom)|shared_atom", "MemoryWorkloadAnalysis_Tables", "atomics")
    explanation = """
What it found
    A large part of the kernel's memory accesses are atomic operations, and its warps wait for memory while hardly any
    bandwidth is used.

Why it costs time
    Atomics on the same address are executed one after the other, in L2 or in shared memory. When many threads add to
    a few counters, they queue up.

How it decides
    When at least 20 % of the requests are atomics, memory and compute stay below 60 %, and at least 30 % of the
    waiting is for memory. All of that wait counts as queueing if memory reaches less than 25 % of its throughput;
    otherwise only the share that atomics have among the requests.

What to try
    Add up within the warp and the block first and do one atomic for each block, spread the counters over several
    copies, sort by key, or use a two-pass reduction.

When it is wrong
    When the atomics go to many different addresses: then the wait is ordinary memory latency.
"""

    def fault(self, kernel: KernelProfile) -> Fault | None:
        share = atomic_share(kernel)
        sol = speed_of_light(kernel)
        if share < MIN_ATOMIC_SHARE or sol is None or sol.best >= LOW_PERCENT:
            return None
        waiting = min(sum(each.share for each in stalls(kernel) if each.reason in _WAITS), 1.0)
        if waiting < MIN_WAITING_SHARE:
            return None
        queues = sol.memory < HARDLY_ANY_MEMORY
        percent, _ = capped(kernel, waiting * (1 - sol.best / HIGH_PERCENT if queues else share))
        return Fault(
            title="threads queue at atomic operations",
            explanation=(
                f"{100 * share:.0f} % of its memory requests are atomics, its warps wait for memory "
                f"{100 * waiting:.0f} % of the time, yet it uses only {sol.memory:.0f} % of the memory throughput."
            ),
            remedy=remedy(
                "Reduce within the warp (shuffles) and the block (shared memory) first, then do one atomic per block.",
                "Spread hot counters over several copies and add them up at the end.",
                code="v = cub::BlockReduce(tmp).Sum(v); if (threadIdx.x == 0) atomicAdd(out, v);",
            ),
            saving=percent / 100.0,
        )
