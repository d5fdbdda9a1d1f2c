"""Loops whose rounds read values back, and loops whose rounds are not all alike."""

from __future__ import annotations

import pytest

from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body, promised

ROUNDS = 24
LAUNCH_US, READ_US = 8, 40


@pytest.mark.parametrize(
    ("values", "computing", "over_items"),
    [(4, 1, True), (4, 0, False), (1, 1, True), (1, 0, False)],
    ids=["computes once", "only reads", "computes one", "only reads one"],
)
def test_rounds_that_compute_what_they_read_are_items(values: int, computing: int, over_items: bool) -> None:
    """As where targets are assigned box by box: cells are read as numbers, and written at these places."""
    length = values * READ_US + computing * LAUNCH_US + 10

    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(2, 1, 2, 4)
        for number in range(ROUNDS):
            at = 10.0 + number * length
            for kernel in range(computing):
                launched = at + kernel * LAUNCH_US
                trace.operation(launched + 6, launched + 8, f"void elementwise_{kernel}", launched)
            at += computing * LAUNCH_US
            for value in range(values):
                read = at + value * READ_US
                trace.copy(read + 8, read + 10, "DtoH", read, bytes=8, pageable=True)
                trace.call(read + 6, read + 20, "cudaStreamSynchronize")

    found = promised(plan_of_body(body, length=20 + ROUNDS * length))
    assert ("join-loop" in found) is over_items


HOW = "std::array<char*, 2ul>"


@pytest.mark.parametrize(
    ("other", "over_items"),
    [
        (
            f"void at::native::unrolled_elementwise_kernel<Mul<float>, {HOW}, 4, Offset<1>>(int, Mul<float>)",
            True,
        ),
        (f"void at::native::vectorized_elementwise_kernel<2, Mul<float>, {HOW} >(int, Mul<float>)", True),
        (f"void at::native::vectorized_elementwise_kernel<(int)2, Mul<float>, {HOW} >(int, T2, T3)", True),
        (f"void at::native::vectorized_elementwise_kernel<4, Add<float>, {HOW} >(int, Add<float>)", False),
    ],
    ids=["one by one", "by two", "as Nsight Systems spells it", "computes something else"],
)
def test_how_an_elementwise_kernel_reads_follows_from_where_its_item_begins(
    other: str, over_items: bool
) -> None:
    usual = f"void at::native::vectorized_elementwise_kernel<4, Mul<float>, {HOW} >(int, Mul<float>)"

    def body(trace: TinyTrace, _: int) -> None:
        for number in range(ROUNDS):
            at = 10.0 + number * 30
            # in no order that comes again
            trace.operation(at + 6, at + 8, usual if number * number % 7 < 3 else other, at)
            trace.operation(at + 16, at + 18, "void reduce", at + 10)
            trace.operation(at + 26, at + 28, "void gather", at + 20)

    assert ("join-loop" in promised(plan_of_body(body, length=20 + ROUNDS * 30))) is over_items


