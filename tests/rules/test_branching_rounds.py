"""Loops whose rounds skip what follows where their item has no rows, as those over the classes of boxes do."""

from __future__ import annotations

import pytest

from rules.fixes.loops.branching import MAX_HEAD
from rules.replay.loops import MIN_TIMES
from tests.rules.builder import TinyTrace
from tests.rules.test_item_loops import of_body


def gains(
    full: list[bool], *, head: int = 6, rest: int = 20, counts: bool = True, own: int = 0
) -> list[float]:
    """What joining gives where these of a step's rounds go on; ``own`` calls of a rest are like those of no other."""

    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0

        def kernel(name: str) -> None:
            nonlocal at
            trace.kernels(at, 1, 2, 10, f"void {name}_kernel")
            at += 10

        def read() -> None:
            nonlocal at
            trace.copy(at + 8, at + 9, "DtoH", at, bytes=8)
            trace.call(at + 6, at + 14, "cudaStreamSynchronize")
            at += 20

        for number, goes_on in enumerate(full):
            trace.kernels(at, 1, 2, 10, "void vectorized_elementwise_kernel<4, at::native::Equal>")
            at += 10
            for place in range(head - 3):
                kernel("mnopqrstuvwxyz"[place])
            read()
            if goes_on:
                if counts:
                    trace.op(at - 1, at + 60, "aten::nonzero")
                kernel("count")
                read()
                for place in range(rest - 3):
                    kernel("abcdefgh"[place % 8] * (1 + number * (place < own)))
        trace.kernels(at + 40, 1, 5, 10, "void last_kernel")

    rounds = len(full)
    took = rounds * (20 + 10 * head) + sum(full) * (30 + 10 * rest)
    return [each.expected for each in of_body(body, length=200 + took)]


SOME = [True, False, False, False, True, False, False, False, True, False, False, True]


def test_rounds_of_a_loop_may_skip_the_rest() -> None:
    (gain,) = gains(SOME)
    assert gain > 1.8, "one round of twelve remains"


@pytest.mark.parametrize(("head", "found"), [(MAX_HEAD, True), (MAX_HEAD + 1, False)])
def test_it_takes_a_few_calls_to_know_whether_an_item_has_rows(head: int, found: bool) -> None:
    """A step of a simulation makes more before it knows whether its neighbours are to be found anew."""
    assert bool(gains(SOME, head=head)) is found


def test_rounds_that_count_no_rows_may_be_steps() -> None:
    assert not gains(SOME, counts=False)


@pytest.mark.parametrize(("full", "found"), [(2, True), (1, False)])
def test_what_comes_once_may_be_of_all_rounds(full: int, found: bool) -> None:
    which = [number in (5, 0)[:full] for number in range(12)]
    assert bool(gains(which)) is found


@pytest.mark.parametrize(("rounds", "found"), [(MIN_TIMES, True), (MIN_TIMES - 1, False)])
def test_there_are_eight_rounds(rounds: int, found: bool) -> None:
    assert bool(gains(SOME[:rounds], rest=60)) is found


@pytest.mark.parametrize(("own", "found"), [(5, True), (9, False)])
def test_the_rests_are_alike(own: int, found: bool) -> None:
    assert bool(gains(SOME, own=own)) is found
