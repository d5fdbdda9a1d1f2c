"""Every check of one profiled launch, from its raw metrics alone: the place to ask what is wrong inside a kernel."""

from __future__ import annotations

from parsers.model import KernelProfile
from rules.analysis import (
    kernel_compute,
    kernel_launch,
    kernel_memory,
    kernel_occupancy,
    kernel_speed_of_light,
    kernel_stalls,
)
from rules.analysis.kernel_result import KernelRuleResult, checks
from rules.analysis.kernel_stored_rules import stored_results

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
