"""What findings say: plain sentences with numbers and units, the right GPU, and advice that fits the culprit."""

from __future__ import annotations

import re

import pytest

from parsers.model import Trace
from parsers.ranks.merge import merge
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.findings.base import Category
from rules.terms import CulpritKind
from rules.wording.words import amounts, counted, listed, of_every_step, part_of_step, shortened
from tests.rules.builder import TinyTrace, found, steps
from viewer.reports.text_report import as_text


def waiting(region: str, *, rank: int | None = None, idle: float = 600) -> Trace:
    def body(trace: TinyTrace, index: int) -> None:
        trace.region(0, idle, region)
        trace.operation(idle + 10, 1000, "gemm", idle)

    return steps(4, 1000, body, into=TinyTrace(rank=rank)).build()


def test_the_title_holds_the_share_and_the_explanation_both_amounts() -> None:
    finding = found(waiting("tokenize_next"), Category.HOST_BOUND)
    assert finding.title == "The GPU waits for Python: 60 % of every step"
    assert "600 us of the 1.00 ms of a step" in finding.explanation
    assert finding.speedup_at_most == pytest.approx(1000 / 400, rel=0.01)


def test_numbers_have_a_space_before_their_unit() -> None:
    for finding in diagnose(waiting("load_batch")).findings:
        assert not re.search(r"\d(ms|us|ns|GB|MB|%)", finding.title + finding.explanation)


def test_a_single_process_loader_is_told_to_use_workers() -> None:
    single = found(
        waiting("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"), Category.INPUT_BOUND
    )
    several = found(
        waiting("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"), Category.INPUT_BOUND
    )
    assert "num_workers=0" in single.explanation
    assert "more workers" in several.advice[0]


def test_a_pause_inside_a_region_that_launches_is_not_to_be_moved_to_a_worker() -> None:
    def body(trace: TinyTrace, index: int) -> None:
        trace.region(0, 2000, "backward")
        trace.kernels(0, 5, 10, 20)
        trace.kernels(1800, 5, 10, 20)

    advice = " ".join(found(steps(4, 2000, body).build(), Category.HOST_BOUND).advice)
    assert "worker process" not in advice
    assert "between its launches" in advice


def test_launches_in_the_optimizer_lead_to_fused_ones_and_inference_to_graphs() -> None:
    def body(name: str):
        def one(trace: TinyTrace, index: int) -> None:
            trace.region(0, 1000, name)
            trace.kernels(0, 20, 2, 50)

        return one

    assert "fused=True" in found(steps(4, 1000, body("optimizer")).build(), Category.LAUNCH_BOUND).code
    assert "CUDAGraph" in found(steps(4, 1000, body("predict")).build(), Category.LAUNCH_BOUND).code


def test_with_several_gpus_the_worst_is_told_with_the_mean_beside_it() -> None:
    trace = merge([waiting("tokenize", rank=0, idle=800), waiting("tokenize", rank=1, idle=100)])
    finding = found(trace, Category.HOST_BOUND)
    assert "This is rank 0, GPU 0, which idles most of 2 GPUs; the mean is" in finding.explanation
    assert finding.ceiling_ns == sum(end - start for start, end in finding.intervals)
    assert finding.rank == 0


def test_evidence_is_the_longest_first_and_lies_on_a_gpu_lane() -> None:
    trace = waiting("tokenize")
    finding = found(trace, Category.HOST_BOUND)
    lengths = [each.end - each.start for each in finding.evidence]
    assert lengths == sorted(lengths, reverse=True)
    assert all(trace.lanes[each.lane].is_gpu for each in finding.evidence)
    assert all(each.event == -1 for each in finding.evidence)


