"""64-bit numbers: what they give up in 32 bits, where they begin, and when they are meant."""

from __future__ import annotations

import pytest

from parsers.model.names.per_name import named
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import Proposal, fixes
from rules.fixes.catalog.precision import double_precision
from rules.fixes.plan import make_plan
from rules.replay.replay import Change, Replay, replay_of
from tests.rules.builder import TinyTrace, steps

DOUBLE = "void at::native::vectorized_elementwise_kernel<4, MulFunctor<double>, array<char*, 2> >"
DGEMM = "cutlass_80_tensorop_d884gemm_64x64_16x4_nt_align1"
SOLVE = "void kernel_trsm_l_mul32<double, 8, false, false, false, false>"
COPY = "void at::native::unrolled_elementwise_kernel<direct_copy_kernel_cuda, array<char*, 2> >"
TENSOR = [64, 64]

Call = tuple[str, str, float, list[str], list[list[int]]]  # operator, kernel, us, types, sizes


def analysed(*calls: Call) -> Analysis:
    def body(trace: TinyTrace, _: int) -> None:
        at, number = 20.0, 0
        fillers: list[Call] = [("aten::relu", "void some_other_kernel", 0.1, ["float"], [TENSOR])] * 16
        for operator, kernel, us, types, sizes in (*calls, *fillers):
            launch = 2.0 + 8 * number
            trace.shapes(trace.op(launch - 1, launch + 6, operator), sizes, types)
            trace.operation(at, at + us, kernel, launch)
            at, number = at + us, number + 1
        trace.call(8 * number + 5, at + 10, "cudaDeviceSynchronize")

    length = sum(us for _, _, us, _, _ in calls) + 200
    return Analysis(steps(5, length, body).build())


def double(kernel: str, us: float, operator: str = "aten::mul") -> Call:
    return operator, kernel, us, ["double", "double"], [TENSOR, TENSOR]


def proposed(analysis: Analysis) -> tuple[Replay, Proposal]:
    replay = replay_of(analysis)
    (wanted,) = [each for each in fixes() if each.id == "use-single-precision"]
    (made,) = wanted.proposals(analysis, replay)
    return replay, made


def left(replay: Replay, change: Change | None, kernel: str) -> float:
    assert change is not None
    mine = named(replay.analysis.trace, replay.device.event, kernel.__eq__)
    return float(replay.overlay([change]).duration[mine].sum() / replay.usual.duration[mine].sum())


@pytest.mark.parametrize(("share", "meant"), [(0.21, True), (0.19, False)])
def test_64_bits_are_meant_where_factorisations_take_a_fifth_of_their_time(share: float, meant: bool) -> None:
    analysis = analysed(double(SOLVE, 1000 * share), double(DGEMM, 300), double(DOUBLE, 700 - 1000 * share))
    (promise,) = [
        each for each in make_plan(analysis).promises if each.proposal.fix == "use-single-precision"
    ]
    assert promise.proposal.title.startswith("Check whether 32-bit" if meant else "Use 32-bit numbers")
    assert promise.proposal.broad is meant
    assert (left(replay_of(analysis), promise.proposal.low, DOUBLE) == 1.0) is meant
    assert ("Keep 64 bits" in str(promise.proposal.remedy.advice)) is meant
    (found,) = [each for each in diagnose(analysis.trace).findings if each.rule == "double-precision"]
    assert found.title.startswith("Matrices are factorised" if meant else "Matrix products")


