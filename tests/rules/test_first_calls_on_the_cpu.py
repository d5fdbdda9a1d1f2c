"""An operator of a program on the CPU whose first call takes nearly all the time of its calls is told as one."""

from __future__ import annotations

import pytest

from rules import diagnose
from tests.rules.builder import TinyTrace

# The cases lie on either side of these.
NEARLY_ALL = 0.9  # of the time of its calls
MIN_SILENCE = 0.2  # of the recorded time
MANY_CALLS = 5


def explanation(
    first_us: float, other_us: float, calls: int, rest_us: float, *, is_first: bool = True
) -> str:
    trace = TinyTrace()
    at = 0.0
    for number in range(calls):
        took = first_us if number == (0 if is_first else calls - 1) else other_us
        trace.op(at, at + took, "aten::empty_strided")
        at += took
        trace.op(at, at + rest_us / calls, "aten::normal_")
        at += rest_us / calls
    return next(each.explanation for each in diagnose(trace.build()).findings if each.rule == "cpu-recording")


@pytest.mark.parametrize(
    ("first_us", "other_us", "calls", "rest_us", "is_first", "told"),
    [
        (4_000_000, 100, 10, 8_000_000, True, True),
        (4_000_000, 100, 10, 8_000_000, False, False),
        (4_000_000, 4_000_000 * (1 / NEARLY_ALL - 1) / 9 * 0.95, 10, 8_000_000, True, True),
        (4_000_000, 4_000_000 * (1 / NEARLY_ALL - 1) / 9 * 1.05, 10, 8_000_000, True, False),
        (4_000_000, 0.1, 10, 4_000_000 * (1 / MIN_SILENCE - 1) * 0.99, True, True),
        (4_000_000, 0.1, 10, 4_000_000 * (1 / MIN_SILENCE - 1) * 1.01, True, False),
        (4_000_000, 100, MANY_CALLS + 1, 8_000_000, True, True),
        (4_000_000, 100, MANY_CALLS, 8_000_000, True, False),
    ],
)
def test_a_first_call_that_takes_nearly_all_is_named(
    first_us: float, other_us: float, calls: int, rest_us: float, is_first: bool, told: bool
) -> None:
    text = explanation(first_us, other_us, calls, rest_us, is_first=is_first)
    assert (f"The first of {calls} calls of aten::empty_strided takes 4.00 s" in text) is told
