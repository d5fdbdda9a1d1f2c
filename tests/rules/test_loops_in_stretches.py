"""Loops over as many items that come again and again in one stretch, and others behind them, are two causes."""

from __future__ import annotations

import pytest

from tests.rules.builder import TinyTrace
from tests.rules.test_item_loops import of_body

FIRST = ("void scale_kernel", "void shift_kernel", "void where_kernel")
SECOND = ("void exp_kernel", "void cumsum_kernel", "void lerp_kernel", "void clamp_kernel")


def parts(times: int = 4, others: int = 4, alternating: bool = False, backward: bool = False) -> int:
    """How many causes are told of so many loops over ten items, and of others with other calls."""

    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        order = [FIRST] * times + [SECOND] * others
        if alternating:
            order = [FIRST, SECOND] * times
        for names in order:
            begun = at
            for _item in range(10):
                for name in names:
                    trace.kernels(at, 1, 5, 10, name)
                    at += 10
            if backward and names is SECOND:
                trace.op(begun - 1, at, "autograd::engine::evaluate_function: MulBackward0")
            trace.kernels(at, 1, 5, 10, f"void between_{len(names)}_kernel")
            at += 10
            trace.kernels(at, 1, 5, 10, f"void behind_{at:.0f}_kernel")
            at += 10

    return len(of_body(body, length=300 + times * 330 + others * 430))


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({}, 2),
        ({"times": 3}, 1),
        ({"others": 3}, 1),
        ({"alternating": True}, 1),
        ({"backward": True}, 1),
        ({"others": 0}, 1),
    ],
    ids=[
        "two stretches of four loops",
        "the first is of three",
        "the second is of three",
        "they alternate",
        "forward and backward",
        "one stretch",
    ],
)
def test_loops_in_different_stretches_are_two_causes(changed: dict[str, int], told: int) -> None:
    assert parts(**changed) == told  # type: ignore[arg-type]
