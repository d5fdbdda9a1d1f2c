"""What passes before the GPU's first work is told where it is longer than all that follows."""

from __future__ import annotations

import pytest

from parsers.model import Trace
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.verdict.verdict import beside_the_verdict
from tests.rules.builder import TinyTrace, ns, steps

# The cases lie on either side of these.
MIN_BEFORE_NS = 10_000_000


def late(before_us: float, after_us: float = 2_000.0) -> Trace:
    trace = TinyTrace()
    trace.region(0, before_us / 2, "start_workers")
    trace.op(before_us / 2, before_us / 2 + 30, "aten::empty")
    for number in range(30):
        at = before_us + number * after_us / 30
        trace.operation(at, at + after_us / 31, f"void kernel_{number}(float*)", at - 8)
    return trace.build()


@pytest.mark.parametrize(
    ("before_us", "after_us", "told"),
    [
        (MIN_BEFORE_NS / 1000 + 100, 2_000.0, True),
        (MIN_BEFORE_NS / 1000 - 100, 2_000.0, False),
        (50_000.0, 49_000.0, True),
        (50_000.0, 52_000.0, False),
    ],
)
def test_what_takes_longer_than_the_gpu_s_work_is_told_with_what_takes_longest(
    before_us: float, after_us: float, told: bool
) -> None:
    trace = late(before_us, after_us)
    waited = Analysis(trace).analysed.set_aside
    assert (waited is not None and waited.before_work) is told
    diagnosis = diagnose(trace)
    said = " ".join(each.explanation for each in diagnosis.findings)
    assert ("start_workers alone takes" in said) is told
    assert ("nothing to do at first" in beside_the_verdict(Analysis(trace), diagnosis)) is told


def test_before_steps_it_is_not_told() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(200_000, 30, 30, 30)

    trace = steps(5, 202_000, body).build()
    assert Analysis(trace).analysed.set_aside is None
    assert Analysis(trace).window_ns > ns(202_000)