def test_findings_are_ranked_by_what_they_can_give() -> None:
    def body(trace: TinyTrace, index: int) -> None:
        trace.region(0, 100, "load_batch")
        trace.kernels(100, 10, 5, 30)
        trace.region(520, 1000, "tokenize")

    diagnosis = diagnose(steps(4, 1000, body).build())
    causes = [[diagnosis.findings[index] for index in each.findings] for each in diagnosis.causes]
    assert [[each.category for each in cause] for cause in causes] == [
        [Category.HOST_BOUND, Category.INPUT_BOUND],  # one fix mends both
        [Category.LAUNCH_BOUND],
        [Category.MEMORY_BOUND_KERNELS],
    ]
    assert [each for cause in causes for each in cause] == list(diagnosis.findings)
    given = [cause[0].share for cause in causes]
    assert given == sorted(given, reverse=True)


def test_phrases() -> None:
    analysis = Analysis(waiting("tokenize"))
    assert counted(analysis, 8, "copy", "copies") == "2 copies a step"
    assert counted(analysis, 4, "copy", "copies") == "1 copy a step"
    assert counted(analysis, 5, "kernel") == "1.25 kernels a step"
    assert counted(analysis, 3, "call") == "3 calls in 4 steps"
    assert counted(analysis, 1, "call") == "1 call in 4 steps"
    assert (
        amounts(analysis, [("a", 400_000), ("b", 2_100), ("c", 1_900), ("d", 400_000)], 2)
        == "a (100 us) and b (525 ns)"
    )
    assert str(of_every_step(analysis, 0.123)) == "12 % of every step"
    assert part_of_step(analysis, 2_000_000) == "500 us of the 1.00 ms of a step"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed([]) == ""
    assert shortened("x" * 70) == "x" * 59 + "…"


@pytest.mark.parametrize(("second", "alone"), [(140, True), (160, False)])
def test_one_culprit_is_blamed_alone_only_when_it_holds_most_of_the_waiting(second: int, alone: bool) -> None:
    """Of 600 us and ``second`` us without launches, in two regions; the limit is four fifths."""

    def body(trace: TinyTrace, index: int) -> None:
        trace.region(0, 600, "tokenize")
        trace.operation(610, 700, "gemm", 600)
        trace.region(705, 705 + second, "write_log")
        trace.operation(720 + second, 1000, "gemm", 705 + second)

    text = found(steps(4, 1000, body).build(), Category.HOST_BOUND).explanation
    assert text.startswith("While “tokenize” runs on the CPU") is alone
    assert ("The CPU is busy with something other than launching" in text) is not alone
    assert "write_log (1" in text


@pytest.mark.parametrize(
    ("culprit", "said"),
    [
        ("call", ("While the CPU is inside cudaLaunchKernel", "CUDA_MODULE_LOADING=EAGER")),
        ("operator", ("While aten::ones runs on the CPU", "Find out why aten::ones takes long on the CPU")),
        ("nothing", ("While Python outside any region runs,", "put record_function regions around parts")),
    ],
)
def test_what_is_advised_about_the_cpu_fits_what_it_did(culprit: str, said: tuple[str, str]) -> None:
    def body(trace: TinyTrace, index: int) -> None:
        trace.op(0, 2, "aten::mm")
        trace.operation(10, 100, "gemm", 0)
        if culprit == "operator":
            trace.op(120, 2950, "aten::ones")
        launch = 130 if culprit == "call" else 2960
        trace.operation(2970, 3000, "gemm", launch, launch_us=2830 if culprit == "call" else 5)

    finding = found(steps(4, 3000, body).build(), Category.HOST_BOUND)
    assert finding.explanation.startswith(said[0])
    assert said[1] in " ".join(finding.advice)
    assert ("let all cores work" in " ".join(finding.advice)) is (culprit == "operator")
    assert "worker process or a thread that prepares" not in " ".join(finding.advice)


def test_a_region_that_is_called_like_an_api_call_is_no_call() -> None:
    finding = found(waiting("cudaGraphLaunch rebuild"), Category.HOST_BOUND)
    said = " ".join((finding.explanation, *finding.advice, finding.cannot_tell))
    assert finding.culprit.kind is CulpritKind.REGION
    assert "While cudaGraphLaunch rebuild runs on the CPU" in said
    assert "loads a kernel's code" not in said
    assert "driver" not in said


