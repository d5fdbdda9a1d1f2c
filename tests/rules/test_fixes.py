"""What fixes promise: each has recordings where it applies and where it does not, and all of them keep their rules."""

from __future__ import annotations

import numpy as np
import pytest

from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import EXPLANATION_HEADINGS, fixes
from rules.fixes.plan import Plan, Promise, make_plan, plan_of
from rules.replay.overlay import Overlay
from tests.examples import one_of
from tests.rules.builder import TinyTrace, steps
from tests.rules.test_replay import RECORDINGS, replay

# The cases lie on either side of these.
NARROWEST = 1.15
HOST_UNSURE = 1.2
NOTHING = 1.03


def plan_of_body(body: object, count: int = 6, length: float = 2000, into: TinyTrace | None = None) -> Plan:
    """What the replay says, whatever the same fixes gave in other programs."""
    return make_plan(Analysis(steps(count, length, body, into=into).build()), reaches={})


def promised(plan: Plan) -> dict[str, float]:
    assert plan.reason == ""
    assert plan.crashed == ()
    return {each.proposal.fix: each.expected for each in plan.promises}


def plan(name: str) -> Plan:
    return plan_of(replay(name).analysis)


def no_host(overlay: Overlay) -> None:
    overlay.gap[:] = 0
    overlay.cost[:] = 0
    overlay.tail[:] = 0
    overlay.waits[:] = False


@pytest.mark.parametrize("name", one_of(3, sorted(RECORDINGS)))
def test_promises_keep_their_rules(name: str) -> None:
    made = plan(name)
    assert made.crashed == ()

    for promise in made.promises:
        assert promise.low <= promise.expected <= promise.high
        limited = promise.high >= made.most(promise) - 1e-9
        assert limited or promise.high / promise.expected >= NARROWEST - 1e-9
        assert limited or promise.high / promise.low >= NARROWEST**2 - 1e-9
        assert max(promise.expected, promise.after_others) >= NOTHING or promise.proposal.redesign
        alone = made.replay.gain([promise.proposal.expected])
        assert alone <= made.replay.gain([promise.proposal.expected, no_host]) * (1 + 1e-9)
    assert len({promise.id for promise in made.promises}) == len(made.promises)


@pytest.mark.parametrize("name", sorted(RECORDINGS))
def test_a_set_of_fixes_is_replayed_together(name: str) -> None:
    made = plan(name)
    ids = [promise.id for promise in made.promises if not promise.proposal.redesign]
    outcome = made.predict(ids)
    every = [each.proposal.expected for each in made.chosen(ids)]
    assert outcome.gain <= made.replay.gain([*every, no_host]) * (1 + 1e-9)
    assert outcome.after_ns <= outcome.before_ns * (1 + 1e-9)
    assert outcome.least_ns <= outcome.after_ns <= outcome.most_ns
    for each in ids:
        assert outcome.after_ns <= made.predict([each]).after_ns * 1.001
    assert made.predict([]).gain == 1.0


def test_an_unknown_fix_is_refused() -> None:
    with pytest.raises(KeyError):
        plan("memory_stack").predict(["no-such-fix-1"])


def test_every_fix_explains_itself() -> None:
    assert len(fixes()) >= 12
    for each in fixes():
        for heading in EXPLANATION_HEADINGS:
            assert heading in each.explanation, each.id


def read_back(trace: TinyTrace, at: float, name: str = "aten::item") -> None:
    trace.op(at, at + 65, name)
    trace.copy(at + 56, at + 58, "DtoH", at + 2, bytes=4)
    trace.call(at + 8, at + 62, "cudaStreamSynchronize")


def test_read_backs_are_removed_where_the_cpu_could_run_ahead() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for place in range(10):
            at = 10 + place * 190
            trace.operation(at + 6, at + 60, "void some_kernel", at)
            trace.operation(at + 60, at + 118, "void some_kernel", at + 10)
            trace.op(at + 20, at + 130, "aten::item")
            trace.copy(at + 118, at + 120, "DtoH", at + 30, bytes=4)
            trace.call(at + 36, at + 126, "cudaStreamSynchronize")

    assert promised(plan_of_body(body))["remove-read-backs"] > 1.3


def test_a_read_back_at_the_end_of_a_step_that_the_gpu_fills_promises_nothing() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for place in range(24):
            trace.operation(20 + place * 82, 102 + place * 82, "void some_kernel", 5 + place * 6)
        trace.copy(1988, 1990, "DtoH", 200, bytes=4)
        trace.call(210, 1996, "cudaStreamSynchronize")

    assert "remove-read-backs" not in promised(plan_of_body(body))


