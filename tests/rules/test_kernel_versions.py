"""Kernels of one report that do the same by their names are compared, and the queue at atomics goes before waiting."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parsers.model import KernelProfile
from rules import diagnose
from rules.catalog.kernel_atomics import KernelAtomics
from rules.losses.kernel_findings import faster_version, work_of
from tests.rules.kernel_profiles import COMPUTE, DRAM, MEMORY, kernel, stall, trace_of

# The cases lie on either side of these.
HARDLY_ANY_MEMORY = 25.0
MUCH_FASTER = 1.2


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("dot_prod_naive", "dot_prod", True),
        ("sgemm_v1(float*)", "sgemm_v12(float*)", True),
        ("transposeNaive", "transposeCoalesced", True),
        ("void reduce0<int>(int *)", "void reduce6<int>(int *)", True),
        ("forward", "backward", False),
        ("kernel_1", "kernel_2", False),
        (
            "fill_cache__FILE_model_jl_src_cache_jl_L992",
            "fill_cache__FILE_model_jl_src_cache_jl_L1011",
            False,
        ),
        ("nvkernel_main_F1L41_2", "nvkernel_main_F1L41_3", True),
        ("main_46_gpu", "main_41_gpu", False),
        ("blur_l1", "blur_l2", True),
    ],
)
def test_versions_of_a_kernel_are_told_by_their_names(one: str, other: str, same: bool) -> None:
    assert (work_of(one) == work_of(other) != ()) is same


def timed(name: str, took_us: float, ident: str) -> KernelProfile:
    slow = {COMPUTE: 5.0, MEMORY: 6.0, DRAM: 6.0, "gpu__time_duration.sum": took_us * 1000}
    return kernel(slow, stall("long_scoreboard", 0.9), name=name, ident=ident)


@pytest.mark.parametrize(("factor", "told"), [(MUCH_FASTER * 1.01, True), (MUCH_FASTER * 0.99, False)])
def test_a_faster_version_in_the_report_is_told_with_what_costs_most(factor: float, told: bool) -> None:
    trace = trace_of(timed("sum_naive", 100.0 * factor, "0"), timed("sum_shared", 100.0, "1"))
    said = [each.explanation for each in diagnose(trace).findings if each.culprit.text == "sum_naive"]
    assert sum("sum_shared, going by its name another version of it" in each for each in said) == told
    found = faster_version(trace, trace.kernels[0])
    assert (found is not None) is told


def test_the_fastest_has_nothing_to_be_compared_with() -> None:
    trace = trace_of(timed("sum_naive", 500.0, "0"), timed("sum_shared", 100.0, "1"))
    assert faster_version(trace, trace.kernels[1]) is None
    same = trace_of(timed("sum", 500.0, "0"), replace(timed("sum", 100.0, "1"), grid=(8, 1, 1)))
    assert faster_version(same, same.kernels[0]) is None


@pytest.mark.parametrize(
    ("own", "other", "told"),
    [
        ("void gemm<128, 8>(float *, float *)", "ampere_sgemm_128x64_nn", True),
        (
            "matmul_naive(float *)",
            "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x128_nn_align1>(Params)",
            True,
        ),
        ("transpose(float *)", "ampere_sgemm_128x64_nn", False),
        ("matmul_naive(float *)", "void at::native::reduce_kernel<512>(Op)", False),
        ("matmul_naive(float *)", "histogram(int *)", False),
        ("volta_sgemm_32x128_tn", "ampere_sgemm_128x64_nn", False),
    ],
)
def test_a_product_is_compared_with_that_of_a_library(own: str, other: str, told: bool) -> None:
    trace = trace_of(timed(own, 500.0, "0"), timed(other, 100.0, "1"))
    said = " ".join(each.explanation for each in diagnose(trace).findings)
    assert ("going by its name a library's matrix product in this report, takes 100 us: 5" in said) is told


@pytest.mark.parametrize(
    ("memory", "queues"), [(HARDLY_ANY_MEMORY - 1, True), (HARDLY_ANY_MEMORY + 1, False)]
)
def test_what_waits_for_memory_that_does_hardly_anything_stands_behind_the_atomics(
    memory: float, queues: bool
) -> None:
    atomics = {
        "smsp__inst_executed_op_global_red.sum": 1_000,
        "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum": 1_000,
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 2_000,
    }
    slow = {COMPUTE: 2.0, MEMORY: memory, DRAM: memory}
    fault = KernelAtomics().fault(kernel(atomics, slow, stall("long_scoreboard", 0.6)))
    assert fault is not None
    assert (fault.saving > 0.4) is queues