@pytest.mark.parametrize(("each", "slower"), [(40, True), (60, False)])
def test_the_cpu_is_called_slower_than_the_kernels_only_where_it_is(each: float, slower: bool) -> None:
    """Short kernels 50 us apart leave gaps; one long kernel makes the mean longer than that."""

    def body(trace: TinyTrace, index: int) -> None:
        for number in range(20):
            trace.operation(50 * number + 6, 50 * number + 8, "add", 50 * number)
        trace.operation(1006, 1006 + 21 * each - 40, "gemm", 1000)

    text = found(steps(4, 2500, body).build(), Category.LAUNCH_BOUND).explanation
    assert ("needs about 50.0 us per launch" in text) is slower
    assert ("the short ones end before" in text) is not slower


def test_communication_without_any_computation_is_not_accused() -> None:
    def body(trace: TinyTrace, index: int) -> None:
        trace.collective(10, 900, 2)

    categories = {each.category for each in diagnose(steps(3, 1000, body).build()).findings}
    assert Category.EXPOSED_COMMUNICATION not in categories


def test_the_tensors_of_a_matrix_product_are_named_without_its_other_arguments() -> None:
    def body(trace: TinyTrace, index: int) -> None:
        name = "cutlass_80_tensorop_f16_s16816gemm_f16_256x128_32x3_nn_align2"
        trace.shapes(trace.op(0, 20, "aten::addmm"), [[3137], [96, 3137], [3137, 64], [], []], [])
        trace.operation(30, 1000, name, 5)

    finding = found(steps(3, 1000, body).build(), Category.GEMM_SHAPE)
    assert "The longest multiplies [96, 3137] by [3137, 64]." in finding.explanation


@pytest.mark.parametrize(("side", "by_the_image"), [(14, True), (16, False)])
def test_a_convolution_whose_image_is_no_multiple_of_8_is_not_told_to_pad_its_channels(
    side: int, by_the_image: bool
) -> None:
    def body(trace: TinyTrace, index: int) -> None:
        name = "cutlass_80_tensorop_f16_s16816gemm_f16_256x128_32x3_nn_align2"
        dims: list[list[int]] = [[64, 256, side, side], [1024, 256, 1, 1], []]
        trace.shapes(trace.op(0, 20, "aten::cudnn_convolution"), dims, [])
        trace.operation(30, 1000, name, 5)

    finding = found(steps(3, 1000, body).build(), Category.GEMM_SHAPE)
    assert ("14 x 14 = 196 elements" in finding.explanation) is by_the_image
    assert ("channels_last" in finding.advice[0]) is by_the_image
    assert finding.advice[0].startswith("Pad the dimensions") is not by_the_image


def test_with_several_gpus_the_list_of_culprits_says_whose_they_are() -> None:
    ranks = [waiting("tokenize", rank=0, idle=300), waiting("tokenize", rank=1, idle=600)]
    finding = found(merge(ranks), Category.HOST_BOUND)
    assert "“tokenize” alone takes 600 us on rank 1, GPU 0, the longest wait" in finding.explanation
    assert "on rank" not in found(ranks[0], Category.HOST_BOUND).explanation


@pytest.mark.parametrize(("part", "advised"), [(4, True), (2, False)])
def test_pinning_is_advised_when_pageable_memory_is_more_than_a_trifle(part: int, advised: bool) -> None:
    def body(trace: TinyTrace, index: int) -> None:
        trace.copy(5, 305 - part, "HtoD", 2)
        trace.copy(305 - part, 305, "HtoD", 3, pageable=True)
        trace.operation(305, 1000, "gemm", 100)

    finding = found(steps(3, 1000, body).build(), Category.COPY_H2D)
    assert any(advice.startswith("Pin the host memory") for advice in finding.advice) is advised
    assert ("pageable" in finding.explanation + finding.culprit.text) is advised


