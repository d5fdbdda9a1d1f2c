"""What is done with the results of loops over items: reading, putting together, taking their gradient apart."""

from __future__ import annotations

import pytest

from rules.fixes.plan import Promise
from tests.rules.builder import TinyTrace
from tests.rules.test_item_loops import of_body


def read_one_by_one(calls_between: int, fewer: int = 0) -> Promise:
    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        for _item in range(16):
            for name in ("sort", "gather", "scan"):
                trace.kernels(at, 1, 5, 20, f"void {name}_kernel", grid=8)
                at += 20
        for place in range(calls_between):
            trace.kernels(at, 1, 5, 20, f"void {chr(97 + place)}_kernel")
            at += 20
        for _item in range(16 - fewer):
            trace.copy(at + 8, at + 9, "DtoH", at, bytes=8)
            trace.call(at + 6, at + 12, "cudaStreamSynchronize")
            at += 20

    (found,) = of_body(body, length=1600)
    return found


def test_a_loop_that_reads_the_results_of_another_goes_with_it() -> None:
    with_it = [read_one_by_one(4), read_one_by_one(0), read_one_by_one(2, fewer=1)]
    without = [read_one_by_one(5), read_one_by_one(2, fewer=2)]
    assert min(each.expected for each in with_it) > 1.2 * max(each.expected for each in without)
    assert all("copy-d2h" in {one.value for one in each.proposal.categories} for each in with_it)


def assembled(operators: int) -> Promise:
    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        for _item in range(12):
            for name in ("sort", "gather", "scan"):
                trace.kernels(at, 1, 5, 20, f"void {name}_kernel", grid=8)
                at += 20
        for place in range(operators):
            trace.op(at + place * 800 / operators, at + place * 800 / operators + 4, "aten::fill_")
        trace.kernels(at + 800, 1, 5, 20, "void next_kernel")

    (found,) = of_body(body, length=1700)
    return found


def test_python_that_calls_an_operator_for_each_item_goes_with_their_loop() -> None:
    assert assembled(12).expected > 1.5 * assembled(11).expected


def taken_apart(function: str, operators: int) -> Promise:
    """Results of twelve items are put together, one call follows, and their gradient is cut into parts."""

    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        for _item in range(12):
            for name in ("sort", "gather", "scan"):
                trace.kernels(at, 1, 5, 20, f"void {name}_kernel", grid=8)
                at += 20
        trace.kernels(at, 1, 5, 20, "void loss_kernel")
        trace.op(at + 40, at + 840, f"autograd::engine::evaluate_function: {function}")
        for place in range(operators):
            trace.op(at + 41 + place * 790 / operators, at + 44 + place * 790 / operators, "aten::slice")
        trace.kernels(at + 850, 1, 5, 20, "void next_kernel")

    return next(each for each in of_body(body, length=1750) if each.id.startswith("join-loop"))


@pytest.mark.parametrize("function", ["CatBackward0", "StackBackward0"])
def test_a_gradient_is_not_taken_apart_for_items_that_are_one(function: str) -> None:
    other = taken_apart("MulBackward0", 12).expected
    assert taken_apart(function, 12).expected > 1.5 * other
    assert taken_apart(function, 10).expected == pytest.approx(other, rel=0.05)


def sent_one_by_one(kernels: int) -> list[Promise]:
    """Each of 64 items is sent from pageable memory, and so many kernels work on it."""

    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        trace.kernels(at, 1, 5, 20, "void first_kernel")
        for _item in range(64):
            at += 25
            trace.copy(at + 6, at + 8, "HtoD", at, pageable=True, bytes=4096)
            trace.call(at + 6, at + 10, "cudaStreamSynchronize")
            if kernels:
                trace.kernels(at + 12, kernels, 3, 4, "void sort_kernel", grid=8)
        trace.kernels(at + 30, 1, 5, 20, "void last_kernel")

    return [each for each in of_body(body, length=1700) if each.id.startswith("join-loop")]


@pytest.mark.parametrize(("kernels", "found"), [(0, False), (2, True)])
def test_copies_that_are_sent_one_by_one_are_no_loop_over_items(kernels: int, found: bool) -> None:
    assert bool(sent_one_by_one(kernels)) is found
