"""Loops over items that fill only a part of the GPU, which others can use beside them."""

from __future__ import annotations

import pytest

from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body


def test_what_items_do_not_fill_of_the_gpu_is_left_for_others() -> None:
    """At least, their work takes as long as one after another, but for its start."""

    def joined(grid: int) -> tuple[float, float]:
        def body(trace: TinyTrace, _: int) -> None:
            for item in range(24):
                trace.operation(46 * item + 16, 46 * item + 55, "void sort_kernel", 10 + 46 * item, grid=grid)
                trace.operation(46 * item + 55, 46 * item + 56, "void scan_kernel", 12 + 46 * item, grid=grid)

        plan = plan_of_body(body, length=1_200)
        (found,) = (each for each in plan.promises if each.proposal.fix == "join-loop")
        assert found.proposal.low is not None
        return plan.replay.gain([found.proposal.expected]), plan.replay.gain([found.proposal.low])

    few, many = joined(33), joined(132)
    assert few[0] > 2.5 * many[0]
    assert few[1] == pytest.approx(many[1], rel=0.02)
