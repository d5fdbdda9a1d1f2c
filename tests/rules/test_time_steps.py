"""Cells of recurrent layers that are called for one time step after another."""

from __future__ import annotations

import pytest

from rules.fixes.plan import Promise
from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body


def of_cells(
    cells: int = 20, cell: str = "aten::lstm_cell", *, between: int = 0, before: float = 0.0
) -> list[Promise]:
    """Steps of so many cells of three launches; of ten of them so many are followed by another operator.

    Before the first cell the CPU does something of its own for so long.
    """

    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 1, 5, 20, "void first_kernel")
        at = 40 + before
        for number in range(cells):
            trace.op(at, at + 58, cell)
            for place in range(3):
                trace.kernels(at + 5 + 20 * place, 1, 5, 20, f"void kernel_{place}")
            at += 60
            if number % 10 < between:
                trace.op(at, at + 18, "aten::argmax")
                trace.kernels(at + 5, 1, 5, 20, "void argmax_kernel")
                at += 20
        trace.kernels(at + 5, 1, 5, 20, "void last_kernel")

    length = 60 + before + cells * 60 + cells * between / 10 * 20
    plan = plan_of_body(body, length=length)
    assert plan.crashed == ()
    return [each for each in plan.promises if each.id.startswith("one-layer-for-all-steps")]


@pytest.mark.parametrize(
    ("cells", "cell", "between", "found"),
    [
        (8, "aten::gru_cell", 0, True),
        (7, "aten::gru_cell", 0, False),
        (20, "aten::lstm_cell", 8, True),
        (20, "aten::lstm_cell", 10, False),
        (20, "aten::rnn_relu_cell", 0, True),
        (20, "aten::linear", 0, False),
    ],
)
def test_eight_cells_with_hardly_anything_between_are_one_layer(
    cells: int, cell: str, between: int, found: bool
) -> None:
    assert bool(of_cells(cells, cell, between=between)) is found


def test_a_tenth_of_the_host_time_of_cells_remains_and_all_work_of_the_gpu() -> None:
    (alone,) = of_cells()
    assert "called 20 times in a step, with 60 launches" in alone.proposal.title
    # 60 kernels of 5 us each, one after another without a pause, are longer than a tenth of 1,200 us of calls
    assert alone.expected == pytest.approx(2.0, rel=0.15)
    (behind,) = of_cells(before=2_400)
    assert 1.1 < behind.expected < 1.35
