"""Loops over items on the CPU: what all but the first round take, what remains of it, and which are recurrences."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from parsers.model import Trace
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.analysis.cpu.cpu_time import cpu_time
from rules.losses import cpu_loops
from rules.losses.cpu_loops import ItemLoops, item_loops
from tests.rules.builder import TinyTrace, steps

ROUNDS = 32
GRADIENT = "autograd::engine::evaluate_function: "


def loops_of(took: float, body: Callable[[TinyTrace, int], None]) -> ItemLoops:
    analysis = Analysis(steps(5, took, body).build())
    time = cpu_time(analysis)
    assert time is not None
    return item_loops(analysis, time)


def rounds(took: float, one: Callable[[TinyTrace, float, int], None]) -> ItemLoops:
    def body(trace: TinyTrace, _: int) -> None:
        for number in range(ROUNDS):
            one(trace, took * number, number)

    return loops_of(took * ROUNDS, body)


def test_only_so_many_operators_are_looked_into_for_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    def one(trace: TinyTrace, at: float, _: int) -> None:
        trace.op(at, at + 8, "aten::select")
        trace.op(at + 10, at + 18, "aten::linear")

    whole = rounds(20, one)
    monkeypatch.setattr(cpu_loops, "MAX_LOOKED_INTO", 150)
    part = rounds(20, one)
    assert (whole.steps, whole.operators) == (5, 320)
    assert (part.steps, part.operators) == (2, 128)
    assert part.share == pytest.approx(whole.share, rel=0.01)


@pytest.mark.parametrize(("each", "looked"), [(20_000, 3), (20_001, 2)])
def test_sixty_thousand_operators_are_looked_into(each: int, looked: int) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for number in range(each):
            trace.op(number, number + 0.5, f"aten::some_{number % 500}")

    analysis = Analysis(steps(3, float(each), body).build())
    time = cpu_time(analysis)
    assert time is not None
    assert len(cpu_loops.looked_into(analysis, time).steps) == looked


@pytest.mark.parametrize(("others", "is_loop"), [(6, True), (5, False)])
def test_rounds_of_which_more_than_a_quarter_reads_values_only_look_at_them(
    others: int, is_loop: bool
) -> None:
    """As where a confusion matrix is counted: two values are read for each cell that is written."""

    def one(trace: TinyTrace, at: float, _: int) -> None:
        names = ["aten::item"] * 2 + ["aten::select", "aten::add_", *["aten::copy_"] * others][:others]
        for place, name in enumerate(names):
            trace.op(at + 5 * place, at + 5 * place + 4, name)

    assert bool(rounds(50, one).loops) is is_loop


@pytest.mark.parametrize(("took", "computed"), [(10, 0.0), (400, 0.91)])
def test_what_the_items_of_a_loop_compute_stays_and_calling_them_does_not(
    took: float, computed: float
) -> None:
    """A view takes 4 us, so does calling an operator, and 2 us calling one inside of it."""

    def one(trace: TinyTrace, at: float, _: int) -> None:
        trace.op(at, at + 4, "aten::select")
        trace.op(at + 8, at + 12, "aten::select")
        trace.op(at + 16, at + 16 + took, "aten::mul")
        for inner in range(4):
            trace.op(at + 17 + 2 * inner, at + 18 + 2 * inner, "aten::empty")

    found = rounds(took + 20, one)
    assert found.share == pytest.approx(31 / 32, rel=0.02)
    assert found.computes == pytest.approx(computed * found.share, abs=0.02)


@pytest.mark.parametrize(("took", "computed"), [(10, 0.0), (14, 4 / 24)])
def test_an_operator_without_shapes_computes_what_it_takes_beyond_ten_microseconds(
    took: float, computed: float
) -> None:
    def one(trace: TinyTrace, at: float, _: int) -> None:
        trace.op(at, at + 4, "aten::select")
        trace.op(at + 10, at + 10 + took, "aten::mul")

    assert rounds(took + 10, one).computes == pytest.approx(computed * 31 / 32, abs=0.01)


@pytest.mark.parametrize(("side", "computed"), [(1, 0.0), (64, 0.125), (181, 1.0)])
def test_small_tensors_compute_the_less_the_smaller_they_are(side: int, computed: float) -> None:
    """128 KiB are 181 x 181 numbers of four bytes, and 64 x 64 an eighth of it; a quarter of the calls take 2 us."""

    def one(trace: TinyTrace, at: float, _: int) -> None:
        trace.op(at, at + 2, "aten::select")
        trace.shapes(trace.op(at + 2, at + 22, "aten::exp"), [[side, side]], ["float"])
        trace.op(at + 22, at + 24, "aten::select")

    assert rounds(24, one).computes == pytest.approx(computed * 18 / 24 * 31 / 32, abs=0.01)


@pytest.mark.parametrize(("operations", "computed"), [(20_000_000, 0.4), (200_000, 0.004)])
def test_a_product_of_one_row_takes_no_longer_at_once_than_a_fast_core_needs_for_it(
    operations: int, computed: float
) -> None:
    """At 100 GFLOP/s, as its weights are read once."""

    def one(trace: TinyTrace, at: float, _: int) -> None:
        trace.op(at, at + 4, "aten::select")
        shape = [[1, operations // 2 // 1_000], [operations // 2 // 1_000, 1_000]]
        trace.shapes(trace.op(at + 4, at + 500, "aten::mm"), shape, ["float", "float"])

    found = rounds(500, one)
    assert found.computes == pytest.approx(computed * found.share, abs=0.05)


@pytest.mark.parametrize(("shape", "computed"), [((12, 200, 1_000), 0.5), ((108, 111, 200), 0.9)])
def test_a_product_of_many_rows_is_hardly_quicker_at_once(shape: tuple[int, ...], computed: float) -> None:
    """Twelve rows are multiplied half as quickly as can be; 4.8 million operations take a slow core 192 us."""
    rows, inner, columns = shape

    def one(trace: TinyTrace, at: float, _: int) -> None:
        trace.op(at, at + 4, "aten::select")
        event = trace.op(at + 4, at + 254, "aten::mm")
        trace.shapes(event, [[rows, inner], [inner, columns]], ["float", "float"])

    assert rounds(254, one).computes == pytest.approx(computed * 192 / 254 * 31 / 32, abs=0.01)


@pytest.mark.parametrize(("name", "computed"), [("SelectBackward0", 0.0), ("ExpBackward0", 0.86)])
def test_gradients_of_single_rows_and_their_sums_are_written_once(name: str, computed: float) -> None:
    """Autograd fills a tensor as large as all rows for each of them, and adds it to the others."""

    def one(trace: TinyTrace, at: float, _: int) -> None:
        trace.op(at, at + 4, "aten::select")
        trace.op(at + 4, at + 8, "aten::linear")
        trace.op(at + 8, at + 98, GRADIENT + name)
        trace.op(at + 9, at + 10, name)
        within = "aten::select_backward" if name == "SelectBackward0" else "aten::some_backward"
        trace.op(at + 10, at + 97, within)

    found = rounds(98, one)
    assert found.computes == pytest.approx(computed * 31 / 32 * 77 / 98 / 0.86, abs=0.05)


@pytest.mark.parametrize(("inner", "stays"), [("aten::nonzero", False), ("aten::take", True)])
def test_looking_for_the_rows_of_an_item_among_all_is_nothing_that_stays(inner: str, stays: bool) -> None:
    def one(trace: TinyTrace, at: float, _: int) -> None:
        trace.op(at, at + 10, "aten::eq")
        trace.op(at + 10, at + 110, "aten::index")
        trace.op(at + 15, at + 105, inner)
        trace.op(at + 110, at + 120, "aten::mean")

    assert (rounds(120, one).computes > 0.6) is stays
    assert stays or rounds(120, one).computes < 0.01


@pytest.mark.parametrize(("name", "computed"), [("IndexBackward0", 0.0), ("GatherBackward0", 0.77)])
def test_gradients_of_rows_that_were_picked_are_written_once(name: str, computed: float) -> None:
    def one(trace: TinyTrace, at: float, _: int) -> None:
        trace.op(at, at + 5, "aten::eq")
        trace.op(at + 5, at + 10, "aten::index")
        trace.op(at + 10, at + 100, GRADIENT + name)
        trace.op(at + 11, at + 99, name)
        trace.op(at + 12, at + 98, "aten::fill_")

    assert rounds(100, one).computes == pytest.approx(computed * 31 / 32, abs=0.02)


@pytest.mark.parametrize(("name", "found"), [("aten::unbind", True), ("aten::mul", False)])
def test_rounds_over_the_parts_of_a_tensor_are_items(name: str, found: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.op(0, 8, name)
        for number in range(ROUNDS):
            trace.op(20 + 20 * number, 28 + 20 * number, "aten::conv2d")
            trace.op(30 + 20 * number, 38 + 20 * number, "aten::abs")

    assert bool(loops_of(680, body).loops) is found


@pytest.mark.parametrize(("long", "found"), [(33, True), (34, False), (64, False)])
def test_rounds_that_slice_a_tensor_as_long_as_there_are_rounds_are_items(long: int, found: bool) -> None:
    def one(trace: TinyTrace, at: float, _: int) -> None:
        trace.shapes(trace.op(at, at + 8, "aten::slice"), [[long, 8]], ["float"])
        trace.op(at + 10, at + 18, "aten::conv2d")

    assert bool(rounds(20, one).loops) is found


@pytest.mark.parametrize(("cells", "found"), [(2, True), (1, False)])
def test_a_cell_that_each_round_calls_once_is_a_step_through_time(cells: int, found: bool) -> None:
    """Calling the same one twice, each round goes through a sequence of its own."""

    def one(trace: TinyTrace, at: float, _: int) -> None:
        trace.op(at, at + 8, "aten::select")
        for cell in range(cells):
            trace.op(at + 10 + 10 * cell, at + 18 + 10 * cell, "aten::gru_cell")
        trace.op(at + 30, at + 38, "aten::linear")

    assert bool(rounds(40, one).loops) is found


@pytest.mark.parametrize(("side", "joined", "found"), [(0, False, True), (1, True, True), (1, False, False)])
def test_rounds_along_an_inner_side_whose_results_go_nowhere_are_steps_through_time(
    monkeypatch: pytest.MonkeyPatch, side: int, joined: bool, found: bool
) -> None:
    def asked(trace: Trace, event: int) -> tuple[str, ...]:
        return ("", str(side), "3")

    def body(trace: TinyTrace, _: int) -> None:
        for number in range(ROUNDS):
            trace.op(20 * number, 20 * number + 8, "aten::select")
            trace.op(20 * number + 10, 20 * number + 18, "aten::linear")
        if joined:
            trace.op(640, 650, "aten::stack")

    monkeypatch.setattr(cpu_loops, "concrete_inputs", asked)
    assert bool(loops_of(660, body).loops) is found


@pytest.mark.parametrize(("less", "found"), [(4, False), (3, True)])
def test_a_backward_pass_that_ends_with_less_is_of_steps_through_time(less: int, found: bool) -> None:
    """What the first round began with needs no gradient: that is a product and the views of its inputs."""

    def body(trace: TinyTrace, _: int) -> None:
        for number in range(ROUNDS):
            trace.op(20 * number, 20 * number + 8, "aten::select")
            trace.op(20 * number + 10, 20 * number + 18, "aten::linear")
        for number in range(ROUNDS):
            at = 640 + 40 * number
            trace.op(at, at + 30, GRADIENT + "AddmmBackward0")
            for inner in range(6 - less * (number == ROUNDS - 1)):
                trace.op(at + 1 + 2 * inner, at + 2 + 2 * inner, "aten::t")
            trace.op(at + 32, at + 38, GRADIENT + "TBackward0")

    assert bool(loops_of(1_920, body).loops) is found


@pytest.mark.parametrize(("seen", "share"), [(16, 0.97), (15, 0.35)])
def test_rounds_of_a_backward_pass_that_others_interrupt_count_where_half_are_alike(
    seen: int, share: float
) -> None:
    """Sums of gradients come between the later ones: these take as long as the rounds that are seen."""

    def body(trace: TinyTrace, _: int) -> None:
        for number in range(ROUNDS):
            trace.op(20 * number, 20 * number + 8, "aten::select")
            trace.op(20 * number + 10, 20 * number + 18, "aten::linear")
        for number in range(ROUNDS):
            at = 640 + 40 * number
            trace.op(at, at + 30, GRADIENT + "AddmmBackward0")
            trace.op(at + 32, at + 38, GRADIENT + "TBackward0")
            if number >= seen - 1:
                for each in range((number - seen) % 3):
                    trace.op(at + 38 + each / 2, at + 38.4 + each / 2, "torch::autograd::AccumulateGrad")

    assert loops_of(1_920, body).share == pytest.approx(share, abs=0.04)


@pytest.mark.parametrize(("rows", "stays"), [(32, False), (31, True)])
def test_what_a_loop_appends_to_is_written_once(rows: int, stays: bool) -> None:
    def one(trace: TinyTrace, at: float, _: int) -> None:
        trace.op(at, at + 2, "aten::select")
        trace.shapes(trace.op(at + 2, at + 102, "aten::cat"), [[[rows, 4096], [8, 4096]], []], ["float", ""])  # type: ignore[list-item]
        trace.op(at + 102, at + 104, "aten::select")

    assert (rounds(104, one).computes > 0.5) is stays


@pytest.mark.parametrize("interruptions", [0, 4])
def test_rounds_take_no_longer_than_they_were_seen_to_because_short_things_were_interrupted(
    interruptions: int,
) -> None:
    """Four interruptions make short things take 3.5 times as long, all together."""

    def body(trace: TinyTrace, index: int) -> None:
        for number in range(16 if not index else 0):
            trace.op(3_010 * number, 3_010 * number + 8, "aten::select")
            trace.op(3_010 * number + 10, 3_010 * number + 3_000, "aten::linear")
        at = 49_000.0
        for number in range(40):
            took = 1_008 if index == 2 and number < interruptions else 8
            trace.op(at, at + took, "aten::sigmoid" if number % 2 else "aten::tanh")
            at += took + 2

    assert loops_of(60_000, body).share == pytest.approx(0.15 if not interruptions else 0.28, rel=0.05)


@pytest.mark.parametrize(("looping", "amount"), [(2, "of the time, in 2 of 5 steps"), (3, "of every step")])
def test_a_loop_of_a_few_steps_is_told_as_theirs(looping: int, amount: str) -> None:
    def body(trace: TinyTrace, index: int) -> None:
        for number in range(32 if index >= 5 - looping else 0):
            trace.op(1_000 * number, 1_000 * number + 400, "aten::select")
            trace.op(1_000 * number + 410, 1_000 * number + 990, "aten::linear")
        trace.op(33_000, 39_000, "aten::mm")

    (found,) = [
        each for each in diagnose(steps(5, 40_000, body).build()).findings if each.rule == "cpu-item-loop"
    ]
    assert found.title.endswith(amount)
    assert (" at best on average." in found.explanation) is (looping == 2)
