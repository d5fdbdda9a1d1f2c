"""A kernel that its launch starves is told by its launch alone, whatever it calculates and however often it ran."""

from __future__ import annotations

import pytest

from parsers.model import Trace
from rules import Finding, diagnose
from rules.analysis.analysis import Analysis
from rules.analysis.gpu.launch_sizes import nearly_empty
from rules.analysis.recording.subject import subject_of
from rules.catalog.kernel_idle_sms import KernelIdleSms
from rules.catalog.kernel_speed_of_light import KernelSpeedOfLight
from rules.findings.base import Category, Severity
from rules.kernels.checks.occupancy import occupancy_verdict
from rules.kernels.checks.speed_of_light import speed_of_light
from rules.verdict.verdict import verdict
from tests.rules.builder import TinyTrace
from tests.rules.kernel_profiles import ACHIEVED, COMPUTE, SOUND, kernel, trace_of

# The cases lie on either side of these.
MOSTLY_EMPTY = 0.5
MAJORITY = 0.5


def ran_once(
    blocks: int,
    threads: int,
    took_us: float = 5_000.0,
    name: str = "matmul_naive",
    python: bool = False,
    gpu: str = "Test GPU",
) -> Trace:
    """A native program's only kernel between two copies; ``python`` adds an operator."""
    trace = TinyTrace(gpu=gpu)
    trace.copy(10, 40, "HtoD", 0)
    trace.operation(50, 5_050, name, 45, grid=blocks, block=threads)
    trace.copy(5_060, 5_100, "DtoH", 5_055)
    if python:
        trace.op(0, 30, "aten::mm")
    return trace.build()


def finding(trace: Trace, rule: str) -> Finding | None:
    return next((each for each in diagnose(trace).findings if each.rule == rule), None)


@pytest.mark.parametrize(("blocks", "starved"), [(1, True), (65, True), (66, False)])
def test_one_launch_is_judged_where_its_blocks_leave_the_gpu_empty(blocks: int, starved: bool) -> None:
    trace = ran_once(blocks, 256)  # on 132 SMs
    assert bool(len(nearly_empty(Analysis(trace), 0)[0])) is starved
    assert (subject_of(Analysis(trace)) is None) is starved
    assert (finding(trace, "too-few-threads") is not None) is starved
    if starved:
        assert verdict(Analysis(trace), diagnose(trace)).startswith("Kernels leave most of the GPU empty")


@pytest.mark.parametrize(("threads", "starved"), [(1, True), (16, True), (17, False), (32, False)])
def test_blocks_that_leave_half_of_each_warp_empty_starve_a_gpu_however_many_they_are(
    threads: int, starved: bool
) -> None:
    trace = ran_once(100_000, threads)
    assert bool(len(nearly_empty(Analysis(trace), 0)[0])) is starved


@pytest.mark.parametrize(
    ("gpu", "lanes"),
    [
        ("AMD Instinct MI300X", 64),
        ("gfx942", 64),
        ("AMD Radeon VII", 64),
        ("gfx1151", 32),
        ("AMD Radeon RX 7900 XTX", 32),
        ("AMD GPU", 32),
        ("NVIDIA A100", 32),
    ],
)
def test_a_wavefront_of_amds_instinct_has_64_lanes(gpu: str, lanes: int) -> None:
    trace = ran_once(100_000, 32, gpu=gpu)
    assert bool(len(nearly_empty(Analysis(trace), 0)[0])) is (lanes == 64)
    found = finding(trace, "too-few-threads")
    assert (found is not None and "32 of the 64 lanes of each wavefront" in found.explanation) is (
        lanes == 64
    )


@pytest.mark.parametrize(
    ("took", "python", "starved"), [(20, False, True), (19, False, False), (99, True, False)]
)
def test_what_takes_long_for_one_warp_is_starved_sooner_in_a_native_program(
    took: float, python: bool, starved: bool
) -> None:
    trace = TinyTrace()
    trace.operation(50, 50 + took, "solve_level", 45, grid=7, block=32)
    if python:
        trace.op(0, 30, "aten::mm")
    assert bool(len(nearly_empty(Analysis(trace.build()), 0)[0])) is starved


def test_the_starved_kernel_must_be_most_of_what_ran() -> None:
    trace = TinyTrace()
    trace.operation(50, 1_050, "small", 45, grid=1, block=32)
    trace.operation(1_060, 1_060 + 1_100 / MAJORITY, "large", 1_055, grid=4_096, block=256)
    assert subject_of(Analysis(trace.build())) is not None
    assert MOSTLY_EMPTY < 1


@pytest.mark.parametrize(("took", "judged"), [(999.0, False), (1_001.0, True)])
def test_a_starved_kernel_that_is_over_at_once_tells_nothing(took: float, judged: bool) -> None:
    trace = TinyTrace()
    trace.operation(50, 50 + took, "setup", 45, grid=1, block=22)
    assert (subject_of(Analysis(trace.build())) is None) is judged


@pytest.mark.parametrize(("took", "judged"), [(9_900.0, False), (10_100.0, True)])
def test_one_kernel_that_takes_all_of_the_time_is_the_limit(took: float, judged: bool) -> None:
    trace = TinyTrace()
    trace.operation(50, 50 + took, "generate_points", 45, grid=160, block=1_024)
    trace.copy(60 + took, 90 + took, "DtoH", 55 + took)
    built = trace.build()
    assert (subject_of(Analysis(built)) is None) is judged
    said = verdict(Analysis(built), diagnose(built))
    assert said.startswith("The GPU is the limit" if judged else "Too little was recorded")


