"""A GPU that idles beside operators of the CPU, where nothing says which of them started its work."""

from __future__ import annotations

import pytest

from rules import Finding, diagnose
from tests.rules.builder import TinyTrace


def told(calls: list[float]) -> Finding:
    """Of a GPU that idles while convolutions are called, each of them for so long (us)."""
    trace, start = TinyTrace(), 0.0
    for number, took in enumerate(calls):
        trace.op(start, start + took, "Conv2D")
        start += took
        for layer in range(10 + 3 * number):
            trace.operation(start, start + 10, f"sm90_conv_{layer}")
            start += 10
    (found,) = [each for each in diagnose(trace.build()).findings if each.rule == "idle-unexplained"]
    return found


@pytest.mark.parametrize(("usual", "once"), [(1_000.0, True), (11_000.0, False)])
def test_one_call_much_longer_than_the_others_is_its_first_use(usual: float, once: bool) -> None:
    found = told([10.0, 100_000.0, usual, usual, usual])
    assert ("it does so once, when it is first used" in found.explanation) is once
    assert found.advice[0].startswith("Run a few warm-up steps") is once


def test_one_of_several_long_calls_is_no_first_use() -> None:
    found = told([10.0, 100_000.0, 60_000.0, 1_000.0, 1_000.0, 1_000.0, 1_000.0])
    assert "first used" not in found.explanation
