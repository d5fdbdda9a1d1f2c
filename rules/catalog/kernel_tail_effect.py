"""Kernels whose last wave of blocks leaves most of the GPU idle."""

from __future__ import annotations

from parsers.model import KernelProfile
from rules.findings.base import Category, remedy, rule
from rules.kernels.checks.launch import idle_share_of_tail
from rules.kernels.checks.occupancy import ACHIEVED, THEORETICAL
from rules.kernels.checks.speed_of_light import WAVES, numbers, speed_of_light
from rules.losses.kernel_findings import Fault, KernelRule, Reads, results_of

MIN_SAVING = 0.1
HELD_SHARE = 0.8


@rule
class KernelTailEffect(KernelRule):
    id = "kernel-tail-effect"
    category = Category.TAIL_EFFECT
    reads = Reads(r"launch__waves", "LaunchStats", "waves of blocks")
    explanation = """
What it found
    The blocks do not fit on the GPU at once, and the last group fills only part of it.

Why it costs time
    The last wave may take as long as a full one while most SMs have nothing to do. With few waves that is a large
    share.

How it decides
    From the number of waves: the last one is at least a fifth of all, it leaves 10 % or more of all slots empty, and
    the achieved occupancy is below 80 % of the possible one. The ceiling is the share of empty slots, and no more
    than what the busiest part of the GPU has left.

What to try
    Blocks that are smaller, a grid that is a whole number of waves, or a persistent kernel whose blocks fetch work.

When it is wrong
    When other kernels run at the same time and use the idle SMs.
"""

    def fault(self, kernel: KernelProfile) -> Fault | None:
        sol = speed_of_light(kernel)
        results = results_of(kernel, "LaunchConfiguration", self.category)
        waves = kernel.number(WAVES)
        if not results or waves is None:
            return None
        unused = 1.0 if sol is None else 1 - sol.best / 100.0
        saving = min(idle_share_of_tail(waves), unused)
        occupancy = numbers(kernel, ACHIEVED, THEORETICAL)
        if saving < MIN_SAVING or (occupancy and occupancy[0] >= HELD_SHARE * occupancy[1]):
            return None
        return Fault(
            title="the last wave of blocks leaves SMs idle",
            explanation=results[0].text,
            remedy=remedy(
                "Use smaller blocks or less work per block, so that the last wave is short.",
                "Size the grid to whole waves, or launch one block per SM slot and let blocks fetch work in a loop.",
            ),
            saving=saving,
            confidence="low",
        )
