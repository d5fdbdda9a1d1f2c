"""Kernels that calculate in double precision where single precision would be faster."""

from __future__ import annotations

from parsers.model import KernelProfile
from rules.findings.base import Category, Remedy, Severity, rule
from rules.kernels.checks.compute import BUSY_PIPE_PERCENT, floating_point, instruction_pipes, pipes
from rules.kernels.checks.speed_of_light import speed_of_light
from rules.kernels.gpu_peaks import FEWER_UNITS, has_few_units
from rules.losses.kernel_findings import Fault, KernelRule, Reads, results_of

DOUBLE_SHARE = 0.3
_ADVICE = (
    "Use float (or bf16 on tensor cores) where the accuracy allows it.",
    "Look for accidental doubles: 1.0 instead of 1.0f, sin() instead of sinf(), float64 arrays from numpy.",
)


@rule
class KernelDoublePrecision(KernelRule):
    id = "kernel-fp64"
    category = Category.FP64
    reads = Reads(r"pipe_fp64|op_d(add|mul|fma)|fp64_pipe", "ComputeWorkloadAnalysis", "64-bit arithmetic")
    explanation = """
What it found
    The kernel spends much of its time in 64-bit floating-point arithmetic.

Why it costs time
    Data-centre GPUs compute in FP64 at half the speed of FP32, most others at 1/32 or 1/64; tensor cores help with
    16-bit and 8-bit numbers, not with these.

How it decides
    When FP64 reaches more than 15 % of its peak and FP32 less than 60 % of its own; or when a third of the operations
    are FP64 and converting between both keeps a pipe busy; or when the FP64 pipe is 60 % busy on a GPU with few of its
    units; no gain is stated where another unit is as busy. The ceiling is the FP64 share of the arithmetic, times how
    much slower FP64 is, times how busy its pipe is; for conversions, what the other units leave.

What to try
    Look for literals without f (1.0 instead of 1.0f), calls such as sin() instead of sinf(), numpy arrays that are
    float64 by default. Use FP32 with a compensated sum where only the sum needs more digits.

When it is wrong
    When the results need double precision.
"""

    def fault(self, kernel: KernelProfile) -> Fault | None:
        results = results_of(kernel, "SOLFPRoofline")
        if not results:
            return _conversions(kernel) or _on_few_units(kernel)
        return Fault(
            title="double-precision arithmetic",
            explanation=results[0].text,
            remedy=Remedy(_ADVICE, "x = x.to(torch.float32)"),
            saving=results[0].saving,
        )


def _on_few_units(kernel: KernelProfile) -> Fault | None:
    """A busy FP64 pipe of a GPU that has hardly any of it: one such unit for 32 or 64 of those for FP32.

    Where another unit is as busy, no gain is promised: arithmetic in 64 bits takes more instructions of other kinds.
    """
    sol = speed_of_light(kernel)
    measured = pipes(kernel)
    if sol is None or not has_few_units(kernel.compute_capability) or not measured:
        return None
    double = next((each for each in measured if each.name == "fp64"), None)
    if double is None or double.percent < BUSY_PIPE_PERCENT:
        return None
    others = [*(each for each in measured if each.name not in ("fp64", "shared")), *instruction_pipes(kernel)]
    left = max([sol.memory, double.percent / FEWER_UNITS, *(each.percent for each in others)])
    busier = max(others, key=lambda each: each.percent, default=None)
    beside = (
        f"and {busier.shown} {busier.percent:.0f} %, some of it maybe for the same numbers"
        if busier is not None and busier.percent >= double.percent
        else f"and the next busiest unit {left:.0f} %"
    )
    saving = max(0.0, 1 - left / double.percent)
    return Fault(
        title="double-precision arithmetic on a GPU with few units for it",
        explanation=(
            f"The FP64 pipe is {double.percent:.0f} % busy {beside}: this GPU has at most one FP64 unit for "
            f"{FEWER_UNITS} of FP32."
        ),
        remedy=Remedy(_ADVICE, "y = 0.5f * x;  // not 0.5 * x"),
        saving=saving,
        severity=None if saving > 0 else Severity.INFO,
    )


def _conversions(kernel: KernelProfile) -> Fault | None:
    """Accidental doubles among floats: the conversions between both keep the special-function pipe busy."""
    single, double = floating_point(kernel, "f"), floating_point(kernel, "d")
    sol = speed_of_light(kernel)
    converting = next((each.percent for each in instruction_pipes(kernel) if each.name == "xu"), 0.0)
    if single is None or double is None or sol is None or double.operations <= 0:
        return None
    share = double.operations / (max(single.operations, 0.0) + double.operations)
    if share < DOUBLE_SHARE or converting < BUSY_PIPE_PERCENT:
        return None
    others = [each.percent for each in pipes(kernel) if each.name not in ("fp64", "shared")]
    return Fault(
        title="double-precision arithmetic on single-precision data",
        explanation=(
            f"{100 * share:.0f} % of its floating-point operations are FP64, and the pipe that converts between float"
            f" and double is {converting:.0f} % busy: probably a constant without f or a call without f among floats."
        ),
        remedy=Remedy(_ADVICE, "y = 0.5f * x;  // not 0.5 * x"),
        saving=max(0.0, 1 - max([sol.memory, *others]) / converting),
    )
