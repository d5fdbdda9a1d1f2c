"""Pages of results that the CPU touches after the last kernel are told apart from the GPU's work."""

from __future__ import annotations

import pytest

from parsers.model import Trace
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.analysis.idle.causes import Cause
from rules.findings.base import Category
from rules.verdict.verdict import beside_the_verdict, verdict
from tests.rules.builder import TinyTrace, ns, steps


def checked(pages: int, each_us: float, every_us: float, *, prefetched: bool = False) -> Trace:
    """A kernel of 10 ms, whose results move ``each_us`` of ``every_us`` while the CPU checks them."""
    trace = TinyTrace()
    if prefetched:
        trace.copy(0, 2_000, "HtoD", unified=True)
    trace.operation(2_000, 12_000, "relax(float*, int)", 1_990, grid="1,1,1", block="128,1,1")
    trace.call(2_000, 12_005, "cudaDeviceSynchronize")
    for number in range(pages):
        at = 12_000 + number * every_us + (every_us - each_us)
        trace.copy(at, at + each_us, "DtoH", unified=True)
    return trace.build()


def titles(trace: Trace) -> list[str]:
    return [each.title for each in diagnose(trace).findings]


@pytest.mark.parametrize(("each_us", "told"), [(490.0, True), (510.0, False)])
def test_pages_that_move_for_less_than_half_of_the_time_are_read_by_the_cpu(
    each_us: float, told: bool
) -> None:
    trace = checked(30, each_us, 1_000)
    later = Analysis(trace).analysed.read_later
    assert (later is not None) is told
    assert any("reads results after the last kernel" in each for each in titles(trace)) is told
    assert Analysis(trace).window_ns == ns(10_000 if told else 40_000)


def test_the_kernel_leads_and_not_the_program_s_check_of_its_results() -> None:
    trace = checked(30, 50, 1_000)
    analysis, diagnosis = Analysis(trace), diagnose(trace)
    assert "leave most of the GPU empty" in verdict(analysis, diagnosis)
    assert beside_the_verdict(analysis, diagnosis) == (
        "Also: the CPU reads results after the last kernel: 30.0 ms."
    )
    told = next(each for each in diagnosis.findings if each.category is Category.WHAT_WAS_RECORDED)
    assert "only the 10.0 ms before them are judged" in told.explanation
    assert "cudaMemPrefetchAsync to the CPU" in told.advice[0]


def test_results_that_are_read_for_less_than_the_window_are_no_part_of_the_verdict() -> None:
    trace = checked(9, 50, 1_000)
    assert any("reads results after the last kernel: 9.00 ms" in each for each in titles(trace))
    assert beside_the_verdict(Analysis(trace), diagnose(trace)) == ""


def test_data_that_is_fetched_before_the_kernel_stays_in_the_window() -> None:
    assert Analysis(checked(30, 50, 1_000, prefetched=True)).window == (0, ns(12_000))


def test_pages_between_kernels_and_before_a_last_copy_are_part_of_the_work() -> None:
    trace = TinyTrace()
    trace.operation(0, 10_000, "relax(float*, int)", 0)
    trace.copy(15_000, 15_050, "DtoH", unified=True)
    trace.copy(20_000, 21_000, "DtoH", 19_990)
    built = trace.build()
    assert Analysis(built).analysed.read_later is None
    assert Analysis(built).window[1] == ns(21_000)


def test_pages_without_a_kernel_and_steps_are_left_as_they_are() -> None:
    moved = TinyTrace()
    moved.copy(0, 10, "HtoD", unified=True)
    moved.copy(1_000, 1_010, "DtoH", unified=True)
    assert Analysis(moved.build()).analysed.read_later is None

    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(0, 30, 30, 30)
        trace.copy(1_500, 1_510, "DtoH", unified=True)

    assert Analysis(steps(5, 2_000, body).build()).analysed.read_later is None


@pytest.mark.parametrize("asked", [True, False])
def test_pauses_between_pieces_that_a_call_moves_are_not_the_cpu_s(asked: bool) -> None:
    trace = TinyTrace()
    for number in range(40):
        trace.copy(100 + number * 100, 160 + number * 100, "HtoD", unified=True)
    if asked:
        trace.call(50, 4_200, "cudaMemPrefetchAsync")
    trace.operation(4_200, 9_000, "relax(float*, int)", 4_190)
    idle = Analysis(trace.build()).idle
    causes = {Cause(each) for each in idle.cause[idle.end < ns(4_000)].tolist()}
    assert (Cause.HOST in causes) is not asked
    assert (Cause.DEPENDENCY in causes) is asked


@pytest.mark.parametrize(("asked", "pause", "told"), [(True, 40, True), (True, 1, False), (False, 40, False)])
def test_the_pauses_between_pieces_are_told_with_the_copies(asked: bool, pause: int, told: bool) -> None:
    trace = TinyTrace()
    for number in range(40):
        start = 100 + number * (60 + pause)
        trace.copy(start, start + 60, "HtoD", unified=True)
    if asked:
        trace.call(50, 4_200, "cudaMemPrefetchAsync")
    trace.operation(4_200, 9_000, "relax(float*, int)", 4_190)
    (copies,) = (each for each in diagnose(trace.build()).findings if each.category is Category.COPY_H2D)
    assert ("between them the GPU idles for another 1.56 of 8.90 ms" in copies.explanation) is told
    assert ("moves in pieces" in copies.explanation) is told


@pytest.mark.parametrize(("call_us", "set_aside"), [(14_000.0, True), (16_000.0, False)])
def test_pages_that_the_cpu_touches_before_the_first_kernel_are_start_up(
    call_us: float, set_aside: bool
) -> None:
    trace = TinyTrace()
    for number in range(30):
        trace.copy(number * 1_000, number * 1_000 + 10, "DtoH", unified=True)
    trace.call(10, 10 + call_us, "cudaMemAdvise")
    trace.operation(30_000, 36_000, "relax(float*, int)", 29_995, grid="64,1,1", block="128,1,1")
    built = trace.build()
    waited = Analysis(built).analysed.set_aside
    assert (waited is not None and waited.before_work) is set_aside
    assert Analysis(built).window_ns == ns(6_000 if set_aside else 36_000)
    assert any("nothing to do at first" in each for each in titles(built)) is set_aside
