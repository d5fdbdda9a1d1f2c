"""Loops on the CPU whose rounds pick no item: heads, experts and members with own weights, texts of any length."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from rules.analysis.analysis import Analysis
from rules.analysis.cpu.cpu_time import cpu_time
from rules.losses import rounds_apart
from rules.losses.cpu_loops import ItemLoops, item_loops
from tests.rules.builder import TinyTrace, steps

GRADIENT = "autograd::engine::evaluate_function: "
OWN = GRADIENT + "torch::autograd::AccumulateGrad"
Call = tuple[str, Sequence[Sequence[int]]]
QUERY, VALUE = [8, 24, 96], [8, 24, 8]
HEAD: tuple[Call, ...] = (
    ("aten::linear", (QUERY, [8, 96], [8])),
    ("aten::linear", (QUERY, [8, 96], [8])),
    ("aten::transpose", (VALUE,)),
    ("aten::matmul", (VALUE, [8, 8, 24])),
    ("aten::softmax", ([8, 24, 24],)),
    ("aten::linear", (QUERY, [8, 96], [8])),
    ("aten::matmul", ([8, 24, 24], VALUE)),
)
EXPERT: tuple[Call, ...] = (
    ("aten::linear", ([64, 32], [128, 32], [128])),
    ("aten::relu", ([64, 128],)),
    ("aten::linear", ([64, 128], [32, 128], [32])),
    ("aten::slice", ([64, 8],)),
    ("aten::mul", ([64, 1], [64, 32])),
    ("aten::add", ([64, 32], [64, 32])),
)
TASK: tuple[Call, ...] = (
    ("aten::linear", ([64, 48], [1, 48], [1])),
    ("aten::select", ([64, 1],)),
    ("aten::mse_loss", ([64], [64])),
    ("aten::add", ([], [])),
)


def loops_of(
    calls: Sequence[Call],
    times: int = 8,
    *,
    weights: int | None = None,
    each: float = 10.0,
    more: Callable[[TinyTrace, float, int], None] | None = None,
) -> ItemLoops:
    """Of steps with so many rounds, so many gradients of own weights, operators so long, and what else a round does."""
    took = each * len(calls) + 30

    def body(trace: TinyTrace, _: int) -> None:
        for number in range(times):
            at = took * number
            for place, (name, shapes) in enumerate(calls):
                event = trace.op(at + each * place, at + each * place + each - 1, name)
                trace.shapes(event, [list(sides) for sides in shapes], ["float"] * len(shapes))
            if more is not None:
                more(trace, at + each * len(calls), number)
        for number in range(times if weights is None else weights):
            at = took * times + 20 * number
            trace.op(at, at + 9, GRADIENT + "AddmmBackward0")
            trace.op(at + 10, at + 19, OWN)

    analysis = Analysis(
        steps(4, took * times + 20 * (times if weights is None else weights) + 50, body).build()
    )
    time = cpu_time(analysis)
    assert time is not None
    return item_loops(analysis, time)


@pytest.mark.parametrize(("times", "found"), [(4, True), (3, False)])
def test_heads_that_are_computed_one_by_one_are_items_from_four_on(times: int, found: bool) -> None:
    loops = loops_of(HEAD, times).loops
    assert {each.times for each in loops} == ({times} if found else set())


def test_what_an_optimizer_does_for_each_head_is_done_once() -> None:
    """As long as two rounds; of four heads a quarter of it remains."""

    def updated(trace: TinyTrace, at: float, number: int) -> None:
        if number == 7:
            trace.region(at + 5, at + 25, "Optimizer.step#SGD.step")
            trace.op(at + 6, at + 8, "aten::dot")

    with_update, without = loops_of(HEAD, more=updated), loops_of(HEAD)
    assert without.updates_ns == 0
    assert with_update.updates_ns == pytest.approx(4 * 20_000 * 7 / 8, rel=0.1)
    assert with_update.share > without.share


@pytest.mark.parametrize(
    ("calls", "found"),
    [
        (TASK, True),
        (EXPERT[:3], False),
        ((("aten::linear", ([64, 32], [32, 32])), ("aten::tanh", ([64, 32],))), False),
        ((("aten::linear", ([64, 32], [16, 32])), ("aten::tanh", ([64, 16],))), True),
        ((("aten::linear", ([64, 32], [16, 32])), ("aten::acme", ([64, 16],))), False),
        ((("aten::mm", ([64, 32], [32, 40])), ("aten::sum", ([64, 16],))), True),
        ((("aten::mm", ([64, 32], [32, 40])), ("aten::sum", ([64, 64],))), False),
        ((("aten::addmm", ([16], [64, 32], [32, 16])), ("aten::relu", ([64, 16],))), True),
        ((("aten::addmm", ([32], [64, 32], [32, 32])), ("aten::relu", ([64, 32],))), False),
        ((("aten::bmm", ([4, 8, 6], [4, 6, 5])), ("aten::mul", ([4, 8, 1], [5]))), True),
        ((("aten::bmm", ([4, 8, 6], [4, 6, 5])), ("aten::mul", ([4, 8, 1], [6]))), False),
        ((("aten::relu", ([64, 32],)), ("aten::tanh", ([64, 32],))), False),
    ],
    ids=[
        "a task each",
        "layers that widen and narrow",
        "layers",
        "results that no layer takes",
        "of an unknown size",
        "sums are smaller",
        "sums of more",
        "with a bias",
        "layers with a bias",
        "broadcast",
        "broadcast to what the next one takes",
        "no product",
    ],
)
def test_rounds_with_weights_of_their_own_are_items_where_none_can_need_the_one_before(
    calls: Sequence[Call], found: bool
) -> None:
    assert bool(loops_of(calls).loops) is found


@pytest.mark.parametrize(("side", "found"), [(1, True), (0, False)])
def test_experts_whose_results_are_weighed_are_items(
    monkeypatch: pytest.MonkeyPatch, side: int, found: bool
) -> None:
    """By their sizes alone, each could take what the one before gave, as layers do."""
    monkeypatch.setattr(rounds_apart, "concrete_inputs", lambda *_: ("", str(side), "3", "4"))
    assert bool(loops_of(EXPERT).loops) is found


@pytest.mark.parametrize(("experts", "found"), [(9, True), (10, False)])
def test_experts_are_weighed_by_as_many_columns(
    monkeypatch: pytest.MonkeyPatch, experts: int, found: bool
) -> None:
    monkeypatch.setattr(rounds_apart, "concrete_inputs", lambda *_: ("", "-1", "3", "4"))
    calls = [(name, [[64, experts]] if name == "aten::slice" else shapes) for name, shapes in EXPERT]
    assert bool(loops_of(calls).loops) is found


@pytest.mark.parametrize(("own", "found"), [(True, True), (False, False), (None, False)])
def test_members_that_are_trained_in_turn_are_items_where_frames_name_their_modules(
    own: bool | None, found: bool
) -> None:
    """Else they may be updates of one model, each of which needs the one before."""

    def updated(trace: TinyTrace, at: float, number: int) -> None:
        begin = at - 10 * len(TASK)
        if own is not None:
            trace.frame(begin - 1, at - 5, f"nn.Module: Linear_{number if own else 0}")
        trace.op(at, at + 5, OWN)
        trace.region(at + 6, at + 25, "Optimizer.step#SGD.step")
        trace.op(at + 7, at + 9, "aten::add_")

    loops = loops_of(TASK, weights=0, more=updated).loops
    assert bool(loops) is found
    if found:
        assert loops[0].later_ns == pytest.approx(7 * 67_000, rel=0.05)


@pytest.mark.parametrize(
    ("lengths", "weights", "found"),
    [
        ((7, 5, 9), False, True),
        ((7, 5), False, False),
        (range(40), False, False),
        ((*range(9), *range(9, 0, -1)), False, False),
        ((1, 2, 3, 4, 5, 4, 3, 2, 1, 2, 3, 4, 5, 4, 3, 2), False, False),
        ((1, 2, 3, 4, 3, 2, 1, 2, 3, 4, 3, 2, 1, 2, 3, 4), False, True),
        ((7, 5, 9), True, False),
    ],
    ids=[
        "texts of any length",
        "of two lengths",
        "a state that grows",
        "smaller and larger",
        "three turns",
        "four turns",
        "weights that differ as well",
    ],
)
def test_data_of_several_sizes_for_weights_of_one_is_of_items(
    lengths: Sequence[int], weights: bool, found: bool
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for number in range(16):
            long = 4 + lengths[number % len(lengths)]
            event = trace.op(20 * number, 20 * number + 9, "aten::linear")
            trace.shapes(event, [[long, 8], [16, 8 + weights * long]], ["float"] * 2)
            trace.op(20 * number + 10, 20 * number + 19, "aten::tanh")

    analysis = Analysis(steps(4, 340, body).build())
    time = cpu_time(analysis)
    assert time is not None
    assert bool(item_loops(analysis, time).loops) is found


@pytest.mark.parametrize(("own", "computed"), [(True, True), (False, False)])
def test_weights_of_each_item_are_read_for_all(own: bool, computed: bool) -> None:
    """A row by a large matrix: reading it is all that takes long."""
    calls = (("aten::mm", ([1, 1024], [1024, 1000])), ("aten::tanh", ([1, 1000],)))
    found = loops_of(calls, 64, weights=64 if own else 1, each=200.0)
    assert found.loops
    assert (found.computes > 0.1) is computed


def layer(wide: int) -> list[Call]:
    """A layer that takes so many numbers of 34 rows each, picks queries, keys and values, and makes 48 of each row."""
    return [
        ("aten::linear", ([34, wide], [144, wide], [144])),
        ("aten::permute", ([34, 3, 48],)),
        ("aten::select", ([3, 34, 48],)),
        ("aten::select", ([3, 34, 48],)),
        ("aten::select", ([3, 34, 48],)),
        ("aten::scaled_dot_product_attention", ([1, 34, 48],) * 3),
        ("aten::linear", ([34, 48], [48, 48], [48])),
    ]


@pytest.mark.parametrize(("wide", "found"), [(48, False), (50, True)])
def test_layers_that_pick_rows_of_what_the_layer_before_made_are_none(wide: int, found: bool) -> None:
    """Attention takes its queries, keys and values out of one tensor; nothing is trained."""
    assert bool(loops_of(layer(wide), 20, weights=0).loops) is found


PICKED: list[Call] = [
    ("aten::select", ([20, 48],)),
    ("aten::select", ([20, 48],)),
    ("aten::mul", ([48], [48])),
    ("aten::linear", ([48], [48, 48])),
]


@pytest.mark.parametrize(("calls", "found"), [(layer(48), False), (PICKED, True)])
def test_nor_are_such_layers_that_are_not_all_alike(calls: Sequence[Call], found: bool) -> None:
    """Some of them have one more operator."""

    def body(trace: TinyTrace, _: int) -> None:
        at = 0.0
        for number in range(20):
            more: list[Call] = [("aten::tanh", ([34, 48],))] if number * number % 7 % 2 else []
            for name, shapes in (*calls, *more):
                event = trace.op(at, at + 9, name)
                trace.shapes(event, [list(each) for each in shapes], ["float"] * len(shapes))
                at += 10

    analysis = Analysis(steps(4, 1_700, body).build())
    time = cpu_time(analysis)
    assert time is not None
    assert bool(item_loops(analysis, time).loops) is found
