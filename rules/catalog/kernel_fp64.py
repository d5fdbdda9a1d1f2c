"""Kernels that calculate in double precision where single precision would be faster."""

from __future__ import annotations

from typing import ClassVar

from parsers.model import KernelProfile
from rules.analysis.kernel_findings import Fault, KernelRule, results_of
from rules.base import Category, rule


@rule
class KernelDoublePrecision(KernelRule):
    """Double-precision arithmetic takes a good part of the time."""

    id: ClassVar[str] = "kernel-fp64"
    category: ClassVar[Category] = Category.FP64
    explanation: ClassVar[str] = """
What it found
    The kernel spends much of its time in 64-bit floating-point arithmetic.

Why it costs time
    Data-centre GPUs calculate in FP64 at half the speed of FP32, most others at 1/32 or 1/64; tensor cores help with
    16-bit and 8-bit numbers, not with these.

How it decides
    When FP64 reaches more than 15 % of its peak and FP32 less than 60 % of its own. The ceiling is the FP64 share of
    the arithmetic, times how much slower FP64 is, times how busy its pipe is.

What to try
    Look for literals without f (1.0 instead of 1.0f), calls such as sin() instead of sinf(), numpy arrays that are
    float64 by default. Use FP32 with a compensated sum where only the sum needs more digits.

When it is wrong
    When the results need double precision.
"""

    def fault(self, kernel: KernelProfile) -> Fault | None:
        results = results_of(kernel, "SOLFPRoofline")
        if not results:
            return None
        return Fault(
            title="double-precision arithmetic",
            explanation=results[0].text,
            advice=(
                "Use float (or bf16 on tensor cores) where the accuracy allows it.",
                "Look for accidental doubles: 1.0 instead of 1.0f, sin() instead of sinf(), float64 arrays from numpy.",
            ),
            saving=(results[0].speedup_percent or 0.0) / 100.0,
            category=self.category,
            code="x = x.to(torch.float32)",
        )
