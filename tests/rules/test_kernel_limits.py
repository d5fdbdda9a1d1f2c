"""Faults that cannot be mended: of a library's kernel that works well, of a grid that fits on the GPU at once."""

from __future__ import annotations

import pytest

from rules.findings.base import Category, Severity
from rules.kernels.checks.speed_of_light import L1
from tests.rules.kernel_profiles import COMPUTE, MEMORY, kernel, stall, trace_of
from tests.rules.test_kernel_checks import conflicts
from tests.rules.test_kernel_findings import LOW, WAITING, Metrics, categories, found


@pytest.mark.parametrize(
    ("name", "compute", "minor"),
    [
        ("ampere_sgemm_128x64_tn", 70.0, True),
        ("ampere_sgemm_128x64_tn", 59.0, False),
        ("gemm_of_ours(float*)", 70.0, False),
    ],
)
def test_a_fault_inside_a_librarys_kernel_that_works_well_is_no_problem_to_fix_first(
    name: str, compute: float, minor: bool
) -> None:
    of = trace_of(kernel(conflicts(0.9), {COMPUTE: compute, MEMORY: 40.0}, name=name))
    (fault,) = (each for each in found(of) if each.category is Category.BANK_CONFLICTS)
    assert (fault.severity is Severity.INFO) is minor


@pytest.mark.parametrize(("busy", "reported"), [(30.0, False), (50.0, True)])
def test_passes_wasted_in_shared_memory_count_for_as_much_as_it_is_busy(busy: float, reported: bool) -> None:
    wasted: Metrics = {
        "memory_l1_wavefronts_shared": 1000,
        "memory_l1_wavefronts_shared_ideal": 740,
        "l1tex__cycles_active.sum": 100,
        "l1tex__cycles_elapsed.sum": 100,
        L1: busy,
    }
    assert (Category.BANK_CONFLICTS in categories(kernel(wasted))) is reported


@pytest.mark.parametrize(("waves", "raised"), [(0.44, False), (0.99, False), (1.0, True), (3.0, True)])
def test_more_room_for_warps_is_not_asked_for_either_where_it_is_known_what_they_wait_for(
    waves: float, raised: bool
) -> None:
    slow: Metrics = {
        **WAITING,
        **LOW,
        **stall("long_scoreboard", 0.37),
        "launch__waves_per_multiprocessor": waves,
    }
    profile = kernel(slow, grid=(130, 1, 1))
    assert (Category.LOW_OCCUPANCY in categories(profile)) is raised
    (waits,) = (each for each in found(trace_of(profile)) if each.category is Category.LATENCY_BOUND)
    assert any("Launch more blocks" in advice for advice in waits.advice) is not raised
    assert (f"only {100 * waves:.0f} % of what the SMs can hold" in waits.explanation) is not raised
