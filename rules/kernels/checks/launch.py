"""Whether grid and block fit the GPU: partial warps, idle SMs, the tail of the last wave, and uneven work."""

from __future__ import annotations

import math
from collections.abc import Iterator

from parsers.model import KernelProfile
from parsers.model.units import how_many
from rules.findings.base import Category
from rules.kernels.checks.speed_of_light import (
    WAVES,
    KernelRuleResult,
    blocks_of,
    check,
    multiprocessors,
    numbers,
)

WARP = 32
LARGE_TAIL_SHARE = 0.2
IMBALANCE_PERCENT = 5.0
_UNITS = {
    "sm": "SMs",
    "smsp": "schedulers",
    "l1tex": "L1 caches",
    "lts": "L2 slices",
    "dram": "DRAM channels",
}


def threads_of(kernel: KernelProfile) -> int:
    """Threads of one block; 0 when unknown."""
    x, y, z = kernel.block
    return x * y * z or int(kernel.number("launch__block_size") or 0)


@check
def launch_configuration(kernel: KernelProfile) -> Iterator[KernelRuleResult]:
    """Block size, grid size and the last wave of blocks."""
    results = [*_partial_warps(kernel), *_small_grid(kernel), *_tail(kernel)]
    if results:
        yield from results
    elif blocks_of(kernel):
        text = "The block is made of whole warps and the grid fills the GPU."
        yield KernelRuleResult("LaunchConfiguration", "LaunchStats", False, text)


def _fault(text: str, category: Category, percent: float | None, subject: str) -> KernelRuleResult:
    return KernelRuleResult(
        "LaunchConfiguration", "LaunchStats", True, text, category, percent, subject=subject
    )


def _partial_warps(kernel: KernelProfile) -> Iterator[KernelRuleResult]:
    threads = threads_of(kernel)
    left = threads % WARP
    if threads and left:
        percent = 100.0 * (1 - left / WARP) / math.ceil(threads / WARP)
        has = how_many(threads, "thread")
        text = (
            f"A block has {has}, which is not a multiple of {WARP}: its last warp runs with "
            f"{WARP - left} threads switched off."
        )
        yield _fault(text, Category.DIVERGENCE, percent, "block size")


def _small_grid(kernel: KernelProfile) -> Iterator[KernelRuleResult]:
    blocks, sms = blocks_of(kernel), multiprocessors(kernel)
    if not blocks or not sms:
        return
    if blocks < sms:
        have = f"{how_many(blocks, 'block')} for {sms:.0f} SMs"
        text = f"The grid has {have}: {sms - blocks:.0f} SMs have nothing to do."
        yield _fault(text, Category.SMALL_GRID, 100.0 * (sms - blocks) / sms, "grid size")
    elif blocks < 2 * sms:
        text = (
            f"The grid has {blocks} blocks for {sms:.0f} SMs: most SMs hold one block only and have nothing else"
            " to do while its warps wait at a barrier or for memory."
        )
        yield _fault(text, Category.SMALL_GRID, None, "grid size")


def _tail(kernel: KernelProfile) -> Iterator[KernelRuleResult]:
    waves = kernel.number(WAVES)
    if waves is None:
        return
    whole = math.floor(waves)
    share = tail_share(waves)
    if whole >= 1 and share >= LARGE_TAIL_SHARE:
        text = (
            f"The blocks run in {how_many(whole, 'full wave')} and a last one that is filled to"
            f" {100 * (waves - whole):.0f} %: it may take as long as a full one with most SMs idle."
        )
        yield _fault(text, Category.TAIL_EFFECT, 100.0 * share, "tail")


def tail_share(waves: float) -> float:
    """The share of the time that a partly filled last wave may take; 0 when all waves are full."""
    whole = math.floor(waves)
    return 1.0 / (whole + 1) if waves > max(whole, 0) else 0.0


def idle_share_of_tail(waves: float) -> float:
    """The share of all places for blocks that stay empty in the last wave: 0.2 for 1.6 waves."""
    return 1 - waves / math.ceil(waves) if waves > 0 else 0.0


@check
def workload_imbalance(kernel: KernelProfile) -> Iterator[KernelRuleResult]:
    """Whether some units were active much longer, or much shorter, than the average one."""
    looked = fired = False
    for unit, shown in _UNITS.items():
        stem = f"{unit}__cycles_active"
        measured = numbers(
            kernel, f"{stem}.avg", f"{stem}.max", f"{stem}.min", f"{stem}.sum", f"{unit}__cycles_elapsed.sum"
        )
        if measured is None:
            continue
        looked = True
        average, most, least, active, elapsed = measured
        if min(average, most, elapsed) <= 0:
            continue
        above, below = 100.0 * (1 - average / most), 100.0 * (1 - least / average)
        percent = above * active / elapsed
        if percent >= IMBALANCE_PERCENT and max(above, below) >= IMBALANCE_PERCENT:
            fired = True
            text = (
                f"The {shown} did not get equal work: the busiest was active {100 * (most / average - 1):.0f} %"
                f" longer than the average, the least busy one {below:.0f} % shorter."
            )
            yield KernelRuleResult(
                "WorkloadImbalance",
                "WorkloadDistribution",
                True,
                text,
                Category.IMBALANCE,
                percent,
                subject=shown,
            )
    if looked and not fired:
        text = "SMs, caches and memory channels got about equal work."
        yield KernelRuleResult("WorkloadImbalance", "WorkloadDistribution", False, text)