@pytest.mark.parametrize(
    ("kinds", "took", "judged"),
    [(21, 10, False), (20, 10, True), (21, 90, True)],  # 20 kinds run three times each; 90 us fill the time
)
def test_fewer_than_a_hundred_kernels_that_hardly_run_again_are_too_little(
    kinds: int, took: float, judged: bool
) -> None:
    trace = TinyTrace()
    for number in range(60):
        at = 100.0 * number
        trace.operation(at + 6, at + 6 + took, f"void kernel_{number % kinds}(float*)", at)
    assert (subject_of(Analysis(trace.build())) is None) is judged


@pytest.mark.parametrize("python", [False, True])
def test_a_product_of_a_native_program_is_a_kernel_like_any_other(python: bool) -> None:
    trace = ran_once(1, 32, python=python)
    assert (finding(trace, "too-few-threads") is not None) is not python
    small = finding(trace, "awkward-matrix-shapes")
    assert small is None or python


@pytest.mark.parametrize("python", [False, True])
def test_products_in_few_blocks_are_told_in_the_words_of_the_program(python: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.operation(50, 65, "matmul_naive", 45, grid=60, block=256)  # too short to be starved alone
        trace.operation(66, 70, "other", 60, grid=600, block=256)
        if python:
            trace.op(0, 30, "aten::mm")

    trace = TinyTrace()
    for index in range(20):
        trace.shift = index * 80
        body(trace, index)
    told = finding(trace.build(), "awkward-matrix-shapes")
    assert told is not None
    assert any("query" in each for each in told.advice) is python
    assert "1 matrix product a step takes" in told.explanation


UNMEASURED = tuple(name for name in SOUND if "throughput" in name)


def test_throughputs_are_told_by_their_parts_where_the_whole_is_missing() -> None:
    parts = {
        "sm__instruction_throughput.avg.pct_of_peak_sustained_elapsed": 6.5,
        "gpu__compute_memory_access_throughput.avg.pct_of_peak_sustained_elapsed": 7.0,
        "gpu__compute_memory_request_throughput.avg.pct_of_peak_sustained_elapsed": 8.0,
    }
    found = speed_of_light(kernel(parts, without=UNMEASURED, grid=(32, 1, 1)))
    assert found is not None
    assert (found.compute, found.memory) == (6.5, 8.0)
    whole = speed_of_light(kernel(parts))
    assert whole is not None
    assert whole.compute == SOUND[COMPUTE]


@pytest.mark.parametrize(("blocks", "found"), [(88, True), (131, False)])
def test_sms_without_a_block_are_told_where_no_throughput_was_measured(blocks: int, found: bool) -> None:
    launched = kernel({"launch__sm_count": 132}, without=UNMEASURED, grid=(blocks, 1, 1))
    assert speed_of_light(launched) is None
    assert (KernelIdleSms().fault(launched) is not None) is found


@pytest.mark.parametrize(
    ("dtype", "told"),
    [
        ("e2m1", "types are already narrow"),
        ("e4m3", "types are already narrow"),
        ("bf16", "compute in 16 bits already"),
        ("f16_s16816", "compute in 16 bits already"),
        ("f32", "lower precision"),
    ],
)
def test_products_of_narrow_types_are_not_told_to_be_narrower(dtype: str, told: str) -> None:
    advice = " ".join(advice_on_products([dtype] * 30))
    assert [
        each
        for each in ("types are already narrow", "compute in 16 bits already", "lower precision")
        if each in advice
    ] == [told]


@pytest.mark.parametrize(("narrow", "told"), [(16, True), (14, False)])
def test_the_types_that_most_of_the_products_time_is_spent_in_decide(narrow: int, told: bool) -> None:
    advice = " ".join(advice_on_products(["bf16"] * narrow + ["f32"] * (30 - narrow)))
    assert ("compute in 16 bits already" in advice) is told


def advice_on_products(dtypes: list[str]) -> tuple[str, ...]:
    trace = TinyTrace()
    for number, dtype in enumerate(dtypes):
        at = 1_000.0 * number
        trace.op(at, at + 30, "aten::mm")
        trace.operation(at + 20, at + 1_000, f"cutlass_{dtype}_gemm", at + 1, grid=4_000, block=256)
    found = finding(trace.build(), "gpu-bound")
    assert found is not None
    return found.advice


@pytest.mark.parametrize(("measured", "told"), [(139.1, 100.0), (99.0, 99.0)])
def test_no_sm_holds_more_warps_than_it_can(measured: float, told: float) -> None:
    assert occupancy_verdict(kernel({ACHIEVED: measured})).occupancy_percent == told


@pytest.mark.parametrize(("took_ns", "at_most"), [(2_000, 0), (4_000, 2_000), (1_000, 0)])
def test_no_launch_is_promised_to_take_less_than_one_that_does_nothing(took_ns: int, at_most: int) -> None:
    few = {"gpu__time_duration.sum": took_ns, COMPUTE: 0.5, "launch__waves_per_multiprocessor": 0.01}
    idle = kernel(few, {metric: 1.0 for metric in SOUND if "throughput" in metric}, grid=(2, 1, 1))
    told = finding(trace_of(idle), KernelSpeedOfLight.id)
    assert told is not None
    assert told.ceiling_ns == at_most


def test_a_sound_kernel_gets_its_verdict_and_nothing_else() -> None:
    (told,) = diagnose(trace_of(kernel(), kernel())).findings
    assert (told.category, told.severity, told.ceiling_ns) == (Category.MEMORY_BOUND, Severity.INFO, 0)
    assert told.window_ns == 200_000
    assert "2 launches" in told.explanation
    assert "not with wall time" in told.cannot_tell
