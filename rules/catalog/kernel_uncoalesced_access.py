"""Kernels whose warps touch scattered addresses, so that most of the moved bytes are not used."""

from __future__ import annotations

from parsers.model import KernelProfile
from parsers.model.late import regex
from rules.findings.base import Category, remedy, rule
from rules.kernels.checks.memory import global_waste, needed_of_dram
from rules.kernels.checks.speed_of_light import (
    BALANCE_PERCENT,
    HIGH_PERCENT,
    LOW_PERCENT,
    KernelRuleResult,
    SpeedOfLight,
    busiest_memory_unit,
    memory_percent,
    speed_of_light,
)
from rules.losses.kernel_findings import Fault, KernelRule, Reads, results_of

MIN_SAVING = 0.05
_EXCESSIVE = regex(r"total of (\d{1,18}) excessive sectors \(\d+ ?% of the total (\d{1,18}) sectors\)")
L1_PASSES = "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed"
L1_PASSES_OF_SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct_of_peak_sustained_elapsed"
L1_REQUESTS = "l1tex__lsuin_requests.avg.pct_of_peak_sustained_elapsed"
L1_HIT = "l1tex__t_sector_pipe_lsu_mem_global_op_ld_hit_rate.pct"


@rule
class KernelUncoalescedAccess(KernelRule):
    id = "kernel-uncoalesced-access"
    category = Category.UNCOALESCED_ACCESS
    reads = Reads(
        r"theoretical_sectors_global|t_sectors_pipe_lsu_mem_global|average_t_sectors",
        "SourceCounters",
        "sectors per request",
    )
    explanation = """
What it found
    The 32 threads of a warp read or write addresses that are not adjacent, so the memory moves whole 32-byte sectors
    of which only part is used.

Why it costs time
    Bandwidth is spent on bytes that nobody requested. Reading one float from every sector causes eight times the
    traffic.

How it decides
    From the sectors that the accesses needed against those that the same data would need in one piece; the waste
    counts to the extent that it misses L1 and memory limits the kernel, or that it fills L1 itself where that is the
    busiest part, but never for more than what DRAM would not need for the data alone. It is reported when 5 % of the
    kernel's time could be saved, and not if DRAM is busy with needed data for 80 % of it.

What to try
    Let neighbouring threads use neighbouring addresses: make the fastest-changing index threadIdx.x, store structures
    of arrays, transpose through shared memory, sort or group random indices.

When it is wrong
    When the access pattern is the problem itself, as in hash tables and sparse gathers. Then only a smaller element
    or a better order of the indices helps.
"""

    def fault(self, kernel: KernelProfile) -> Fault | None:
        sol = speed_of_light(kernel)
        if sol is not None and sol.bound is Category.COMPUTE_BOUND:
            return None
        results = results_of(kernel, "UncoalescedGlobalAccess")
        counted = kernel.number("memory_l2_theoretical_sectors_global") is not None
        if counted and not results:
            return None
        text, share = _worst(results) if results else _from_sectors(kernel)
        memory, l1 = memory_percent(kernel), _passed_on_by_l1(kernel, sol)
        hits = kernel.number(L1_HIT) or 0.0
        in_l1 = l1 or busiest_memory_unit(kernel).startswith("the L1")
        beyond_l1 = 1.0 if in_l1 else 1 - min(hits, 100.0) / 100.0
        needed = needed_of_dram(kernel)
        if needed >= HIGH_PERCENT / 100:
            return None
        if results:
            share = max(share, _time_of_l1(kernel), _wasted(kernel, 0.0) * l1 / 100)
        saving = share * beyond_l1 * (1.0 if memory is None else min(1.0, max(memory, l1) / LOW_PERCENT))
        saving = min(saving, 1 - needed)
        if saving < MIN_SAVING:
            return None
        return Fault(
            title=f"scattered memory accesses, {100 * _told(kernel, text, share):.0f} % of the traffic wasted",
            explanation=text,
            remedy=remedy(
                "Let threadIdx.x be the fastest-changing index of what a warp reads and writes.",
                "Store a structure of arrays instead of an array of structures; read wider types (float4).",
                "For transposes and strided access go through a tile in shared memory; sort random indices.",
                code="i = blockIdx.x * blockDim.x + threadIdx.x;  // a[i], not a[i * stride]",
            ),
            saving=saving,
            confidence="high" if results else "medium",
        )


def _passed_on_by_l1(kernel: KernelProfile, sol: SpeedOfLight | None) -> float:
    """How busy L1 is with global accesses, in percent, where L1 alone limits the kernel; 0 where nothing tells.

    Where it is busy with taking requests in, fewer sectors for each would not relieve it.
    """
    l1, shared = sol.l1 if sol is not None else 0.0, kernel.number(L1_PASSES_OF_SHARED)
    if shared is None or (kernel.number(L1_REQUESTS) or 0.0) >= l1 - BALANCE_PERCENT:
        return 0.0
    return max(l1 - shared, 0.0)


def _time_of_l1(kernel: KernelProfile) -> float:
    """The part of the time in which L1 passes on sectors of global accesses that neat ones would not need.

    Hits in L1 cost no traffic beyond it, but each sector takes its turn there. 0 where another unit is busier, or
    nothing tells how much of it is shared memory's.
    """
    busy, shared = kernel.number(L1_PASSES), kernel.number(L1_PASSES_OF_SHARED)
    if busy is None or shared is None or not busiest_memory_unit(kernel).startswith("the L1"):
        return 0.0
    return _wasted(kernel, 0.0) * max(busy - shared, 0.0) / 100


def _wasted(kernel: KernelProfile, otherwise: float) -> float:
    """The share of the sectors that neatly ordered accesses would not need: less of the time may depend on them."""
    total = kernel.number("memory_l2_theoretical_sectors_global")
    ideal = kernel.number("memory_l2_theoretical_sectors_global_ideal")
    return otherwise if not total or ideal is None else max(total - ideal, 0.0) / total


def _told(kernel: KernelProfile, text: str, otherwise: float) -> float:
    """The wasted share that the account tells: pages as CSV have no counts but those in Nsight Compute's text."""
    stated = _EXCESSIVE.search(text)
    return _wasted(kernel, int(stated[1]) / max(int(stated[2]), 1) if stated is not None else otherwise)


def _worst(results: list[KernelRuleResult]) -> tuple[str, float]:
    return results[0].text, results[0].saving


def _from_sectors(kernel: KernelProfile) -> tuple[str, float]:
    share = global_waste(kernel)
    return f"{100 * share:.0f} % of the bytes that global loads and stores move are not used.", share
