"""What programs write that has a better form, and what looks like it: distances, repeated heads, shifts, scores."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from parsers.model import Attribute
from parsers.model.late import dataclass
from rules import diagnose
from rules.fixes.plan import Promise
from tests.rules.builder import AUTOGRAD, TinyTrace, steps
from tests.rules.test_fixes import plan_of_body

PRODUCT, POINTWISE = "sm90_gemm_64x64_tn", "void vectorized_elementwise_kernel<4>"


@dataclass(frozen=True)
class Called:
    """An operator with the shapes of its inputs, and the time that it takes on the GPU (us, 0: it launches nothing)."""

    name: str
    shapes: Sequence[Any] = ()
    us: float = 0.0
    kernel: str = POINTWISE
    number: int = -1
    backward: bool = False


@dataclass(frozen=True)
class Program:
    """Two products of 200 us, then operators in order; without shapes, none are recorded."""

    called: Sequence[Called]
    shapes: bool = True
    frame: str = ""
    product_us: float = 200.0

    def body(self, trace: TinyTrace, _: int) -> None:
        products = [Called("aten::mm", ([8, 8], [8, 8]), self.product_us, PRODUCT)] * 2
        calls = [*products, *self.called]
        at, on_gpu = 10.0, 30.0
        if self.frame:
            trace.frame(5, 10 + 12 * len(calls), self.frame)
        for each in calls:
            thread = AUTOGRAD if each.backward else 100
            if each.backward:
                function = trace.op(
                    at - 1, at + 10, f"autograd::engine::evaluate_function: {each.name}", thread
                )
                trace.builder.attribute(Attribute.SEQUENCE, np.array([function]), each.number)
            event = np.array([trace.op(at, at + 9, each.name, thread)])
            if each.number >= 0 and not each.backward:
                trace.builder.attribute(Attribute.SEQUENCE, event, each.number)
            if self.shapes and each.shapes:
                dims = trace.builder.string(json.dumps(each.shapes))
                trace.builder.attribute(Attribute.INPUT_DIMS, event, dims)
            if each.us:
                begin = max(on_gpu, at + 6)
                trace.operation(begin, begin + each.us, each.kernel, at + 1, thread=thread)
                on_gpu = begin + each.us
            at += 12
        trace.call(at, max(on_gpu, at) + 5, "cudaDeviceSynchronize")

    @property
    def length_us(self) -> float:
        gpu = sum(each.us for each in self.called) + 2 * self.product_us
        return max(gpu, 12.0 * (len(self.called) + 2)) + 100

    def promises(self) -> dict[str, Promise]:
        made = plan_of_body(self.body, length=self.length_us)
        assert made.crashed == ()
        return {each.proposal.fix: each for each in made.promises}

    def titles(self) -> list[str]:
        return [each.title for each in diagnose(steps(6, self.length_us, self.body).build()).findings]


def changed(called: Sequence[Called], place: int, **values: Any) -> list[Called]:
    return [replace(each, **values) if at == place else each for at, each in enumerate(called)]


OTHER = Called("aten::relu", ([64, 64],), 1)
ALL = [1000, 64, 32]
DISTANCES = [
    Called("aten::sub", ([1000, 1, 32], [1, 64, 32], []), 60),
    Called("aten::pow", (ALL, []), 60),
    Called("aten::sum", (ALL, [], []), 60, "void reduce_kernel<512>"),
]


@pytest.mark.parametrize(
    ("called", "found"),
    [
        (DISTANCES, True),
        (changed(DISTANCES, 1, name="aten::square"), True),
        (changed(DISTANCES, 0, shapes=([1000, 1, 32], [64, 32], [])), True),
        ([DISTANCES[0], Called("aten::linalg_vector_norm", (ALL, []), 60)], True),
        ([Called("aten::cosine_similarity", DISTANCES[0].shapes, 180), OTHER], True),
        ([Called("aten::pairwise_distance", DISTANCES[0].shapes, 180), OTHER], True),
        ([Called("aten::cosine_similarity", ([1000, 32], [1000, 32], []), 180), OTHER], False),
        ([replace(DISTANCES[0], name="aten::mul"), DISTANCES[2]], True),
        ([replace(DISTANCES[0], name="aten::mul"), *DISTANCES[1:]], False),
        ([DISTANCES[0], DISTANCES[2]], False),
        (changed(DISTANCES, 1, name="aten::exp"), False),
        ([*DISTANCES[:2], Called("aten::relu", (ALL,), 9), DISTANCES[2]], False),
        (changed(DISTANCES, 0, shapes=([1000, 64, 32], [1, 64, 32], [])), False),
        (changed(DISTANCES, 1, shapes=([1000, 64], [])), False),
        ([replace(each, us=6.8) for each in DISTANCES], False),
        ([replace(each, us=7.2) for each in DISTANCES], True),
    ],
    ids=[
        "squared",
        "multiplied by itself",
        "a dimension less",
        "a norm",
        "angles of all pairs",
        "distances in one call",
        "angles of rows beside each other",
        "products",
        "squares of products",
        "differences that are only summed",
        "no squares",
        "not summed at once",
        "no pairs: one tensor less its mean",
        "squares of something else",
        "less than a twentieth of the GPU's time",
        "a twentieth",
    ],
)
def test_distances_by_broadcasting(called: Sequence[Called], found: bool) -> None:
    assert ("multiply-for-distances" in Program(called).promises()) is found


@pytest.mark.parametrize(("dimensions", "found"), [(8, True), (7, False)])
def test_points_of_few_dimensions_have_no_room_to_save(dimensions: int, found: bool) -> None:
    between = [1000, 64, dimensions]
    called = [
        Called("aten::sub", ([1000, 1, dimensions], [1, 64, dimensions], []), 60),
        *(replace(each, shapes=(between, [])) for each in DISTANCES[1:]),
    ]
    assert ("multiply-for-distances" in Program(called).promises()) is found


def test_of_the_differences_two_passes_over_the_distances_remain() -> None:
    made = Program(DISTANCES).promises()["multiply-for-distances"]
    assert made.expected == pytest.approx(670 / (490 + 180 * 2 / 32), rel=0.03)
    assert made.low < made.expected < made.high


def test_without_shapes_nobody_knows_what_is_subtracted() -> None:
    assert "multiply-for-distances" not in Program(DISTANCES, shapes=False).promises()


FEW, MANY, WIDE = [2, 8, 512, 64], [2, 32, 512, 64], [2, 8, 4, 512, 64]
QUERIES = [2, 32, 512, 64]
ATTENTION = Called("aten::scaled_dot_product_attention", (QUERIES, MANY, MANY), 50, "flash_fwd_kernel")
REPEATED = [
    Called("aten::repeat_interleave", (FEW, [], [], []), 40, "void direct_copy_kernel"),
    Called("aten::repeat_interleave", (FEW, [], [], []), 40, "void direct_copy_kernel"),
    ATTENTION,
]
WIDENED = [
    Called("aten::expand", ([2, 8, 1, 512, 64], [], [])),
    Called("aten::reshape", (WIDE, []), 40, "void direct_copy_kernel"),
    Called("aten::transpose", (MANY, [], [])),
    Called("aten::matmul", (QUERIES, [2, 32, 64, 512]), 50, PRODUCT),
]
OTHERS = [Called("aten::mul", ([8],)) for _ in range(14)]


@pytest.mark.parametrize(
    ("called", "found"),
    [
        (REPEATED, True),
        (WIDENED, True),
        ([*REPEATED[:2], *OTHERS, ATTENTION], True),
        ([*REPEATED[:2], *OTHERS, *OTHERS[:3], ATTENTION], False),
        (changed(REPEATED, 2, shapes=(QUERIES, FEW, FEW)), False),
        (changed(REPEATED, 2, shapes=(QUERIES, [2, 32, 256, 64], [2, 32, 256, 64])), False),
        (changed(changed(REPEATED, 0, us=11.6), 1, us=11.6), False),
        (changed(changed(REPEATED, 0, us=12.1), 1, us=12.1), True),
        (WIDENED[1:], False),
        (changed(WIDENED, 1, shapes=([2, 8, 1, 512, 64], [])), False),
    ],
    ids=[
        "repeated",
        "widened and copied",
        "sixteen operators before",
        "too far before",
        "attention takes them as they are",
        "attention reads something else",
        "less than a twentieth of the GPU's time",
        "a twentieth",
        "not widened",
        "as wide as before",
    ],
)
def test_keys_and_values_that_are_repeated(called: Sequence[Called], found: bool) -> None:
    assert ("share-key-heads" in Program(called).promises()) is found


@pytest.mark.parametrize(("queries", "left"), [(1, 25.0), (16, 25.0), (17, 50.0)])
def test_attention_of_few_queries_reads_each_key_once(queries: int, left: float) -> None:
    shape = [2, 32, queries, 64]
    program = Program([*REPEATED[:2], replace(ATTENTION, shapes=(shape, MANY, MANY))])
    made = program.promises()["share-key-heads"]
    assert made.expected == pytest.approx(550 / (420 + left), rel=0.03)
    assert made.low <= made.expected


def test_reading_each_key_once_takes_half_of_the_attention() -> None:
    def left(queries: int) -> float:
        shape = [2, 32, queries, 64]
        program = Program([*REPEATED[:2], replace(ATTENTION, shapes=(shape, MANY, MANY), us=200)])
        plan = plan_of_body(program.body, length=program.length_us)
        (made,) = (each for each in plan.promises if each.proposal.fix == "share-key-heads")
        return plan.replay.usual_ns / made.expected

    assert left(17) - left(16) == pytest.approx(100_000, rel=0.1)


SPECTRUM = [4, 320, 320]
SHIFTED = [
    Called("aten::fft_ifftshift", (SPECTRUM, []), 30, "void roll_cuda_kernel", 5),
    Called("aten::fft_fft2", (SPECTRUM, []), 30, "regular_fft", 6),
    Called("aten::fft_fftshift", (SPECTRUM, []), 30, "void roll_cuda_kernel", 7),
]


@pytest.mark.parametrize(
    ("called", "found"),
    [
        (SHIFTED, True),
        ([replace(SHIFTED[0], name="aten::roll"), *SHIFTED[1:]], True),
        ([SHIFTED[0], *OTHERS[:1], SHIFTED[1]], True),
        ([SHIFTED[0], *OTHERS[:2], SHIFTED[1]], False),
        ([SHIFTED[0], SHIFTED[2]], False),
        ([replace(each, us=10.6) for each in SHIFTED], False),
        ([replace(each, us=11.0) for each in SHIFTED], True),
    ],
    ids=[
        "to and fro",
        "rolled",
        "an operator in between",
        "two in between",
        "no transform",
        "less than a twentieth of the GPU's time",
        "a twentieth",
    ],
)
def test_spectra_that_are_shifted(called: Sequence[Called], found: bool) -> None:
    assert ("fold-shifts" in Program(called).promises()) is found


@pytest.mark.parametrize(("number", "gone"), [(7, 90.0), (6, 60.0)])
def test_gradients_go_with_what_they_belong_to(number: int, gone: float) -> None:
    backward = Called("RollBackward0", (SPECTRUM,), 30, "void roll_cuda_kernel", number, backward=True)
    made = Program([*SHIFTED, backward]).promises()["fold-shifts"]
    assert made.expected == pytest.approx(540 / (540 - gone), rel=0.03)


SCORES = [8, 511, 1000]
COPIED = [
    Called("aten::slice", ([8, 512, 1000], [], [], [], [])),
    Called("aten::slice", (SCORES, [], [], [], [])),
    Called("aten::contiguous", (SCORES, []), 40, "void direct_copy_kernel"),
    Called("aten::contiguous", ([8, 511], []), 2, "void direct_copy_kernel"),
    Called(
        "aten::cross_entropy_loss", ([4088, 1000], [4088], [], [], [], []), 30, "void nll_loss_forward_reduce"
    ),
]


@pytest.mark.parametrize(
    ("called", "found"),
    [
        (COPIED, True),
        (changed(COPIED, 2, name="aten::reshape"), True),
        (changed(COPIED, 4, name="aten::mse_loss"), False),
        (changed(COPIED, 0, shapes=([8, 511, 1000], [], [], [], [])), False),
        (changed(COPIED, 4, shapes=([4096, 1000], [4096], [], [], [], [])), False),
        ([*COPIED[:4], *OTHERS[:10], COPIED[4]], True),
        ([*COPIED[:4], *OTHERS[:11], COPIED[4]], False),
        (changed(COPIED, 2, us=22.0), False),
        (changed(COPIED, 2, us=23.5), True),
    ],
    ids=[
        "copied",
        "reshaped",
        "no loss over classes",
        "nothing cut off",
        "the loss reads something else",
        "twelve operators before",
        "too far before",
        "less than a twentieth of the GPU's time",
        "a twentieth",
    ],
)
def test_scores_that_are_copied_for_the_loss(called: Sequence[Called], found: bool) -> None:
    assert ("shift-labels" in Program(called).promises()) is found


@pytest.mark.parametrize(
    ("called", "title"),
    [
        (DISTANCES, "All pairs are compared by broadcasting"),
        (REPEATED, "Keys and values are repeated for shared heads"),
        (SHIFTED, "Spectra are shifted for each transform"),
        (COPIED, "Scores are copied for the loss"),
    ],
)
def test_they_are_told_by_their_names(called: Sequence[Called], title: str) -> None:
    assert any(each.startswith(f"{title}: ") for each in Program(called).titles())


CHAIN = [
    Called("aten::layer_norm", ([8, 8],), 40, "void vectorized_layer_norm_kernel", 1),
    Called("aten::gelu", ([8, 8],), 20, number=2),
    Called("aten::add", ([8, 8], [8, 8]), 20, number=3),
]


@pytest.mark.parametrize(
    ("called", "frame", "mostly"),
    [
        (CHAIN, "", ", mostly layer_norm"),
        ([replace(each, us=25) for each in CHAIN], "", ", mostly “add” and “gelu”"),
        (CHAIN, "train.py(12): block", ", mostly layer_norm in block (train.py:12)"),
        ([replace(CHAIN[1], name=f"aten::op_{each}") for each in "abcdefgh"], "", ""),
        ([*CHAIN, Called("AddBackward0", us=90, number=3, backward=True)], "", ", mostly “add”"),
    ],
    ids=["one operator", "two", "in a function", "many alike", "with its gradients"],
)
def test_what_a_compiler_would_join_is_named(called: Sequence[Called], frame: str, mostly: str) -> None:
    title = Program(called, frame=frame).promises()["compile-model"].proposal.title
    assert "".join(title.partition(", mostly")[1:]) == mostly


@pytest.mark.parametrize("called", [SHIFTED, REPEATED])
def test_no_compiler_joins_copies_for_a_library(called: Sequence[Called]) -> None:
    chain = [replace(each, us=60) for each in CHAIN]
    alone, both = (Program(each).promises()["compile-model"] for each in (chain, [*called, *chain]))
    copied = sum(each.us for each in called)
    whole = 600 + 20
    saved = whole * (1 - 1 / alone.expected)
    assert both.expected == pytest.approx((whole + copied) / (whole + copied - saved), rel=0.03)


@pytest.mark.parametrize(
    ("around", "where"),
    [("", ""), ("frame", " in each (train.py:7)"), ("range", " in “scoring”")],
    ids=["nothing is known", "a function", "a range"],
)
def test_a_loop_is_told_with_where_it_stands(around: str, where: str) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        if around == "frame":
            trace.frame(2, 2_940, "train.py(7): each")
        if around == "range":
            trace.region(2, 2_940, "scoring")
        for row in range(48):
            for place in range(5):
                at = 10 + (row * 5 + place) * 12
                trace.operation(at + 6, at + 8, f"void pass_{'abcde'[place]}", at)
        trace.kernels(2_950, 5, 20, 40)

    titles = {each.proposal.fix: each.proposal.title for each in plan_of_body(body, length=3_300).promises}
    assert f": a loop of 48 iterations{where} makes 235 launches in a step" in titles["join-loop"]


IDS, TABLE = [8, 1024], [32_000, 512]
ONE_HOT = [
    Called("aten::one_hot", (IDS, []), 60),
    Called("aten::to", ([*IDS, TABLE[0]], [], []), 60),
    Called("aten::matmul", ([*IDS, TABLE[0]], TABLE), 80, PRODUCT, number=5),
    Called("MmBackward0", (), 80, PRODUCT, number=5, backward=True),
]


@pytest.mark.parametrize(
    ("called", "found"),
    [
        (ONE_HOT, True),
        ([ONE_HOT[0], *OTHERS[:1], *ONE_HOT[1:]], True),
        ([ONE_HOT[0], *OTHERS[:2], *ONE_HOT[1:]], False),
        ([ONE_HOT[0], replace(ONE_HOT[2], shapes=([*IDS, 512], TABLE))], True),
        ([ONE_HOT[0], replace(ONE_HOT[2], shapes=([*IDS, 511], TABLE))], False),
        ([ONE_HOT[0], replace(ONE_HOT[2], shapes=([8, 1023, 512], TABLE))], False),
        (ONE_HOT[1:], False),
    ],
    ids=[
        "converted",
        "two between",
        "three between",
        "as a layer",
        "another side",
        "fewer",
        "something else",
    ],
)
def test_products_with_one_hot_vectors_are_look_ups(called: list[Called], found: bool) -> None:
    assert ("look-rows-up" in Program(called).promises()) is found


def test_looking_rows_up_takes_the_gradient_of_the_product_along() -> None:
    made = Program(ONE_HOT).promises()["look-rows-up"]
    assert 680 / (400 + 80 + 280 * 0.02) < made.expected < 680 / (400 + 280 * 0.02)
    assert made.low < made.expected
    assert "look-rows-up" not in Program(ONE_HOT, shapes=False).promises()


@pytest.mark.parametrize(
    ("longer", "why"),
    [
        (2.0, "the GPU waits for launches, and 3 of 5 in a step can be joined"),
        (2.5, "33 % of the GPU's time only moves memory"),
    ],
)
def test_a_compiler_is_for_launches_where_the_gpu_waits_longer_than_joining_saves_on_it(
    longer: float, why: str
) -> None:
    """It waits for 100 us, and of a chain of 160 or 200 us about half remains."""
    chain = [replace(each, us=longer * each.us) for each in CHAIN]
    title = Program(chain).promises()["compile-model"].proposal.title
    assert title == f"Compile the model: {why}, mostly layer_norm"
