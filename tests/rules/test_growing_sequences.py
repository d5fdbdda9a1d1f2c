"""Text that is generated without keeping keys and values, and what looks like it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from rules.fixes.catalog.positions import MIN_PASSES, MIN_POSITIONS, KeepKeysAndValues
from rules.replay.replay import Replay
from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body
from tests.rules.test_written_forms import POINTWISE, PRODUCT, Called, Program

FLASH = "void pytorch_flash::flash_fwd_kernel"


def a_pass(positions: int, keys: int = 0, us: float = 100.0, head: float = 0.0) -> list[Called]:
    """A layer over two sequences, and a product of their last positions."""
    rows, query = [2, positions, 64], [2, 4, positions, 16]
    read = [2, 4, keys or positions, 16]
    return [
        Called("aten::linear", (rows, [192, 64], []), us, PRODUCT),
        Called("aten::scaled_dot_product_attention", (query, read, read, [], [], [], []), us, FLASH),
        Called("aten::gelu", (rows, []), us),
        Called("aten::linear", ([2, 1, 64], [8000, 64], []), head, PRODUCT),
    ]


def written_out(positions: int) -> list[Called]:
    """The same with a softmax of its own, and one sequence after the other."""
    scores = [2, 4, positions, positions]
    return [
        Called("aten::addmm", ([192], [2 * positions, 64], [64, 192], [], []), 100, PRODUCT),
        Called("aten::softmax", (scores, [], []), 100),
        Called("aten::matmul", (scores, [2, 4, positions, 16]), 100, PRODUCT),
    ]


def passes(first: int = 100, count: int = 6, by: int = 1, **values: Any) -> list[Called]:
    return [each for at in range(count) for each in a_pass(first + by * at, **values)]


def recurrent(steps: int, first: bool = False, cell: str = "aten::lstm") -> list[Called]:
    """A layer of two sequences, and what reads its last step."""
    data = [steps, 2, 8] if first else [2, steps, 8]
    return [
        Called(cell, (data, [[1, 2, 16]], [[64, 8], [64, 16]]), 200, "void RNN_blockPersist_fp_LSTM"),
        Called("aten::linear", ([2, 1, 16], [1, 16], []), 5, PRODUCT),
    ]


def is_found(called: Sequence[Called]) -> bool:
    return KeepKeysAndValues.id in Program(called).promises()


@pytest.mark.parametrize(
    ("called", "found"),
    [
        (passes(), True),
        ([each for at in range(6) for each in written_out(100 + at)], True),
        (passes(count=MIN_PASSES), True),
        (passes(count=MIN_PASSES - 1), False),
        (passes(MIN_POSITIONS), True),
        (passes(MIN_POSITIONS - 1, count=MIN_PASSES), False),
        (passes(by=0), False),
        (passes(by=2), False),
        (passes(by=-1), False),
        ([each for at in range(6) for each in a_pass(1, keys=100 + at)], False),
        ([*passes(), Called("MmBackward0", us=30, number=3, backward=True)], False),
        ([each for at in range(6) for each in recurrent(50 + at)], True),
        ([each for at in range(6) for each in recurrent(50 + at, first=True, cell="aten::gru")], True),
        ([each for _ in range(6) for each in recurrent(50)], False),
        ([each for at in range(6) for each in recurrent(50 + 2 * at)], False),
        ([each for at in range(6) for each in recurrent(50 + at, cell="aten::embedding_bag")], False),
        (passes(us=3.0, count=MIN_PASSES, head=300.0), False),
    ],
    ids=[
        "attention in one call",
        "attention by products",
        "as many passes as needed",
        "a pass less",
        "as many positions as needed",
        "a position less",
        "the same text again",
        "two tokens more",
        "shorter and shorter",
        "kept keys",
        "gradients",
        "a recurrent layer",
        "a recurrent layer, time first",
        "a recurrent layer over the same steps",
        "a recurrent layer over two more steps",
        "no recurrent layer",
        "a small part of the GPU's time",
    ],
)
def test_all_tokens_so_far_are_computed_again(called: Sequence[Called], found: bool) -> None:
    assert is_found(called) is found


def test_the_first_pass_and_what_works_on_the_new_token_stay() -> None:
    """Two products of 200 us, and six passes of three operators, of which five need a hundredth, at least 4 us."""
    called = passes(us=400.0)
    step, first, left = 400.0 + 18 * 400.0, 3 * 400.0, 400.0
    made = Program(called).promises()[KeepKeysAndValues.id]
    assert made.expected == pytest.approx(step / (left + first + 15 * 4.0), rel=0.05)
    assert made.low < made.expected < made.high


def test_keeping_keys_and_values_takes_the_cpu_more_time_and_carrying_a_state_none() -> None:
    def times_as_long(called: Sequence[Called], which: str) -> float:
        program = Program(called)
        plan = plan_of_body(program.body, length=program.length_us)
        (made,) = (each.proposal for each in plan.promises if each.proposal.fix == KeepKeysAndValues.id)
        after = plan.replay.overlay([getattr(made, which) or made.expected])
        return float((after.gap / np.maximum(plan.replay.usual.gap, 1.0)).max())

    assert times_as_long(passes(), "expected") == pytest.approx(1 + 2 / 3)
    assert times_as_long(passes(), "low") == pytest.approx(2)
    alone = [each for at in range(6) for each in a_pass(100 + at)[1:2]]
    assert times_as_long(alone, "low") == times_as_long(alone, "expected") == pytest.approx(3)
    assert times_as_long([each for at in range(6) for each in recurrent(50 + at)], "low") == pytest.approx(1)


def test_a_product_takes_as_long_as_its_weights() -> None:
    """8000 x 30000 weights of a byte take 143 us at half of the bandwidth of an H100."""
    several = [
        Called("aten::linear", ([2, each, 30000], [8000, 30000], []), 400, PRODUCT)
        for each in range(100, 106)
    ]
    called = [one for place, each in enumerate(several) for one in (each, *a_pass(100 + place)[1:])]
    with_weights = Program(called).promises()[KeepKeysAndValues.id]
    assert with_weights.expected < 0.8 * Program(passes(us=400.0)).promises()[KeepKeysAndValues.id].expected


def test_a_recurrent_layer_is_told_to_carry_its_state() -> None:
    (made,) = (
        each.proposal
        for each in Program([each for at in range(6) for each in recurrent(50 + at)]).promises().values()
        if each.proposal.fix == KeepKeysAndValues.id
    )
    assert made.title.startswith("Carry the state of the recurrent layers")
    (made,) = (
        each.proposal
        for each in Program(passes()).promises().values()
        if each.proposal.fix == KeepKeysAndValues.id
    )
    assert made.title.startswith("Keep the keys and values")


def kernels_of_pass(
    positions: int, block: int = 128, table: str = "vectorized_gather", attention: str = FLASH
) -> list[tuple[str, int, int, float]]:
    """A pass over two sequences as kernels: (name, grid, threads of a block, us); what picks a token comes last."""
    rows = 2 * positions
    return [
        (f"void at::native::{table}_kernel<16, long>", rows, 128, 5.0),
        ("void vectorized_elementwise_kernel<4>", rows, block, 50.0),
        (PRODUCT, 132, 384, 100.0),
        (attention, 132, 384, 100.0),
        (f"{POINTWISE}, gelu", rows, block, 50.0),
        ("void cunn_SoftMaxForward", 2, 1024, 40.0),
    ]


def replayed(kernels: Sequence[tuple[str, int, int, float]]) -> Replay:
    def body(trace: TinyTrace, _: int) -> None:
        at, on_gpu = 10.0, 30.0
        for name, grid, block, us in kernels:
            on_gpu = max(on_gpu, at + 6) + us
            trace.operation(on_gpu - us, on_gpu, name, at, grid=grid, block=block)
            at += 12
        trace.call(at, max(on_gpu, at) + 5, "cudaDeviceSynchronize")

    whole = sum(us for *_, us in kernels)
    return plan_of_body(body, length=max(whole, 12.0 * len(kernels)) + 100).replay


def kernels_of_passes(first: int = 100, count: int = 6, **values: Any) -> list[tuple[str, int, int, float]]:
    return [each for at in range(count) for each in kernels_of_pass(first + at, **values)]


@pytest.mark.parametrize(
    ("kernels", "found"),
    [
        (kernels_of_passes(), True),
        (kernels_of_passes(count=4), True),
        (kernels_of_passes(count=3), False),
        (kernels_of_passes(16, count=4), True),
        (kernels_of_passes(14, count=3), False),
        (kernels_of_passes(block=8), True),
        (kernels_of_passes(block=7), False),
        (kernels_of_passes(table="indexSelect"), False),
        (kernels_of_passes(attention="void reduce_kernel<512>"), False),
        ([*kernels_of_passes(), ("void cunn_SoftMaxBackward", 10, 128, 5.0)], False),
        ([each for _ in range(6) for each in kernels_of_pass(100)], False),
    ],
    ids=[
        "a row more for each sequence",
        "four passes",
        "three",
        "16 positions",
        "fewer",
        "eight threads for each position",
        "seven",
        "another look-up",
        "no attention",
        "a training",
        "as many each time",
    ],
)
def test_growing_passes_are_told_by_kernels_alone(
    kernels: list[tuple[str, int, int, float]], found: bool
) -> None:
    replay = replayed(kernels)
    assert bool(list(KeepKeysAndValues().proposals(replay.analysis, replay))) is found


def test_what_picks_a_token_stays_where_kernels_alone_tell() -> None:
    replay = replayed(kernels_of_passes())
    (made,) = KeepKeysAndValues().proposals(replay.analysis, replay)
    assert made.low is None  # how long the CPU takes is recorded
    passes_ns = 345.0
    left = 345.0 + 5 * (5.0 + 40.0 + 4 * 4.0)
    assert replay.gain([made.expected]) == pytest.approx((6 * passes_ns + 100) / (left + 100), rel=0.1)
