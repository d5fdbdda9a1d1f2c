"""How much of the GPU's time must be in some kernels for a fix to be proposed, on either side of each share."""

from __future__ import annotations

import pytest

from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import fixes
from rules.replay.replay import replay_of
from tests.rules.builder import TinyTrace, steps
from tests.rules.test_computed_again import recomputed

STEP_US = 4_000.0


@pytest.mark.parametrize(
    ("fix", "kernel", "share"),
    [
        (
            "align-shapes",
            "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_tn_align1>",
            0.03,
        ),
        ("write-in-place", "void at::native::CatArrayBatchedCopy<float, unsigned int, 4, 128, 1>", 0.1),
        ("use-channels-last", "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>", 0.01),
        ("use-single-precision", "sm80_xmma_gemm_f64f64_f64f64_f64_tn_n_tilesize32x32x16", 0.05),
        ("pad-transforms", "void regular_bluestein_fft<512u, EPT<8u>, 2u, 5u, float>", 0.05),
    ],
)
def test_a_fix_is_proposed_from_a_share_of_the_gpus_time_on(fix: str, kernel: str, share: float) -> None:
    def proposed(part: float) -> bool:
        def body(trace: TinyTrace, _: int) -> None:
            own = 2_000.0 * part
            trace.op(0, 5, "aten::mm")
            trace.operation(10, 10 + own, kernel, 2)
            rest = (2_000.0 - own) / 10
            for number in range(10):
                begin = 10 + own + number * rest
                trace.operation(begin, begin + rest, "void some_other_kernel", 8 + 6 * number)

        analysis = Analysis(steps(5, STEP_US, body).build())
        (wanted,) = [each for each in fixes() if each.id == fix]
        return bool(list(wanted.proposals(analysis, replay_of(analysis))))

    assert proposed(1.05 * share)
    assert not proposed(0.95 * share)


@pytest.mark.parametrize(("took", "found"), [(42.0, True), (38.0, False)])
def test_a_slow_operator_with_a_fiftieth_of_the_gpus_time_is_worth_a_faster_kernel(
    took: float, found: bool
) -> None:
    """Its 11 MB can be read and written in 3 us."""

    analysis = with_a_slow_operator(took)
    (wanted,) = [each for each in fixes() if each.id == "use-faster-kernels"]
    assert bool(list(wanted.proposals(analysis, replay_of(analysis)))) is found


def with_a_slow_operator(took: float) -> Analysis:
    def body(trace: TinyTrace, _: int) -> None:
        trace.shapes(trace.op(0, 8, "aten::add"), [[900_000]] * 2, ["float", "float"])
        trace.operation(10, 10 + took, "void vectorized_elementwise_kernel<4>", 2)
        for number in range(10):
            begin, each = 10 + took + number * (2_000 - took) / 10, (2_000 - took) / 10
            trace.operation(begin, begin + each, "void some_other_kernel", 9 + 6 * number)

    return Analysis(steps(5, STEP_US, body).build())


@pytest.mark.parametrize(("took", "left"), [(310.0, 0.7), (340.0, 0.12)])
def test_most_of_an_operator_goes_that_reaches_less_than_a_hundredth(took: float, left: float) -> None:
    """At the roof it takes 3.2 us."""
    replay = replay_of(with_a_slow_operator(took))
    (wanted,) = [each for each in fixes() if each.id == "use-faster-kernels"]
    (proposal,) = wanted.proposals(replay.analysis, replay)
    slow = replay.device.duration == took * 1_000
    changed = replay.overlay([proposal.expected]).duration[slow]
    assert changed == pytest.approx(took * left * 1_000, rel=0.05)


@pytest.mark.parametrize(("multiplied", "moves"), [(0.42, True), (0.43, False)])
def test_what_is_computed_again_is_memory_bound_where_most_of_it_is(multiplied: float, moves: bool) -> None:
    """Other kernels leave 170 us for what only moves memory, beside products of 168 and 172 us."""
    made = recomputed(400, multiplied=multiplied).promises
    (kept,) = (each.proposal.categories for each in made if each.proposal.fix == "keep-activations")
    assert (Category.MEMORY_BOUND_KERNELS in kept) is moves
    assert Category.SLOW_OPERATOR in kept
