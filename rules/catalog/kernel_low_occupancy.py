"""Kernels that wait because the SMs hold too few warps, with what limits them."""

from __future__ import annotations

from parsers.model import KernelProfile
from rules.findings.base import Category, remedy, rule
from rules.kernels.checks.occupancy import THEORETICAL, Advice, advice_to_raise, occupancy_verdict
from rules.kernels.checks.speed_of_light import HIGH_PERCENT, speed_of_light
from rules.kernels.checks.stalls import capped
from rules.losses.kernel_findings import Fault, KernelRule, Reads


@rule
class KernelLowOccupancy(KernelRule):
    id = "kernel-low-occupancy"
    category = Category.LOW_OCCUPANCY
    reads = Reads(r"warps_active\.avg\.pct|launch__occupancy", "Occupancy", "occupancy")
    explanation = """
What it found
    The kernel's warps wait much of the time, and the SMs hold too few of them to fill the waiting with other work.

Why it costs time
    While one warp waits for data, the scheduler issues an instruction from another. With few warps it finds none.

How it decides
    Only when all of these are true: neither compute nor memory reaches 60 %, the schedulers issue in fewer than 60 %
    of the cycles, warps stall, the launch lets an SM hold less than half of its warps, and there are more blocks
    than the SMs hold at once. Then registers, shared memory, block size or blocks per SM are named as the limit.

What to try
    Raise the limit that is named. If that is not possible, give each thread more independent work instead.

When it is wrong
    Few warps are not a problem in themselves: 25 % occupancy without stalls is fine, and kernels built around
    asynchronous tensor-core instructions run best with few warps; they are left out.
"""

    def fault(self, kernel: KernelProfile) -> Fault | None:
        verdict = occupancy_verdict(kernel)
        if verdict.advice is not Advice.RAISE_OCCUPANCY:
            return None
        possible = kernel.number(THEORETICAL)
        occupancy = possible if possible is not None else verdict.occupancy_percent or 0.0
        percent, _ = capped(kernel, 1 - occupancy / 100.0)
        sol = speed_of_light(kernel)
        reachable = 1.0 if sol is None else 1 - sol.best / HIGH_PERCENT
        named = " and ".join(verdict.limiters)
        return Fault(
            title=f"low occupancy{f', limited by {named}' if named else ''}",
            explanation=verdict.text,
            remedy=remedy(
                *map(advice_to_raise, verdict.limiters),
                "Or hide the waits inside a thread: several independent loads or accumulators at once.",
            ),
            saving=min(percent / 100.0, max(reachable, 0.0)),
        )
