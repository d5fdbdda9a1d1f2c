"""Every check of one profiled launch, from its raw metrics alone: the place to ask what is wrong inside a kernel."""

from __future__ import annotations

from parsers.model import KernelProfile
from rules.kernels.checks import compute as kernel_compute
from rules.kernels.checks import launch as kernel_launch
from rules.kernels.checks import memory as kernel_memory
from rules.kernels.checks import occupancy as kernel_occupancy
from rules.kernels.checks import speed_of_light as kernel_speed_of_light
from rules.kernels.checks import stalls as kernel_stalls
from rules.kernels.checks.result import KernelRuleResult, checks
from rules.kernels.checks.stored_conclusions import stored_results

__all__ = ["CHECK_MODULES", "KernelRuleResult", "evaluate"]

CHECK_MODULES = (
    kernel_speed_of_light,
    kernel_compute,
    kernel_stalls,
    kernel_memory,
    kernel_launch,
    kernel_occupancy,
)


def evaluate(kernel: KernelProfile) -> tuple[KernelRuleResult, ...]:
    """What each check concludes; where metrics are missing, what the report itself concluded.

    A check may appear several times, once for each subject (a stall reason, loads and stores). Thresholds and
    estimates follow those of Nsight Compute's own rules, so that both can be compared by ``rule``.
    """
    computed = tuple(result for check in checks() for result in check(kernel))
    return (*computed, *stored_results(kernel, {each.rule for each in computed}))
