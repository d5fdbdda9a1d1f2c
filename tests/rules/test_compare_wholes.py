"""Steps that repeat on the GPU hold whatever repeats: work in larger or smaller pieces is compared as a whole."""

from __future__ import annotations

import pytest

from parsers.model import Trace
from rules.comparison.compare import Comparison, compare
from tests.rules.builder import TinyTrace, steps

PIECES, MEGABYTE = 40, 1_000_000
WHOLE = PIECES * MEGABYTE


def pieces(count: int, bytes_in_all: int = WHOLE, copy_us: float = 60, kernel_us: float = 30) -> Trace:
    """A vector that is copied to the GPU, computed on and copied back in so many pieces."""
    trace = TinyTrace()
    each = copy_us + kernel_us + 50
    for index in range(count):
        at = index * each
        trace.copy(at, at + copy_us, "HtoD", at - 8, bytes=bytes_in_all // count)
        trace.operation(at + copy_us, at + copy_us + kernel_us, "scale", at - 4)
        trace.copy(at + copy_us + kernel_us, each - 20 + at, "DtoH", at + 4, bytes=bytes_in_all // count)
    return trace.build()


def kept(sweeps: int = PIECES, kernel_us: float = 30) -> Trace:
    """As many kernels on data that stay on the GPU."""
    trace = TinyTrace()
    trace.copy(0, 60, "HtoD", -8, bytes=MEGABYTE)
    for index in range(sweeps):
        at = 70 + index * kernel_us
        trace.operation(at, at + kernel_us, "scale", at - 6)
    trace.copy(80 + sweeps * kernel_us, 140 + sweeps * kernel_us, "DtoH", 60, bytes=MEGABYTE)
    return trace.build()


def fed(each_us: float, amount: int) -> Trace:
    """Four steps that copy so many bytes to the GPU and launch ten kernels."""

    def body(trace: TinyTrace, _: int) -> None:
        trace.copy(0, 20, "HtoD", bytes=amount)
        trace.kernels(30, 10, each_us, 95, "scale")

    return steps(4, 1000, body).build()


def is_another_size(result: Comparison) -> bool:
    return any("another batch" in each for each in result.cautions)


def test_where_one_side_has_no_steps_the_kernels_of_both_are_counted_as_a_whole() -> None:
    result = compare(pieces(PIECES), kept())
    assert not result.by_step
    assert result.measures[0].before == result.measures[0].after == PIECES
    assert "faster: all of it takes" in result.verdict
    assert "Not comparable" not in result.verdict


def test_steps_of_larger_and_of_smaller_pieces_are_compared_as_a_whole() -> None:
    result = compare(pieces(PIECES // 4, copy_us=600), pieces(PIECES))
    assert not result.by_step
    assert "faster: all of it takes" in result.verdict
    assert any("hold different parts of the work" in each for each in result.cautions)


@pytest.mark.parametrize("more", [1, 1.125])
def test_steps_of_about_the_same_pieces_are_compared(more: float) -> None:
    assert compare(pieces(PIECES), pieces(round(PIECES * more))).by_step


def test_pieces_of_other_work_are_compared_by_step() -> None:
    assert compare(pieces(PIECES // 4), pieces(PIECES, round(WHOLE * 1.06))).by_step


def test_kernels_that_got_faster_on_the_same_data_are_no_other_batch() -> None:
    amount, little = 100_000, 50_000
    assert not is_another_size(compare(fed(80, amount), fed(20, amount)))
    assert is_another_size(compare(fed(80, amount), fed(20, 2 * amount)))
    assert is_another_size(compare(fed(80, little), fed(20, little)))
