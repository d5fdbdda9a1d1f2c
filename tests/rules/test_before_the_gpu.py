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
MIN_TELLING = 0.1


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


@pytest.mark.parametrize(("share", "named"), [(1.1 * MIN_TELLING, True), (0.9 * MIN_TELLING, False)])
def test_a_call_is_named_for_that_time_where_it_takes_enough_of_it(share: float, named: bool) -> None:
    trace = TinyTrace()
    trace.region(0.0, 5.0, "begin")
    trace.call(40.0, 40.0 + 30_000.0 * share, "cudaMalloc")
    for number in range(30):
        trace.operation(
            30_000.0 + number * 60, 30_050.0 + number * 60, f"kernel_{number}", 29_990.0 + number * 60
        )
    diagnosis = diagnose(built := trace.build())
    (found,) = (each for each in diagnosis.findings if "nothing to do at first" in each.title)
    assert ("cudaMalloc alone takes" in found.explanation) is named
    told = [(each.name, each.start) for each in found.evidence]
    assert told == [("one long wait", 0), *([("cudaMalloc", ns(40.0))] if named else [])]
    assert "nothing to do at first" in beside_the_verdict(Analysis(built), diagnosis)
    assert "starts up, or makes the first batch" in found.explanation


@pytest.mark.parametrize(("before_us", "told"), [(21_000.0, True), (19_000.0, False)])
def test_before_steps_it_is_told_where_it_takes_longer_than_they_do(before_us: float, told: bool) -> None:
    trace = TinyTrace()
    trace.region(0.0, before_us, "load_model")
    for number in range(5):
        at = before_us + 4_000.0 * number
        trace.step(at, at + 4_000.0, f"ProfilerStep#{number}")
        trace.kernels(at, 30, 120, 130)
    analysis = Analysis(built := trace.build())
    assert analysis.steps_in_window >= 3
    assert ("nothing to do at first" in beside_the_verdict(analysis, diagnose(built))) is told


def test_before_steps_that_each_begin_so_it_is_not_told() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(200_000, 30, 30, 30)

    trace = steps(5, 202_000, body).build()
    assert Analysis(trace).analysed.set_aside is None
    assert Analysis(trace).window_ns > ns(202_000)