@pytest.mark.parametrize(("busy_us", "unsure"), [(1700, 1.0), (1200, HOST_UNSURE), (300, HOST_UNSURE)])
def test_no_fix_of_the_host_promises_more_than_the_work_of_the_gpu_allows(
    busy_us: float, unsure: float
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.region(0, 1980 - busy_us, "score")
        for place in range(10):
            at = 1990 - busy_us + place * busy_us / 10
            trace.operation(at, at + busy_us / 10, "void some_kernel", 1982 - busy_us + place)
        trace.call(1995 - busy_us, 1996, "cudaStreamSynchronize")

    made = plan_of_body(body)
    taken = next(each for each in made.promises if each.id.startswith("move-host-phase"))
    most = made.replay.limit(made.replay.gpu_work([taken.proposal.expected]))
    assert most == pytest.approx(2000 / busy_us, rel=0.01)
    assert taken.expected <= most + 1e-9
    assert taken.high <= unsure * most + 1e-9
    assert (taken.high > most + 1e-9) is (unsure > 1)


SGEMM = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_execute"
TENSOR = "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x32_stage4_warpsize2x2x1_tensor16x8x16_execute"


@pytest.mark.parametrize(
    ("kernel", "capability", "found"),
    [(SGEMM, (9, 0), True), (TENSOR, (9, 0), False), (SGEMM, (6, 1), False)],
)
def test_single_precision_products_use_the_tensor_cores(
    kernel: str, capability: tuple[int, int], found: bool
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for place in range(9):
            trace.operation(20 + place * 215, 235 + place * 215, kernel, 5 + place * 6)
        trace.call(70, 1985, "cudaDeviceSynchronize")

    made = promised(plan_of_body(body, into=TinyTrace(capability=capability)))
    assert ("use-tensor-cores" in made) is found


DOUBLE = "cutlass_80_tensorop_d884gemm_64x64_16x4_nn_align1"


@pytest.mark.parametrize(
    ("kernel", "gain", "also"),
    [
        ("implicit_convolve_dgemm<128, double const*>", 8.0, [Category.NO_TENSOR_CORES]),
        ("elementwise_kernel<AddFunctor<double>>", 1.9, [Category.MEMORY_BOUND_KERNELS]),
        (DOUBLE, 1.5, []),
        (SGEMM, 0, []),
    ],
)
def test_64_bits_become_32(kernel: str, gain: float, also: list[Category]) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.op(0, 1, "aten::linear")
        for place in range(9):
            trace.operation(20 + place * 215, 235 + place * 215, f"void {kernel}", 5 + place * 6)
        trace.call(70, 1985, "cudaDeviceSynchronize")

    plan = plan_of_body(body, into=TinyTrace(capability=(9, 0)))
    assert promised(plan).get("use-single-precision", 0) == pytest.approx(gain, rel=0.3)
    told = [each.proposal.categories for each in plan.promises if each.proposal.fix == "use-single-precision"]
    assert told == [(Category.FP64, Category.SLOW_OPERATOR, *also)] * bool(gain)


def tensor_cores_for_products(
    training: bool, gpu: str = "Test GPU", capability: tuple[int, int] = (9, 0)
) -> Promise:
    """What is promised where nearly the whole step is products in single precision."""

    def body(trace: TinyTrace, _: int) -> None:
        if training:
            trace.region(1, 2, "Optimizer.step#SGD.step")
        for place in range(9):
            trace.operation(20 + place * 215, 235 + place * 215, SGEMM, 5 + place * 6)
        trace.call(70, 1985, "cudaDeviceSynchronize")

    made = plan_of_body(body, into=TinyTrace(capability=capability, gpu=gpu))
    return next(each for each in made.promises if each.proposal.fix == "use-tensor-cores")


def test_inference_is_promised_what_16_bits_give_and_training_what_tf32_gives() -> None:
    inference, training = (tensor_cores_for_products(training) for training in (False, True))
    assert inference.expected > 1.1 * training.expected


def test_on_geforce_16_bits_are_promised_to_training_too_as_tf32_gives_nothing() -> None:
    found = tensor_cores_for_products(True, "NVIDIA GeForce RTX 3070 Ti", (8, 6))
    assert found.expected == pytest.approx(1.6, rel=0.05)
    assert found.low == pytest.approx(1.0, abs=0.01)
    assert found.proposal.depends_on == "whether the model tolerates 16 bits"


@pytest.mark.parametrize(
    ("moved_us", "said", "problem"),
    [
        (1200, "Compute in 16 bits: that halves the data moved in 63 % of the GPU's time", True),
        (
            800,
            "58 % of the GPU's time is single-precision products, and 16 bits halve the data moved in 42 % of it",
            False,
        ),
        (0, "100 % of the GPU's time is single-precision products", False),
    ],
)
def test_what_16_bits_do_beside_the_products_is_told_where_it_is_promised(
    moved_us: int, said: str, problem: bool
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        each = (1900 - moved_us) / 4
        for place in range(4):
            trace.operation(20 + place * each, 20 + (place + 1) * each, SGEMM, 5 + place * 6)
        if moved_us:
            at = 1920 - moved_us
            trace.operation(at, 1920, "void vectorized_elementwise_kernel<4>", 40)
        trace.call(70, 1985, "cudaDeviceSynchronize")

    made = plan_of_body(body, into=TinyTrace(capability=(9, 0)))
    (found,) = (each for each in made.promises if each.proposal.fix == "use-tensor-cores")
    assert found.proposal.title.endswith(said)
    assert (found.proposal.problem == "Tensors are kept in single precision") is problem
    assert ("Allow TF32 for" in str(found.proposal.remedy.advice)) is not problem


@pytest.mark.parametrize("training", [True, False])
def test_tensor_cores_may_reach_half_of_what_their_peak_rate_gives(training: bool) -> None:
    products, rest = 9 * 215, 2000 - 9 * 215
    least = 2000 / (products / (0.5 * 7.4) + rest)
    assert tensor_cores_for_products(training).low == pytest.approx(least, rel=0.05)


@pytest.mark.parametrize(
    ("name", "found"), [("void vectorized_elementwise_kernel<4>", True), (TENSOR, False)]
)
def test_kernels_that_only_move_memory_are_compiled(name: str, found: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for place in range(20):
            trace.operation(20 + place * 98, 116 + place * 98, name, 5 + place * 6)
        trace.call(130, 1985, "cudaDeviceSynchronize")

    assert ("compile-model" in promised(plan_of_body(body))) is found


@pytest.mark.parametrize("turns", [True, False])
def test_work_that_is_unequal_by_turns_is_made_equal(turns: bool) -> None:
    trace = TinyTrace()
    for rank in range(2):

        def body(made: TinyTrace, step: int, rank: int = rank) -> None:
            long = step % 2 == rank if turns else True
            for place in range(10):
                each = 150 if long else 50
                made.operation(
                    20 + place * each, 20 + (place + 1) * each, "void gemm", 5 + place * 6, device=rank
                )
            made.collective(1520 if long else 520, 1540, 80, device=rank)
            made.call(90, 1590, "cudaDeviceSynchronize")

        trace.rank = rank
        steps(6, 1600, body, into=trace)
    assert ("equal-lengths" in promised(make_plan(Analysis(trace.build())))) is turns


def test_sound_recordings_are_promised_little() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for place in range(20):
            trace.operation(20 + place * 98, 116 + place * 98, TENSOR, 5 + place * 6)

    assert all(gain < 1.1 for gain in promised(plan_of_body(body)).values())
    assert np.isfinite(plan_of_body(body).replay.usual_ns)


MISALIGNED = "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_tn_align1>"
ALIGNED = "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_tn_align8>"


@pytest.mark.parametrize(("kernel", "found"), [(MISALIGNED, True), (ALIGNED, False)])
def test_products_of_unaligned_data_are_padded(kernel: str, found: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for place in range(9):
            trace.operation(20 + place * 215, 235 + place * 215, kernel, 5 + place * 6)
        trace.call(70, 1985, "cudaDeviceSynchronize")

    assert ("align-shapes" in promised(plan_of_body(body))) is found


@pytest.mark.parametrize(("kernel", "more"), [(MISALIGNED, True), (ALIGNED, False)])
def test_a_compiler_pads_products_of_unaligned_data(kernel: str, more: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for place in range(4):
            at = 20 + place * 470
            trace.operation(at, at + 235, kernel, 5 + place * 24)
            for each in range(3):
                chained = at + 235 + each * 70
                trace.operation(
                    chained, chained + 70, "vectorized_elementwise_kernel<4>", 11 + place * 24 + each * 6
                )
        trace.call(110, 1985, "cudaDeviceSynchronize")

    (compiled,) = [each for each in plan_of_body(body).promises if each.proposal.fix == "compile-model"]
    joined = 1.45  # what joining the chains gives by itself
    assert (compiled.expected > 1.2 * joined) is more
    assert (compiled.high > 2 * joined) is more


@pytest.mark.parametrize(("each", "found"), [(40, True), (1, False)])
def test_memory_is_kept_where_allocating_takes_time(each: float, found: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for place in range(20):
            trace.operation(16 + place * 60, 22 + place * 60, "void some_kernel", 10 + place * 60)
            trace.call(16 + place * 60, 16 + place * 60 + each, "cudaMalloc")

    assert ("keep-memory" in promised(plan_of_body(body, length=1220))) is found


@pytest.mark.parametrize(("work", "found"), [(3000, True), (0, False)])
def test_what_few_steps_do_besides_is_taken_out(work: float, found: bool) -> None:
    trace = TinyTrace()
    at = 0.0
    for number in range(6):
        trace.shift = at
        length = 1000 + (work if number == 3 else 0)
        trace.step(0, length, f"ProfilerStep#{number + 1}")
        trace.kernels(10, 19, 20, 50)
        at += length
    trace.shift = 0.0
    assert ("spread-slow-steps" in promised(make_plan(Analysis(trace.build())))) is found


@pytest.mark.parametrize(("calls", "found"), [(21, False), (22, True)])
def test_a_slow_step_makes_a_tenth_more_or_fewer_calls_than_the_others(calls: int, found: bool) -> None:
    """Of 21: launches, and a synchronisation that lasts as long as the GPU works."""
    trace = TinyTrace()
    for number in range(6):
        slow = number == 3
        length = 4000 if slow else 1000
        trace.step(0, length, f"ProfilerStep#{number + 1}")
        trace.kernels(10, calls if slow else 19, 20, 25)
        trace.operation(600, length - 20, "gemm", 590)
        trace.call(600, length - 10, "cudaDeviceSynchronize")
        trace.shift += length
    trace.shift = 0.0
    assert ("spread-slow-steps" in promised(make_plan(Analysis(trace.build())))) is found


def test_counting_rows_is_known_by_its_kernels_where_no_operator_says_so() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for place in range(8):
            at = 10 + place * 220
            trace.operation(at + 6, at + 40, "void some_kernel", at)
            trace.operation(at + 40, at + 44, "void cub::detail::reduce::DeviceReduceKernel", at + 10)
            trace.copy(at + 44, at + 46, "DtoH", at + 20, bytes=4)
            trace.call(at + 26, at + 60, "cudaStreamSynchronize")
            trace.operation(at + 76, at + 80, "void cub::detail::select::DeviceSelectSweepKernel", at + 70)
            trace.operation(at + 96, at + 200, "void some_kernel", at + 90)

    made = plan_of_body(body)
    promise = next(each for each in made.promises if each.proposal.fix == "remove-read-backs")
    assert "without counting" in promise.proposal.title


def test_scores_that_go_through_memory_are_fused() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for place in range(4):
            at = 20 + place * 480
            for offset, length, name in (
                (0, 100, TENSOR),
                (100, 140, "void vectorized_elementwise_kernel<4>"),
                (240, 140, "void softmax_warp_forward<float, float, float, 11, false>"),
                (380, 100, TENSOR),
            ):
                trace.operation(at + offset, at + offset + length, name, 5 + place * 24 + offset // 20)
        trace.call(140, 1990, "cudaDeviceSynchronize")

    assert promised(plan_of_body(body))["fuse-attention"] > 1.5


@pytest.mark.parametrize(("part", "found"), [(8, True), (1, False)])
def test_what_is_concatenated_anew_is_written_in_place(part: int, found: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for place in range(20):
            joins = (place % 10 < part and part > 1) or place == 0
            name = (
                "void at::native::(anonymous namespace)::CatArrayBatchedCopy<OpaqueType<2u>>"
                if joins
                else TENSOR
            )
            trace.operation(20 + place * 96, 116 + place * 96, name, 5 + place * 6)
        trace.call(140, 1985, "cudaDeviceSynchronize")

    assert ("write-in-place" in promised(plan_of_body(body))) is found


@pytest.mark.parametrize(("kernels", "found"), [(("a", "a"), True), (("a", "b"), False)])
def test_threads_that_run_the_same_model_serve_requests_together(
    kernels: tuple[str, str], found: bool
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for thread, name in enumerate(kernels):
            for place in range(12):
                at = 10 + place * 80 + thread * 40
                trace.operation(
                    at + 6, at + 8, f"void kernel_{name}", at, thread=100 + thread, stream=7 + thread
                )

    made = plan_of_body(body, length=1000)
    assert any(each.proposal.redesign for each in made.promises) is found


@pytest.mark.parametrize(("clock", "found"), [(1400.0, True), (1960.0, False)])
def test_a_gpu_that_a_limit_holds_below_its_clock_is_told_to_have_it_lifted(
    clock: float, found: bool
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for place in range(9):
            trace.operation(20 + place * 215, 235 + place * 215, TENSOR, 5 + place * 6)
        trace.call(70, 1985, "cudaDeviceSynchronize")

    trace = steps(6, 2000, body)
    times = [index * 100.0 for index in range(120)]
    trace.counter("GPU 0 SM clock", "MHz", [(at, clock) for at in times])
    trace.counter("GPU 0 maximum SM clock", "MHz", [(at, 1980.0) for at in times])
    trace.counter("GPU 0 software power cap", "", [(at, 1.0) for at in times])
    made = promised(make_plan(Analysis(trace.build())))
    assert ("end-throttling" in made) is found
    assert made.get("end-throttling", 1.41) == pytest.approx(1980 / 1400, rel=0.05)
