"""Loops over items: which rounds can be done together, and what is left of them then."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from parsers.model import Attribute
from rules.analysis.names.families import Family, classify
from rules.fixes.plan import Plan, Promise
from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body

PRODUCT = "sm90_gemm_32x128_tn"


def joins(plan: Plan) -> list[Promise]:
    assert plan.reason == ""
    assert plan.crashed == ()
    return [each for each in plan.promises if each.proposal.fix == "join-loop"]


def of_body(body: Callable[[TinyTrace, int], None], length: float = 2000) -> list[Promise]:
    return joins(plan_of_body(body, length=length))


@pytest.mark.parametrize(
    ("stacked", "found"),
    [
        ([(64, 320, 32), (64, 32, 128), (64, 128, 32)], True),
        ([(64, 32, 128), (64, 128, 32)], False),
        ([(64, 320, 32)], False),
        ([(9, 320, 32), (9, 32, 128), (9, 128, 32)], False),
        ([(64, 320, 32), (64, 32 * 128 + 128 * 32)], True),
    ],
    ids=["experts", "layers in a stack", "steps of a recurrence", "too few in the stack", "written weights"],
)
def test_rounds_that_take_their_input_and_weights_out_of_stacks_are_items(
    stacked: list[tuple[int, ...]], found: bool
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        for _item in range(10):
            for stack in stacked:
                chosen = trace.op(at, at + 2, "aten::select")
                trace.shapes(chosen, [list(stack), [], []], ["float", "Scalar", "Scalar"])
                at += 4
            for come, go, then in ((32, 128, "gelu"), (128, 32, "scale")):
                product = trace.op(at, at + 20, "aten::mm")
                trace.shapes(product, [[320, come], [come, go]], ["float", "float"])
                trace.kernels(at + 2, 1, 5, 30, PRODUCT)
                trace.kernels(at + 22, 1, 5, 30, f"void {then}_kernel")
                at += 50
        trace.kernels(at, 1, 5, 10, "void last_kernel")

    assert bool(of_body(body)) is found


def rounds_with_pauses(pauses: list[float], *, sends: bool = True) -> list[Promise]:
    """What is promised of rounds that send their input, multiply and read back, each after such a pause."""

    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        for pause in pauses:
            at += pause
            if sends:
                trace.copy(at + 6, at + 7, "HtoD", at, bytes=64)
            trace.kernels(at + 10, 1, 5, 10, PRODUCT)
            trace.kernels(at + 20, 1, 5, 10, "void sample_kernel")
            trace.kernels(at + 30, 1, 5, 10, "void other_kernel")
            trace.copy(at + 44, at + 45, "DtoH", at + 38, bytes=8)
            trace.call(at + 44, at + 47, "cudaStreamSynchronize")
            at += 50
        trace.kernels(at, 1, 5, 10, "void last_kernel")

    return of_body(body, length=40 + sum(pauses) + 50 * len(pauses))


@pytest.mark.parametrize(
    ("size", "groups", "long", "found"),
    [
        (4, 4, 60.0, True),
        (3, 4, 60.0, False),
        (4, 3, 60.0, True),
        (6, 2, 60.0, False),
        (4, 4, 15.0, False),
        (1, 16, 60.0, False),
    ],
    ids=["groups of four", "of three", "three groups", "two", "short pauses", "all alike"],
)
def test_rounds_between_two_pauses_of_the_cpu_are_items_of_one_group(
    size: int, groups: int, long: float, found: bool
) -> None:
    assert bool(rounds_with_pauses(([long] + [10.0] * (size - 1)) * groups)) is found


def test_groups_are_known_by_nearly_all_of_their_pauses() -> None:
    regular = ([60.0] + [10.0] * 4) * 6
    some_short = [10.0 if place in (5, 20) else each for place, each in enumerate(regular)]
    some_long = [60.0 if place in (2, 8, 14) else each for place, each in enumerate(regular)]
    once_short = [10.0 if place == 10 else each for place, each in enumerate(regular)]
    once_long = [60.0 if place == 8 else each for place, each in enumerate(regular)]
    assert [bool(rounds_with_pauses(each)) for each in (once_short, once_long)] == [True, True]
    assert [bool(rounds_with_pauses(each)) for each in (some_short, some_long)] == [False, False]


def test_a_group_takes_a_round_for_all_its_items() -> None:
    (few,) = rounds_with_pauses(([60.0] + [10.0] * 3) * 5)
    (many,) = rounds_with_pauses(([60.0] + [10.0] * 9) * 5)
    assert many.expected > 1.3 * few.expected
    assert many.proposal.title.startswith("Process 10 items at once")


def test_rounds_whose_input_is_on_the_gpu_already_may_need_the_one_before() -> None:
    assert not rounds_with_pauses(([60.0] + [10.0] * 3) * 4, sends=False)


def lists(
    lengths: tuple[int, ...], between: tuple[str, ...] = ("void stack_kernel",), *, pause: float = 20.0
) -> Promise:
    """What is promised of loops that make the same calls, one after another, with these kernels between them."""

    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        for times in lengths:
            for _item in range(times):
                for name in ("sort", "gather", "scan"):
                    trace.kernels(at, 1, 2, 20, f"void {name}_kernel", grid=8)
                    at += 20
            for name in between:
                at += pause
                trace.kernels(at, 1, 5, 20, name)
                at += 20

    length = 60 + 60 * sum(lengths) + (20 + pause) * len(between) * len(lengths)
    (found,) = of_body(body, length=length)
    return found


def test_loops_with_hardly_anything_between_them_are_a_loop_themselves() -> None:
    little = lists((12, 12, 12, 12))
    layers = lists((12, 12, 12, 12), ("void layer_norm_kernel",))
    products = lists((12, 12, 12, 12), (PRODUCT,))
    assert little.high > 2 * max(layers.high, products.high)
    assert little.low < 0.5 * little.expected
    assert min(layers.low / layers.expected, products.low / products.expected) > 0.7


@pytest.mark.parametrize(("kernels", "alike"), [(14, True), (16, False)])
def test_much_between_loops_is_no_part_of_a_loop_over_them(kernels: int, alike: bool) -> None:
    between = tuple(f"void {chr(97 + place)}_kernel" for place in range(kernels))
    found = lists((12, 12, 12, 12), between, pause=0.0)
    assert (found.expected > 5) is alike


@pytest.mark.parametrize(("pause", "alike"), [(160.0, True), (400.0, False)])
def test_work_of_the_cpu_between_loops_is_no_part_of_a_loop_over_them(pause: float, alike: bool) -> None:
    found = lists((12, 12, 12, 12), pause=pause)
    assert (found.low < 0.6 * found.expected) is alike


def test_the_longest_of_such_loops_remains_at_least() -> None:
    assert lists((36, 9, 9, 9)).low < 0.8 * lists((16, 16, 16, 15)).low


def test_what_loops_read_back_to_send_it_again_may_stay_on_the_gpu() -> None:
    def most(direction: str) -> Promise:
        def body(trace: TinyTrace, _: int) -> None:
            at = 10.0
            for _layer in range(4):
                trace.kernels(at, 1, 5, 20, PRODUCT)
                at += 20
                for _item in range(10):
                    for name in ("sort", "gather", "scan"):
                        trace.kernels(at, 1, 5, 20, f"void {name}_kernel", grid=8)
                        at += 20
                    trace.copy(at + 8, at + 9, "DtoH", at, bytes=8)
                    trace.call(at + 6, at + 16, "cudaStreamSynchronize")
                    at += 20
                trace.kernels(at, 1, 5, 20, "void next_kernel")
                trace.copy(at + 30, at + 290, direction, at + 24, bytes=80)
                trace.call(at + 30, at + 300, "cudaStreamSynchronize")
                at += 310

        (found,) = of_body(body, length=4800)
        return found

    sent, read = most("HtoD"), most("DtoH")
    assert sent.high / sent.expected > 1.2 * read.high / read.expected


@pytest.mark.parametrize(
    ("kernel", "family"),
    [
        ("reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::WelfordOps<float, 4>>>", "REDUCTION"),
        ("at::native::batch_norm_collect_statistics_channels_last_kernel<Welford>", "NORMALISATION"),
        ("RowwiseMomentsCUDAKernel", "NORMALISATION"),
    ],
)
def test_a_standard_deviation_is_no_layer_that_normalises(kernel: str, family: str) -> None:
    assert classify(f"void at::native::{kernel}").family is Family[family]


@pytest.mark.parametrize(
    ("lengths", "joined"), [((24, 22), True), ((24, 21), False), ((12, 11), True), ((12, 10), False)]
)
def test_a_backward_pass_may_have_two_rounds_less_where_there_are_many(
    lengths: tuple[int, int], joined: bool
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        for times, names in zip(lengths, (("sort", "gather", "scan"), ("pad", "sum", "roll")), strict=True):
            for _item in range(times):
                for name in names:
                    trace.kernels(at, 1, 5, 20, f"void {name}_kernel", grid=8)
                    at += 20
            trace.kernels(at, 1, 5, 20, "void stack_kernel")
            at += 20

    found = of_body(body, length=100 + 60 * sum(lengths))
    assert len(found) == (1 if joined else 2)
    if joined:
        assert f"a loop of {lengths[0]} iterations makes" in found[0].proposal.title


@pytest.mark.parametrize(
    ("sent", "read", "stays"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_what_each_round_sends_and_reads_back_may_stay_on_the_gpu(
    sent: bool, read: bool, stays: bool
) -> None:
    """A round ends with a wait, and a longer kernel runs before the loop: the CPU waits for it in the first round."""

    def body(trace: TinyTrace, _: int) -> None:
        trace.operation(16, 616, "void layer_kernel", 10)
        at = 40.0
        for number in range(12):
            begin = max(at, 600.0) if number else at
            if sent:
                trace.copy(max(begin + 6, 617), max(begin + 7, 618), "HtoD", begin, bytes=64)
            for place, name in enumerate(("sort", "gather", "scan")):
                start = max(begin + 26 + 20 * place, 620 + 6 * place)
                trace.operation(start, start + 5, f"void {name}_kernel", begin + 20 + 20 * place, grid=8)
            end = max(begin + 90, 640)
            trace.copy(end, end + 1, "DtoH" if read else "DtoD", begin + 80, bytes=8)
            trace.call(begin + 86, end + 2, "cudaStreamSynchronize")
            at = end + 10
        for place in range(30):
            trace.kernels(at, 1, 5, 10, f"void {chr(97 + place % 26)}{place // 26}_kernel")
            at += 10

    made = plan_of_body(body, length=2400)
    (found,) = joins(made)
    assert found.proposal.high is not None
    assert (made.replay.gain([found.proposal.high]) > 1.2 * found.expected) is stays


def handing_on(sends: int, reads: int, *, first_sends: int | None = None) -> Promise:
    """What is promised of rounds that send so many bytes, choose, and read so many back."""

    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        for number in range(16):
            size = sends if number else first_sends or sends
            trace.copy(at + 6, at + 7, "HtoD", at, bytes=size)
            for name in ("distance", "minimum", "choose"):
                at += 20
                trace.kernels(at, 1, 5, 20, f"void {name}_kernel", grid=8)
            at += 20
            trace.copy(at + 6, at + 7, "DtoH", at, bytes=reads)
            trace.call(at + 6, at + 9, "cudaStreamSynchronize")
            at += 20
        trace.kernels(at, 1, 5, 10, "void last_kernel")

    (found,) = of_body(body, length=60 + 16 * 100)
    return found


@pytest.mark.parametrize(
    ("sends", "reads", "carried"),
    [(64, 64, True), (16, 16, True), (8, 8, False), (64, 128, False), (128, 64, False)],
    ids=["as many values", "two of them", "one value", "fewer", "more"],
)
def test_rounds_that_send_what_the_one_before_read_back_may_need_it(
    sends: int, reads: int, carried: bool
) -> None:
    promise = handing_on(sends, reads)
    assert promise.expected > 3
    assert (promise.low < 0.5 * promise.expected) is carried


def test_what_the_first_round_sends_was_read_by_none() -> None:
    assert handing_on(64, 64, first_sends=4096).low == pytest.approx(handing_on(64, 64).low, rel=0.05)


ROWS = "void vectorized_gather_kernel<16, long>"
FARTHEST = "void reduce_kernel<512, 1, ReduceOp<float, ArgMaxOps<float>>>"


@pytest.mark.parametrize(
    ("kernels", "found"),
    [
        ((ROWS, "void distance_kernel", "void minimum_kernel", FARTHEST), False),
        (("void distance_kernel", "void minimum_kernel", FARTHEST, ROWS), True),
        ((ROWS, "void distance_kernel", "void minimum_kernel", "void sum_kernel"), True),
        (("void copy_kernel", "void distance_kernel", "void minimum_kernel", FARTHEST), True),
    ],
    ids=["what was found last", "picked in its own round", "nothing is found", "nothing is picked"],
)
def test_rounds_that_pick_what_the_one_before_found_are_no_items(
    kernels: tuple[str, ...], found: bool
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for round_ in range(12):
            for place, name in enumerate(kernels):
                trace.kernels(10 + round_ * 120 + place * 30, 1, 5, 30, name)
        trace.kernels(1500, 1, 5, 30, "void last_kernel")

    assert bool(of_body(body)) is found


FILL = "void vectorized_elementwise_kernel<4, FillFunctor<float>>"


@pytest.mark.parametrize(
    ("clouds", "anew", "found"),
    [(8, FILL, True), (7, FILL, False), (8, "void copy_kernel", False)],
    ids=["cloud by cloud", "a few", "the state goes on"],
)
def test_loops_that_hand_a_state_on_are_items_where_each_begins_anew(
    clouds: int, anew: str, found: bool
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        for _cloud in range(clouds):
            for name in (anew, *((ROWS, "void minimum_kernel", FARTHEST) * 54)):
                trace.kernels(at, 1, 5, 20, name)
                at += 20
        trace.kernels(at, 1, 5, 20, "void last_kernel")

    assert bool(of_body(body, length=100 + clouds * 163 * 20)) is found


FUNCTION = "autograd::engine::evaluate_function: MulBackward0"


def rounds_and_their_backward(*, numbered: bool, of_items: bool = True) -> float:
    """What joining twelve items gives whose backward passes differ from one another."""

    def body(trace: TinyTrace, step: int) -> None:
        at, number = 10.0, 100 * step
        numbers = []
        for _item in range(12):
            number += 1
            operator = trace.op(at, at + 50, "aten::mul")
            if numbered:
                trace.builder.attribute(Attribute.SEQUENCE, np.array([operator]), number if of_items else 99)
            numbers.append(number)
            for name in ("multiply", "add"):
                trace.kernels(at + 2, 1, 5, 30, f"void {name}_kernel")
                at += 25
        for number in reversed(numbers):
            function = trace.op(at, at + 90, FUNCTION)
            if numbered:
                trace.builder.attribute(Attribute.SEQUENCE, np.array([function]), number)
            for place in range(3):
                trace.kernels(at + 2 + 30 * place, 1, 5, 30, f"void backward{chr(97 + number % 100)}_kernel")
            at += 90
        trace.kernels(at, 1, 5, 10, "void last_kernel")

    (found,) = of_body(body, length=1750)
    return found.expected


def test_the_backward_passes_of_joined_rounds_are_joined_however_they_differ() -> None:
    assert rounds_and_their_backward(numbered=True) > 2 * rounds_and_their_backward(numbered=False)


def test_the_backward_pass_of_something_else_stays() -> None:
    of_others = rounds_and_their_backward(numbered=True, of_items=False)
    assert of_others == pytest.approx(rounds_and_their_backward(numbered=False))


def test_looking_for_the_rows_of_each_item_by_a_mask_goes_with_the_loop() -> None:
    """Each of ten rounds reads a mask back, and its backward pass fills and adds what all rows are."""

    def gain(counted: str, gradient: str) -> float:
        def body(trace: TinyTrace, _: int) -> None:
            at = 10.0
            for _item in range(10):
                trace.kernels(at, 1, 10, 20, "void equal_kernel")
                trace.op(at + 20, at + 90, counted)
                trace.kernels(at + 22, 1, 40, 60, "void count_kernel")
                trace.copy(at + 69, at + 70, "DtoH", at + 30, bytes=8)
                trace.call(at + 36, at + 72, "cudaStreamSynchronize")
                trace.kernels(at + 90, 4, 10, 20, "void other_kernel")
                at += 180
            for _item in range(10):
                trace.op(at, at + 130, f"autograd::engine::evaluate_function: {gradient}")
                trace.kernels(at + 2, 1, 40, 60, "void fill_kernel")
                trace.op(at + 60, at + 80, counted)
                trace.kernels(at + 62, 1, 10, 60, "void count_kernel")
                trace.kernels(at + 90, 1, 40, 60, "void add_kernel")
                at += 180
            trace.kernels(at, 1, 5, 10, "void last_kernel")

        return of_body(body, length=3700)[0].expected

    masks = gain("aten::nonzero", "IndexBackward0")
    assert masks > 1.2 * gain("aten::nonzero", "TanhBackward0") > 1.4 * gain("aten::sum", "IndexBackward0")