def test_queued_work_that_waits_is_told_by_its_own_name() -> None:
    def body(trace: TinyTrace, index: int) -> None:
        trace.operation(6, 500, "gemm", 0)
        trace.operation(800, 1000, "void resolve_future<int>(int*)", 10)

    finding = found(steps(3, 1000, body).build(), Category.UNEXPLAINED_IDLE)
    assert "What waits: resolve_future (300 us)." in finding.explanation
    assert [each.start for each in finding.evidence] == [500_000, 1_500_000, 2_500_000]


def test_a_recording_that_is_nearly_all_warm_up_is_not_called_all_warm_up() -> None:
    def one(lengths: list[int]) -> str:
        trace, at = TinyTrace(), 0.0
        for index, length in enumerate(lengths):
            trace.shift = at
            trace.step(0, length, f"ProfilerStep#{index}")
            trace.operation(10, length - 10, "gemm", 0)
            at += length
        return found(trace.build(), Category.WARM_UP).title

    assert one([10_000_000, 1000, 1000, 1000, 1000]).endswith("nearly all of it")
    assert one([10_000, 1000, 1000, 1000, 1000]).endswith(" 64 % of it")


@pytest.mark.parametrize(("us", "named"), [(0.7, True), (0.3, False)])
def test_a_culprit_that_would_be_0_percent_is_left_out(us: float, named: bool) -> None:
    def body(trace: TinyTrace, index: int) -> None:
        trace.operation(6, 400, "gemm", 0)
        trace.call(10, 450, "cudaDeviceSynchronize")
        trace.op(952, 952 + us, "aten::item")
        trace.operation(960, 1000, "gemm", 955, launch_us=2)

    text = found(steps(4, 1000, body).build(), Category.SYNCHRONIZATION).explanation
    assert "cudaDeviceSynchronize" in text
    assert ("aten::item" in text) is named


@pytest.mark.parametrize(("scores", "told"), [(33.0, True), (28.0, False)])
def test_attention_is_mentioned_from_a_twentieth_of_the_moved_time(scores: float, told: bool) -> None:
    def body(trace: TinyTrace, index: int) -> None:
        trace.operation(5, 100, "sm90_gemm", 0)
        trace.operation(100, 100 + scores, "softmax_warp_forward", 1)
        trace.operation(200, 300, "sm90_gemm", 2)
        for number in range(3):
            trace.operation(
                300 + 200 * number, 500 + 200 * number, "vectorized_elementwise_kernel<a>", 3 + number
            )
        trace.operation(900, 1000, "sm90_gemm", 10)

    text = found(steps(4, 1000, body).build(), Category.MEMORY_BOUND_KERNELS).explanation
    assert ("lies between the matrix products of attention" in text) is told


@pytest.mark.parametrize(
    ("region", "said", "never"),
    [
        ("## backward ##", "does between its launches", "in a worker process"),
        (
            "autograd::engine::evaluate_function: MulBackward0",
            "does between its launches",
            "Evaluate less often",
        ),
        ("evaluate_model", "Evaluate less often", "in a worker process"),
        ("tokenize_next", "in a worker process", "does between its launches"),
    ],
)
def test_the_models_own_passes_are_not_to_be_moved_to_a_worker(region: str, said: str, never: str) -> None:
    advice = " ".join(found(waiting(region), Category.HOST_BOUND).advice)
    assert said in advice
    assert never not in advice


def test_a_gpu_that_only_a_log_mentions_is_no_idle_one() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.operation(5, 995, "gemm", 0)

    trace = steps(4, 1000, body)
    trace.counter("GPU 1 power draw", "W", [(0.0, 75.0), (4000.0, 75.0)])
    built = trace.build()
    analysis = Analysis(built)
    report = as_text(built, diagnose(built), analysis)
    assert "Where the time of GPU 0 goes" in report
    assert "GPU 1 goes" not in report
