"""No band passes what is left of a step without what a fix ends, unless what is left then runs at once."""

from __future__ import annotations

import pytest

from rules.analysis.analysis import Analysis
from rules.fixes.plan import Plan, Promise, make_plan
from tests.rules.builder import TinyTrace, steps

IDLE_HOST = 0.05  # of a step that the CPU works by itself


def less_to_host(plan: Plan) -> Promise:
    (found,) = (
        each for each in plan.promises if each.id.startswith("copy-less") and each.proposal.key == "D2H"
    )
    return found


def copied_in_turn(streams: int, worked_us: float = 0.0) -> Plan:
    """Three kernels, on one of several streams in turn, a copy that blocks the CPU for 500 us more, and its work."""

    def body(trace: TinyTrace, number: int) -> None:
        on = {"stream": 7 + number % streams}
        for each in range(3):
            trace.operation(10 + 100 * each, 110 + 100 * each, "gemm", 1 + 3 * each, launch_us=2.0, **on)
        trace.copy(312, 812, "DtoH", 12, pageable=True, bytes=4_000_000, launch_us=803, **on)
        if worked_us:
            trace.region(820, 815 + worked_us, "metrics")

    return make_plan(Analysis(steps(12, 820 + worked_us, body).build()))


@pytest.mark.parametrize("streams", [1, 4])
def test_without_work_on_them_copies_give_no_more_than_they_take(streams: int) -> None:
    """Also where steps take turns on several streams, so that none of these is busy for long."""
    plan = copied_in_turn(streams)
    found = less_to_host(plan)
    most = plan.replay.usual_ns / (plan.replay.usual_ns - 516_000)
    assert 0.95 * most < found.expected <= found.high <= 1.03 * most


@pytest.mark.parametrize(("part", "is_limited"), [(IDLE_HOST - 0.01, True), (IDLE_HOST + 0.01, False)])
def test_a_cpu_with_work_of_its_own_may_have_more_or_less_of_it(part: float, is_limited: bool) -> None:
    plan = copied_in_turn(4, 820 * part)
    found = less_to_host(plan)
    assert (found.high < 1.2 * found.expected) is is_limited


def test_where_kept_work_runs_at_once_without_a_wait_its_end_is_open() -> None:
    """A kernel and the next input take turns because the CPU waits for a value: without that, both run at once."""

    def body(trace: TinyTrace, _: int) -> None:
        trace.operation(10, 460, "gemm", 1, launch_us=2.0)
        trace.copy(462, 464, "DtoH", 5, pageable=True, bytes=4, launch_us=2.0)
        trace.call(8, 470, "cudaStreamSynchronize")
        trace.copy(500, 950, "HtoD", 490, stream=8, launch_us=2.0)
        trace.call(494, 960, "cudaStreamSynchronize")

    plan = make_plan(Analysis(steps(12, 1_000, body).build()))
    (found,) = (each for each in plan.promises if each.id.startswith("remove-read-backs"))
    assert found.high >= found.expected > 2.0


def read_anew(waited: int) -> list[str]:
    """Titles of the fixes where ten small results are copied in a step, and the CPU waits for so many of them."""

    def body(trace: TinyTrace, _: int) -> None:
        for each in range(10):
            at = 100.0 * each
            trace.operation(at + 10, at + 60, "gemm", at + 1, launch_us=2.0)
            trace.copy(at + 61, at + 63, "DtoH", at + 5, bytes=8_000, launch_us=2.0)
            if each < waited:
                trace.call(at + 8, at + 75, "cudaStreamSynchronize")

    return [each.proposal.title for each in make_plan(Analysis(steps(12, 1_000, body).build())).promises]


@pytest.mark.parametrize(("waited", "reads"), [(0, False), (4, False), (6, True)])
def test_copies_for_which_nothing_waits_read_nothing_back(waited: int, reads: bool) -> None:
    """As where pieces of data stream through page-locked memory."""
    assert any("reading single values" in each for each in read_anew(waited)) is reads
