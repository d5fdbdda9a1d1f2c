"""Kernels that one slow arithmetic pipe holds up while the others idle."""

from __future__ import annotations

from parsers.model import KernelProfile
from rules.findings.base import Category, Remedy, Severity, rule
from rules.kernels.checks.compute import SATURATED_PIPE_PERCENT, Pipe, instruction_pipes, pipes
from rules.losses.kernel_findings import Fault, KernelRule, Reads

_ADVICE = {
    "xu": (
        "Use the fast intrinsics (__expf, __sinf, __frcp_rn, -use_fast_math) or a polynomial on the FMA pipe.",
        "Convert between integer and floating point less often, and divide by multiplying with the reciprocal.",
    ),
    "fma": ("Let the tensor cores do it: allow TF32, or use bf16 or fp16 inputs.",),
    "alu": (
        "Simplify index arithmetic: 32-bit indices, strides instead of divisions, constants at compile time.",
    ),
    "lsu": ("Use fewer and wider loads and stores (float4), and keep values in registers.",),
    "fp16": ("Let the tensor cores do it.",),
}
_GENERAL = ("Replace some of these instructions with others that run on an idle pipe.",)
_MEANT_TO_BE_BUSY = frozenset({"tensor", "shared", "fp64", "tma"})
_MAY_BE_THE_WORK = frozenset({"fma", "alu"})


@rule
class KernelPipeSaturated(KernelRule):
    id = "kernel-pipe-saturated"
    category = Category.PIPE_SATURATED
    reads = Reads(
        r"inst_executed_pipe_\w+\.avg\.pct|__pipe_\w+_cycles_active", "ComputeWorkloadAnalysis", "pipes"
    )
    explanation = """
What it found
    One arithmetic pipe of the SMs works at 80 % of its peak or more and sets the pace of the kernel.

Why it costs time
    Instructions for that pipe queue up while the others idle. Special functions run at 1/4 to 1/8 of the speed of
    additions and multiplications.

How it decides
    From the busiest pipe, by busy cycles or by executed instructions. Tensor cores and FP64 are left out: the first
    are meant to be busy, and the second has its own rule. A busy FMA or integer pipe is only reported, because it may
    be the work itself.

What to try
    Fast approximations instead of special functions, tensor cores instead of FMA, cheaper index computations.

When it is wrong
    When the work needs exactly these instructions.
"""

    def fault(self, kernel: KernelProfile) -> Fault | None:
        ranked = sorted([*pipes(kernel), *instruction_pipes(kernel)], key=lambda each: -each.percent)
        if not ranked or ranked[0].percent < SATURATED_PIPE_PERCENT or ranked[0].name in _MEANT_TO_BE_BUSY:
            return None
        busiest = ranked[0]
        rest = next((each for each in ranked[1:] if each.name != busiest.name), Pipe("", "nothing else", 0.0))
        fault_is_clear = busiest.name not in _MAY_BE_THE_WORK
        return Fault(
            title=f"the {busiest.name.upper()} pipe is at its limit",
            explanation=(
                f"{busiest.shown} runs at {busiest.percent:.0f} % of its peak; the next busiest, {rest.shown}, at"
                f" {rest.percent:.0f} %."
            ),
            remedy=Remedy(_ADVICE.get(busiest.name, _GENERAL)),
            saving=1 - rest.percent / busiest.percent if fault_is_clear else 0.0,
            severity=None if fault_is_clear else Severity.INFO,
            confidence="low",
        )
