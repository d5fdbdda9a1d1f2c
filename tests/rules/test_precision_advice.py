"""Advice about precision names only what the recorded GPU can do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rules import diagnose
from rules.findings.base import Category, Finding
from rules.losses.kernel_findings import advice_for_libraries
from tests.rules.builder import TinyTrace, steps
from tests.rules.kernel_profiles import DRAM, MEMORY, kernel, trace_of
from tests.rules.test_fixes import DOUBLE, plan_of_body

SGEMM, DGEMM = "volta_sgemm_64x64_nn", "volta_dgemm_128x64_nn"


def only(category: Category, kernel: str, *, gpu: str, capability: tuple[int, int]) -> Finding:
    trace = TinyTrace(gpu=gpu, capability=capability)

    def body(trace: TinyTrace, _: int) -> None:
        trace.op(1, 4, "aten::mm")
        trace.operation(5, 1000, kernel, 1)

    made = steps(4, 1000, body, into=trace).build()
    (found,) = [each for each in diagnose(made).findings if each.category is category]
    return found


@pytest.mark.parametrize(
    ("gpu", "capability", "named", "not_named"),
    [
        ("Tesla V100-SXM2-32GB", (7, 0), "torch.float16", "allow_tf32"),
        ("Tesla T4", (7, 5), "torch.float16", "bfloat16"),
        ("NVIDIA A100-SXM4-80GB", (8, 0), "set_float32_matmul_precision", "GradScaler"),
        ("NVIDIA H200", (9, 0), "set_float32_matmul_precision", "cudnn"),
        ("AMD Instinct MI300X", (9, 4), "bfloat16", "TF32"),
    ],
)
def test_only_what_the_gpu_knows_is_advised(
    gpu: str, capability: tuple[int, int], named: str, not_named: str
) -> None:
    found = only(Category.NO_TENSOR_CORES, SGEMM, gpu=gpu, capability=capability)
    advice = " ".join(found.advice)
    assert named in advice
    assert not_named not in advice.replace("neither TF32 nor bf16", "")


@pytest.mark.parametrize(
    ("gpu", "capability", "advice"),
    [
        ("TITAN V", (7, 0), "Use fp16 (CUDA_R_16F in cuBLAS)"),
        ("NVIDIA A100-SXM4-80GB", (8, 0), "Let cuBLAS use TF32"),
        ("AMD Instinct MI300X", (9, 4), "Use 16-bit types."),
    ],
)
def test_programs_without_python_are_advised_what_the_gpu_knows(
    gpu: str, capability: tuple[int, int], advice: str
) -> None:
    trace = TinyTrace(gpu=gpu, capability=capability)
    for number in range(6):
        trace.operation(2000.0 * number + 5, 2000.0 * number + 1900, SGEMM, 2000.0 * number)
    (found,) = (
        each for each in diagnose(trace.build()).findings if each.category is Category.NO_TENSOR_CORES
    )
    assert found.advice[0].startswith(advice)


@pytest.mark.parametrize(
    ("gpu", "times"), [("NVIDIA A100-SXM4-80GB", 8.0), ("NVIDIA H200", 495 / 67), ("a new GPU", 8.0)]
)
def test_the_ceiling_of_double_precision_follows_from_the_gpu_s_rates(gpu: str, times: float) -> None:
    found = only(Category.FP64, DGEMM, gpu=gpu, capability=(9, 0))
    assert found.ceiling_ns / found.window_ns == pytest.approx(0.995 * (1 - 1 / times), abs=0.01)


@pytest.mark.parametrize(
    ("capability", "percent", "loud"), [((8, 9), 60.0, True), ((8, 9), 59.0, False), ((8, 0), 60.0, False)]
)
def test_busy_units_for_double_precision_are_a_fault_where_a_gpu_has_few(
    capability: tuple[int, int], percent: float, loud: bool
) -> None:
    busy = {"sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_elapsed": percent, MEMORY: 5.0, DRAM: 5.0}
    launch = replace(kernel(dict(busy)), compute_capability=capability)
    found = {finding.category for finding in diagnose(trace_of(launch)).findings}
    assert (Category.FP64 in found) is loud


def test_few_units_for_double_precision_are_said_by_how_few_and_promise_what_they_keep_waiting() -> None:
    busy = {"sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_elapsed": 96.0, MEMORY: 1.0, DRAM: 1.0}
    idle = ("sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_elapsed",)
    idle += ("sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_elapsed",)
    launch = replace(kernel(dict(busy), without=idle), compute_capability=(8, 9))
    (found,) = [each for each in diagnose(trace_of(launch)).findings if each.category is Category.FP64]
    assert "at most one FP64 unit for 32 of FP32" in found.explanation
    assert found.ceiling_ns / found.window_ns == pytest.approx(1 - 1 / 32, abs=0.001)


@pytest.mark.parametrize(("alu", "gains"), [(95.0, True), (97.0, False)])
def test_double_precision_is_named_beside_a_unit_that_is_as_busy_without_a_gain(
    alu: float, gains: bool
) -> None:
    busy = {"sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_elapsed": 96.0, MEMORY: 1.0, DRAM: 1.0}
    busy["sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_elapsed"] = alu
    launch = replace(kernel(dict(busy)), compute_capability=(7, 5))
    (found,) = [each for each in diagnose(trace_of(launch)).findings if each.category is Category.FP64]
    assert (found.ceiling_ns > 0) is gains
    assert ("some of it maybe for the same numbers" in found.explanation) is not gains


@pytest.mark.parametrize(
    ("share", "converting", "loud"), [(0.29, 60.0, False), (0.3, 60.0, True), (0.3, 59.0, False)]
)
def test_doubles_among_floats_are_a_fault_from_three_tenths_on(
    share: float, converting: float, loud: bool
) -> None:
    rate = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum.per_cycle_elapsed"
    rates = {rate.format(letter + op): 0.0 for letter in "fd" for op in ("add", "mul", "fma")}
    rates |= {rate.format("fadd"): 100.0 * (1 - share), rate.format("dadd"): 100.0 * share}
    xu = {"sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_elapsed": converting, MEMORY: 5.0, DRAM: 5.0}
    found = {each.category for each in diagnose(trace_of(kernel(dict(rates), dict(xu)))).findings}
    assert (Category.FP64 in found) is loud


def test_kernels_that_make_random_numbers_are_not_what_was_to_be_profiled() -> None:
    name = "void at::native::<unnamed>::distribution_elementwise_grid_stride_kernel<float, (int)4>(long)"
    assert "random numbers" in advice_for_libraries(name, Category.COMPUTE_BOUND)[0]
    assert advice_for_libraries("void my_distribution(float *)", Category.COMPUTE_BOUND) == ()


@pytest.mark.parametrize("share", [0.06, 0.04])
def test_32_bits_are_half_the_bytes_where_others_than_products_take_time(share: float) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.op(0, 1, "aten::linear")
        each = 1_900 * (1 - share) / 9
        for place in range(9):
            begun = 20 + place * each
            trace.operation(begun, begun + each, f"void {DOUBLE}", 5 + place * 6)
        trace.operation(1_920 - 1_900 * share, 1_920, "void elementwise_kernel<AddFunctor<double>>", 65)
        trace.call(75, 1985, "cudaDeviceSynchronize")

    plan = plan_of_body(body, into=TinyTrace(capability=(9, 0)))
    (promise,) = (each for each in plan.promises if each.proposal.fix == "use-single-precision")
    assert (Category.MEMORY_BOUND_KERNELS in promise.proposal.categories) is (share > 0.05)


def test_unfused_kernels_stay_unfused_in_32_bits() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.op(0, 1, "aten::linear")
        for place in range(20):
            begun = 20 + place * 95
            trace.operation(begun, begun + 94, "void elementwise_kernel<AddFunctor<double>>", 5 + place * 6)
        trace.call(130, 1_985, "cudaDeviceSynchronize")

    findings = diagnose(plan_of_body(body).replay.analysis.trace).findings
    (unfused,) = (each for each in findings if each.category is Category.MEMORY_BOUND_KERNELS)
    assert unfused.fix.startswith("compile-model")