@pytest.mark.parametrize(
    ("other", "over_items"),
    [("exp2_kernel_vectorized2_kernel", True), ("exp2_kernel_scaled_kernel", False)],
    ids=["reads otherwise", "computes something else"],
)
def test_how_a_kernel_compiled_at_run_time_reads_follows_from_its_item(other: str, over_items: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for number in range(ROUNDS):
            at = 10.0 + number * 30
            name = "exp2_kernel_kernel" if number * number % 7 < 3 else other
            trace.operation(at + 6, at + 8, name, at)
            trace.operation(at + 16, at + 18, "void reduce", at + 10)
            trace.operation(at + 26, at + 28, "void gather", at + 20)

    assert ("join-loop" in promised(plan_of_body(body, length=20 + ROUNDS * 30))) is over_items


@pytest.mark.parametrize(("call", "over_items"), [("cudaMalloc", True), ("cudaStreamSynchronize", False)])
def test_what_some_rounds_allocate_makes_them_no_others(call: str, over_items: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for number in range(ROUNDS):
            at = 10.0 + number * 40
            trace.operation(at + 6, at + 8, "void scale", at)
            if number * number % 7 < 3:
                trace.call(at + 10, at + 14, call)
            trace.operation(at + 26, at + 28, "void reduce", at + 20)

    assert ("join-loop" in promised(plan_of_body(body, length=20 + ROUNDS * 40))) is over_items


@pytest.mark.parametrize(
    ("waits", "other", "over_items"),
    [
        (True, "void at::native::vectorized_elementwise_kernel<4, Add<float> >(int, Add<float>)", True),
        (False, "void at::native::vectorized_elementwise_kernel<4, Add<float> >(int, Add<float>)", False),
        (True, "void at::native::reduce_kernel<512, Sum<float> >(Sum<float>)", False),
    ],
    ids=["by a value", "by none", "another kind of work"],
)
def test_rounds_that_a_value_sends_one_way_or_the_other_are_the_same(
    waits: bool, other: str, over_items: bool
) -> None:
    """As where a penalty is applied token by token: what is negative is multiplied, and what is not is divided."""
    usual = "void at::native::vectorized_elementwise_kernel<4, Mul<float> >(int, Mul<float>)"

    def body(trace: TinyTrace, _: int) -> None:
        for number in range(ROUNDS):
            at = 10.0 + number * 60
            trace.operation(at + 6, at + 8, "void compare", at)
            if waits:
                trace.copy(at + 16, at + 18, "DtoH", at + 10, bytes=1, pageable=True)
                trace.call(at + 16, at + 28, "cudaStreamSynchronize")
            trace.operation(at + 46, at + 48, usual if number * number % 7 < 3 else other, at + 40)

    assert ("join-loop" in promised(plan_of_body(body, length=20 + ROUNDS * 60))) is over_items


@pytest.mark.parametrize(
    ("alike", "layer", "over_items"),
    [(8, "void elementwise_0", True), (7, "void elementwise_0", False), (8, "void batch_norm_0", False)],
    ids=["four fifths", "less", "layers"],
)
def test_rounds_of_which_some_do_a_little_more_are_items(alike: int, layer: str, over_items: bool) -> None:
    """As where some pictures are flipped, and others turned, one by one."""
    length = 12 * LAUNCH_US

    def body(trace: TinyTrace, _: int) -> None:
        for number in range(ROUNDS):
            names = [layer, *(f"void elementwise<Step{chr(65 + each)}>" for each in range(alike - 1))]
            # in no order that comes again
            names += ["void flip", "void turn"] if number * number % 7 < 3 else []
            for place, name in enumerate(names):
                at = 10.0 + number * length + place * LAUNCH_US
                trace.operation(at + 6, at + 7, name, at)

    assert ("join-loop" in promised(plan_of_body(body, length=20 + ROUNDS * length))) is over_items


MANY = tuple(number for number in range(ROUNDS) if number * number % 7 < 3)  # in no order that comes again


@pytest.mark.parametrize(
    ("usual", "more", "waits", "others", "over_items"),
    [
        (3, 1, False, MANY, True),
        (2, 1, False, MANY, False),
        (3, 2, False, MANY, False),
        (3, 0, True, MANY, False),
        (3, 1, False, (3, 7, 12, 16, 21), True),
        (3, 1, False, (4, 10, 15, 20), False),
    ],
    ids=["one more than three", "one more than two", "two more", "a wait", "a fifth", "a sixth"],
)
def test_short_rounds_may_do_one_thing_more(
    usual: int, more: int, waits: bool, others: tuple[int, ...], over_items: bool
) -> None:
    """As where each picture is cut out, made brighter and clamped, and some are flipped before."""

    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        for number in range(ROUNDS):
            names = [f"void elementwise<Step{chr(65 + each)}>" for each in range(usual)]
            names[-1:-1] = ["void flip", "void turn"][: more if number in others else 0]
            for name in names:
                trace.operation(at + 6, at + 7, name, at)
                at += LAUNCH_US
            if waits and number in others:
                trace.call(at, at + LAUNCH_US - 1, "cudaStreamSynchronize")
                at += LAUNCH_US

    assert ("join-loop" in promised(plan_of_body(body, length=20 + ROUNDS * 5 * LAUNCH_US))) is over_items


@pytest.mark.parametrize(
    ("name", "over_items"), [("triton_poi_fused_roll_{}", False), ("void scaled_{}", True)]
)
def test_kernels_that_a_compiler_numbers_differ(name: str, over_items: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for number in range(ROUNDS):
            at = 10.0 + number * 30
            trace.operation(at + 6, at + 8, name.format(number), at)

    assert ("join-loop" in promised(plan_of_body(body, length=20 + ROUNDS * 30))) is over_items
