"""Kernels compiled for debugging are told so; several launch configurations of one kernel can be told apart."""

from __future__ import annotations

import pytest

from parsers.model import KernelProfile
from rules.findings.base import Category, Finding, Severity
from rules.losses.kernel_findings import advice_for_libraries
from tests.rules.kernel_profiles import ACHIEVED, ISSUED, THEORETICAL, kernel, stall, trace_of
from tests.rules.test_kernel_findings import WAITING, Metrics, found


def local(accesses: int) -> Metrics:
    """So many of 100 loads and stores go to local memory."""
    stem = "l1tex__t_sectors_pipe_lsu_mem_"
    ours, others = {f"{stem}local_op_ld.sum": accesses, f"{stem}local_op_st.sum": 0}, 100 - accesses
    return {**ours, f"{stem}global_op_ld.sum": others, f"{stem}global_op_st.sum": 0}


def verdict_of(*kernels: KernelProfile) -> list[Finding]:
    return [each for each in found(trace_of(*kernels)) if each.rule == "kernel-speed-of-light"]


@pytest.mark.parametrize(
    ("wait", "other", "accesses", "told"),
    [
        (0.40, 0.1, 10, True),  # 8 of 20 cycles
        (0.39, 0.1, 10, False),
        (0.40, 0.5, 10, False),  # it waits longer for memory
        (0.40, 0.1, 9, False),
    ],
)
def test_a_long_fixed_wait_and_variables_in_memory_are_a_build_for_debugging(
    wait: float, other: float, accesses: int, told: bool
) -> None:
    slow: Metrics = {**WAITING, **stall("wait", wait), **stall("long_scoreboard", other), **local(accesses)}
    (verdict,) = verdict_of(kernel(slow))
    assert any("for release" in each for each in verdict.advice) is told
    assert ("compiled for debugging" in verdict.explanation) is told
    assert ("seems to be compiled for debugging" in verdict.title) is told


@pytest.mark.parametrize(("accesses", "told"), [(30, True), (9, False)])
def test_what_a_build_for_debugging_needs_of_registers_and_memory_is_no_fault_of_its_own(
    accesses: int, told: bool
) -> None:
    few: Metrics = {THEORETICAL: 25.0, ACHIEVED: 24.0, "launch__occupancy_limit_registers": 1}
    slow: Metrics = {**WAITING, **few, **stall("wait", 0.5), **local(accesses)}
    findings = found(trace_of(kernel(slow)))
    first = findings[0]
    assert (first.rule == "kernel-speed-of-light") is told
    assert first.severity is Severity.HIGH
    assert (0.89 < first.ceiling_ns / first.window_ns < 0.91) is told
    assert ("kernel-low-occupancy" in {each.rule for each in findings}) is not told


@pytest.mark.parametrize(("possible", "told"), [(50.0, True), (79.0, True), (80.0, False)])
def test_without_stalls_few_warps_are_told_with_what_limits_them(possible: float, told: bool) -> None:
    few: Metrics = {
        **WAITING,
        THEORETICAL: possible,
        ACHIEVED: possible - 1,
        "launch__occupancy_limit_registers": 1,
    }
    (verdict,) = verdict_of(kernel(few, without=(ISSUED,)))
    assert ("limited by registers: more would help if they wait" in verdict.explanation) is told
    assert verdict.advice[0].startswith("Use fewer registers per thread") is told


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("lg_throttle", "Use wider loads and stores"),
        ("mio_throttle", "Use fewer and wider shared-memory accesses"),
        ("long_scoreboard", "Give every thread several independent loads"),
    ],
)
def test_a_full_queue_is_not_filled_further(reason: str, advice: str) -> None:
    (verdict,) = verdict_of(kernel({**WAITING, **stall(reason, 0.8)}))
    assert verdict.advice[0].startswith(advice)


def test_launches_of_one_kernel_with_different_blocks_can_be_told_apart() -> None:
    profiles = [
        kernel(WAITING, block=(threads, 1, 1), ident=str(ident))
        for ident, threads in enumerate([64, 64, 256, 256])
    ]
    told = [each.title for each in verdict_of(*profiles)]
    assert sorted(", block 64: " in each for each in told) == [False, True]
    assert sorted(", block 256: " in each for each in told) == [False, True]
    assert not any("block" in each.title for each in verdict_of(*profiles[:2]))


def test_kernels_of_cublaslt_for_new_gpus_are_a_librarys() -> None:
    name = "cutlass3x_sm100_tensorop_s64x256x32gemm_f8_f8_f32_f16_f16_64x256x128_1x1x1_0_tnn_align4_1sm"
    assert "library" in advice_for_libraries(name, Category.LATENCY_BOUND)[0]
    assert advice_for_libraries("my_cutlass3x_gemm", Category.LATENCY_BOUND) == ()