@pytest.mark.parametrize(
    ("kernel", "least", "likely", "most"),
    [
        (DOUBLE, 1 / 2, 1 / 2, 1 / 2),
        ("void conv_depthwise2d_forward_kernel_generic<double, int>", 1.0, 1 / 1.2, 1 / 2),
        (
            "void cunn_SoftMaxForward<2, double, double, double, LogSoftMaxForwardEpilogue>",
            1 / 2,
            1 / 3,
            1 / 3,
        ),
        ("void implicit_convolve_dgemm<double, 128, 6>", 1 / (0.4 * 14.8), 1 / (0.8 * 14.8), 1 / 14.8),
        ("volta_dgemm_64x64_nn", 1.0, 1 / (0.8 * 2), 1 / 14.8),
    ],
)
def test_what_kernels_take_in_32_bits(kernel: str, least: float, likely: float, most: float) -> None:
    replay, made = proposed(analysed(double(kernel, 500.0), double(DGEMM, 300.0)))
    for change, part in ((made.low, least), (made.expected, likely), (made.high, most)):
        assert left(replay, change, kernel) == pytest.approx(part, rel=0.01)


@pytest.mark.parametrize(
    ("kernel", "told"), [("conv_depthwise2d_backward_kernel<double>", False), ("dgrad_kernel<double>", True)]
)
def test_filters_for_each_channel_are_no_matrix_products(kernel: str, told: bool) -> None:
    analysis = analysed(double(f"void {kernel}", 500.0), double(DOUBLE, 100.0))
    assert any(each.rule == "double-precision" for each in diagnose(analysis.trace).findings) is told


@pytest.mark.parametrize(
    ("types", "sizes", "gone"),
    [
        (["double", "float"], [TENSOR, TENSOR], True),
        (["c10::BFloat16", "double"], [TENSOR, TENSOR], True),
        (["double", "long int"], [TENSOR, TENSOR], False),
        (["float", "double"], [TENSOR, []], False),
    ],
    ids=["from 32 bits", "to 16 bits", "from integers", "a single number"],
)
def test_copies_between_both_kinds_of_numbers_are_gone(
    types: list[str], sizes: list[list[int]], gone: bool
) -> None:
    analysis = analysed(("aten::copy_", COPY, 300.0, types, sizes), double(DOUBLE, 500.0))
    replay, made = proposed(analysis)
    assert (left(replay, made.expected, COPY) < 0.05) is gone
    assert made.title.startswith(f"Use 32-bit numbers: {100 if gone else 62} %")


@pytest.mark.parametrize("mixed", [True, False])
def test_the_operator_that_first_takes_both_is_where_64_bits_begin(mixed: bool) -> None:
    analysis = analysed(
        ("aten::mm", "ampere_sgemm_128x64_tn", 100.0, ["float", "float"], [TENSOR, TENSOR]),
        ("aten::sub", DOUBLE, 100.0, ["float", "double" if mixed else "float"], [TENSOR, [64]]),
        double(DOUBLE, 300.0, "aten::add"),
        ("aten::div", DOUBLE, 100.0, ["float", "double"] if mixed else ["double"], [TENSOR, TENSOR]),
    )
    begins = double_precision(analysis).begins
    assert (analysis.trace.name(begins) if begins >= 0 else "") == ("aten::sub" if mixed else "")
    _, made = proposed(analysis)
    assert ("aten::sub is the first to take 64-bit numbers" in str(made.remedy.advice)) is mixed


def test_a_conversion_at_the_beginning_is_to_be_left_out() -> None:
    """Of the program's own call, not of the copy that it makes inside."""

    def body(trace: TinyTrace, _: int) -> None:
        trace.shapes(trace.op(1, 9, "aten::to"), [TENSOR], ["float"])
        trace.shapes(trace.op(2, 8, "aten::copy_"), [TENSOR, TENSOR], ["double", "float"])
        trace.operation(20, 120, COPY, 3)
        for number in range(16):
            trace.operation(120 + 20 * number, 140 + 20 * number, DOUBLE, 12 + 8 * number)
        trace.call(145, 450, "cudaDeviceSynchronize")

    _, made = proposed(Analysis(steps(5, 500, body).build()))
    assert "aten::to first makes 64-bit numbers" in str(made.remedy.advice)
    assert Category.FP64 in made.categories
