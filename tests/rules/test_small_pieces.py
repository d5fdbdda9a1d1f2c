"""The shares by which an array is taken to go through the GPU in pieces."""

from __future__ import annotations

import pytest

from rules import diagnose
from tests.rules.builder import TinyTrace


def pieces(
    kernels: int = 200, others: int = 0, back: int = 200, took_us: float = 4.0, every_us: float = 20.0
) -> bool:
    """Whether kernels of one name, of which ``others`` bear another, are taken for work on pieces that come and go."""
    trace = TinyTrace()
    for number in range(kernels):
        at = every_us * number
        trace.copy(at, at + 2, "HtoD", at - 3, bytes=8_000)
        name = "fill_rows" if number % 20 < 20 * others / kernels else "add_vectors"
        trace.operation(at + 3, at + 3 + took_us, name, at - 1, launch_us=1)
        if number < back:
            trace.copy(at + every_us - 4, at + every_us - 2, "DtoH", at + 2, bytes=8_000)
    return any(each.rule == "small-pieces" for each in diagnose(trace.build()).findings)


@pytest.mark.parametrize(("others", "told"), [(20, True), (30, False)])
def test_nine_tenths_of_the_kernels_are_of_one_name(others: int, told: bool) -> None:
    assert pieces(others=others) is told


@pytest.mark.parametrize(("back", "told"), [(101, True), (99, False)])
def test_a_piece_comes_back_for_every_other_kernel_at_least(back: int, told: bool) -> None:
    assert pieces(back=back) is told


@pytest.mark.parametrize(("took_us", "told"), [(7.7, True), (8.3, False)])
def test_no_kernel_runs_for_half_of_the_time(took_us: float, told: bool) -> None:
    assert pieces(took_us=took_us, every_us=16.0) is told
