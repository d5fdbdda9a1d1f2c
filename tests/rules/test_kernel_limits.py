"""Faults that cannot be mended: of a library's kernel that works well, of a grid that fits on the GPU at once."""

from __future__ import annotations

import pytest

from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.findings.base import Category, Severity
from rules.kernels.checks.speed_of_light import L1, L1_CACHE, speed_of_light
from rules.verdict.verdict import verdict
from tests.rules.kernel_profiles import COMPUTE, DRAM, ISSUED, LATENCY, MEMORY, kernel, stall, trace_of
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


_WHOLE_L1 = L1.replace("_active", "_elapsed")


@pytest.mark.parametrize(
    ("compute", "memory", "l1", "active", "limit"),
    [
        (20.0, 48.0, 80.0, 100, True),
        (20.0, 48.0, 79.9, 100, False),
        (20.0, 70.0, 80.0, 100, True),
        (20.0, 70.1, 80.0, 100, False),
        (76.0, 76.0, 95.0, 100, True),
        (81.0, 40.0, 99.0, 100, False),
        (20.0, 85.0, 99.0, 100, False),
        (20.0, 48.0, 99.0, 50, False),
    ],
)
def test_the_l1_cache_is_the_limit_where_it_is_much_busier_than_what_the_totals_count(
    compute: float, memory: float, l1: float, active: int, limit: bool
) -> None:
    cycles: Metrics = {"sm__cycles_active.sum": active, "sm__cycles_elapsed.sum": 100}
    profile = kernel(cycles, {COMPUTE: compute, MEMORY: memory, L1: l1}, without=(_WHOLE_L1,))
    sol = speed_of_light(profile)
    assert sol is not None
    assert (sol.verdict == f"limited by the L1 cache ({l1:.0f} % of its peak)") is limit
    assert (sol.limiter == "the L1 cache and shared memory" and sol.best == l1) is limit
    (told,) = (each for each in found(trace_of(profile)) if each.rule == "kernel-speed-of-light")
    of_its_busiest_part = sol.verdict.startswith("limited by memory") and sol.limiter == L1_CACHE
    assert any("Ask the L1 cache for less" in advice for advice in told.advice) is (
        limit or of_its_busiest_part
    )


@pytest.mark.parametrize(("dram", "first"), [(20.0, "Ask the L1 cache for less"), (96.0, "Move fewer bytes")])
def test_advice_about_memory_is_about_its_busiest_part(dram: float, first: str) -> None:
    profile = kernel({COMPUTE: 10.0, MEMORY: 96.0, DRAM: dram, L1: 95.0, _WHOLE_L1: 95.0})
    (told,) = (each for each in found(trace_of(profile)) if each.rule == "kernel-speed-of-light")
    assert told.title.endswith("limited by memory (10 % compute, 96 % memory)")
    assert told.advice[0].startswith(first)


def test_the_l1_caches_throughput_over_the_whole_kernel_goes_before_that_of_busy_cycles() -> None:
    sol = speed_of_light(kernel({COMPUTE: 20.0, MEMORY: 40.0, L1: 99.0, _WHOLE_L1: 50.0}))
    assert sol is not None
    assert not sol.l1


def test_a_kernel_in_grids_of_several_sizes_is_told_once_with_what_each_of_them_could_save() -> None:
    profiles = [
        kernel(
            {**WAITING, COMPUTE: compute, "gpu__time_duration.sum": time}, grid=(grid, 1, 1), ident=str(grid)
        )
        for grid, compute, time in ((2640, 40.0, 300_000), (5280, 20.0, 100_000), (10560, 50.0, 100_000))
    ]
    trace = trace_of(*profiles)
    (waits,) = (each for each in found(trace) if each.category is Category.LATENCY_BOUND)
    assert "3 launches in grids of 3 sizes, of which the costliest is described" in waits.explanation
    assert "mostly waits (40 % compute" in waits.title
    assert waits.kernel == "2640"
    assert waits.ceiling_ns == pytest.approx(0.5 * 300_000 + 0.75 * 100_000 + 0.375 * 100_000)
    assert verdict(Analysis(trace), diagnose(trace)) == waits.title


@pytest.mark.parametrize("recorded", [False, True])
def test_stall_reasons_are_pointed_to_where_the_report_has_them(recorded: bool) -> None:
    low = {COMPUTE: 50.0, MEMORY: 50.0, DRAM: 20.0, "lts__throughput.avg.pct_of_peak_sustained_elapsed": 20.0}
    waits = stall("long_scoreboard", 0.6) if recorded else {}
    without = () if recorded else (ISSUED, LATENCY)
    (told,) = (
        each
        for each in found(
            trace_of(kernel(low, {**waits, **({ISSUED: 0.2} if recorded else {})}, without=without))
        )
        if each.rule == "kernel-speed-of-light"
    )
    assert told.title.endswith("mostly waits (50 % compute, 50 % memory)")
    assert any("See the stall reasons" in advice for advice in told.advice) is recorded
    assert ("does not say what warps wait for" in told.explanation) is not recorded


def test_the_limit_of_a_kernel_in_grids_of_several_sizes_is_the_verdict() -> None:
    profiles = [kernel(grid=(grid, 1, 1), ident=str(grid)) for grid in (2640, 5280, 10560)]
    trace = trace_of(*profiles)
    assert "limited by memory (50 % compute, 85 % memory)" in verdict(Analysis(trace), diagnose(trace))
