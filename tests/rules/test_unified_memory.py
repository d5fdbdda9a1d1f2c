"""Kernels that wait for pages are told as such, and not as kernels of few blocks; prefetching is work of the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers.model import EventKind, LaneKind
from parsers.model.names.calls import Call, call_of, is_prefetch
from rules import Finding, diagnose
from rules.analysis.analysis import Analysis
from rules.analysis.gpu.unified_memory import waiting_for_pages
from rules.analysis.idle.causes import Cause
from rules.findings.base import Category, Severity
from rules.verdict.verdict import verdict
from tests.opened import opened
from tests.parsers.nsys_exports import PROCESS, call, copy, export, kernel
from tests.rules.builder import TinyTrace, ns

KERNEL_US = 10_000


def trace_of(moving: float, every: float = 1_000.0, *, block: int = 128, grid: int = 8) -> TinyTrace:
    """Twenty kernels of few blocks, in whose time pages move for ``moving`` us every so often, one right after
    another."""
    trace = TinyTrace()
    for number in range(20):
        at = number * (KERNEL_US + 50.0)
        trace.operation(at + 10, at + 10 + KERNEL_US, "relax(float*)", at, grid=grid, block=block)
        for piece in range(int(KERNEL_US // every)):
            start = at + 10 + piece * every
            trace.copy(start, start + moving, "HtoD", unified=True, stream=9, bytes=65_536)
    return trace


def told(trace: TinyTrace) -> dict[str, Finding]:
    return {each.rule: each for each in diagnose(trace.build()).findings}


def test_kernels_of_few_blocks_that_wait_for_pages_wait_for_pages() -> None:
    analysis = Analysis(trace_of(960).build())
    diagnosis = diagnose(analysis.trace)
    assert verdict(analysis, diagnosis).startswith("Kernels wait for pages of unified memory")
    rules = {each.rule for each in diagnosis.findings}
    assert "gpu-bound" not in rules
    assert "too-few-threads" not in rules
    (first, *_) = diagnosis.findings
    assert "cudaMemPrefetchAsync" in first.advice[0]


@pytest.mark.parametrize(("moving", "limits"), [(480.0, True), (520.0, False)])
def test_the_gpu_is_the_limit_where_kernels_compute_for_most_of_their_time(
    moving: float, limits: bool
) -> None:
    assert ("gpu-bound" in told(trace_of(moving))) is limits


@pytest.mark.parametrize(
    ("moving", "begins"), [(250.0, "Kernels wait for pages"), (0.0, "The GPU is the limit")]
)
def test_a_kernel_is_not_the_limit_before_its_own_wait_for_pages(moving: float, begins: str) -> None:
    """A copy beside such a kernel would be small beside it; what the kernel itself waits for is not."""
    analysis = Analysis(trace_of(moving, grid=4_000, block=256).build())
    assert verdict(analysis, diagnose(analysis.trace)).startswith(begins)


@pytest.mark.parametrize(("moving", "left"), [(0.0, 0.995), (300.0, 0.7), (600.0, 0.4)])
def test_of_kernels_of_few_blocks_only_what_is_no_waiting_can_be_mended(moving: float, left: float) -> None:
    finding = told(trace_of(moving))["too-few-threads"]
    covered = sum(end - start for start, end in finding.intervals)
    assert covered / finding.window_ns == pytest.approx(left, abs=0.01)
    assert finding.ceiling_ns < covered


def test_own_kernels_with_few_warps_are_told_without_their_waiting() -> None:
    def share(moving: float) -> float:
        trace = trace_of(moving, block=32, grid=132 * 16)
        trace.op(0, 1, "aten::mm")
        findings = [each for each in diagnose(trace.build()).findings if each.rule == "own-kernels"]
        return sum(each.ceiling_ns / each.window_ns for each in findings)

    assert share(0.0) > 0.7
    assert share(500.0) == pytest.approx(share(0.0) / 2, abs=0.02)


def test_kernels_with_one_warp_for_a_scheduler_are_told_without_their_waiting() -> None:
    def share(moving: float) -> float:
        findings = diagnose(trace_of(moving, block=128, grid=132).build()).findings
        return sum(each.ceiling_ns / each.window_ns for each in findings if each.rule == "few-warps")

    assert share(0.0) > 0.8
    assert share(500.0) == pytest.approx(share(0.0) / 2, abs=0.02)


def test_page_faults_tell_of_the_waiting_where_few_pages_move() -> None:
    trace = trace_of(0.0)
    lane = trace._lane(LaneKind.OTHER, None, 0, 99)
    for number in range(20):
        at = number * (KERNEL_US + 50.0) + 10
        trace.add(at, at + 6_000, "GPU page faults", lane, EventKind.OTHER)
    analysis = Analysis(trace.build())
    start, end = waiting_for_pages(analysis, 0)
    assert int((end - start).sum()) == 20 * ns(6_000)
    finding = next(each for each in diagnose(analysis.trace).findings if each.rule == "pages-in-kernels")
    assert "handles 1 group of page faults" in finding.explanation


def test_an_export_with_page_faults_shows_them_on_a_lane_of_their_own(tmp_path: Path) -> None:
    kernels, calls, faults, moves = [], [], [], []
    for number in range(20):
        at = 1_000_000 + 11_000_000 * number
        calls.append(call(at, at + 6_000, number + 1))
        kernels.append(kernel(at + 10_000, at + 10_010_000, number + 1))
        faults.append(
            {
                "start": at + 20_000,
                "end": at + 9_000_000,
                "globalPid": PROCESS,
                "deviceId": 0,
                "numberOfPageFaults": 9,
            }
        )
        moves.append(copy(at + 30_000, at + 40_000, copyKind=11, bytes=65_536))
    tables = {
        "CUPTI_ACTIVITY_KIND_KERNEL": kernels,
        "CUPTI_ACTIVITY_KIND_RUNTIME": calls,
        "CUPTI_ACTIVITY_KIND_MEMCPY": moves,
        "CUDA_UM_GPU_PAGE_FAULT_EVENTS": faults,
    }
    trace = opened(export(tmp_path / "managed.sqlite", tables))
    (lane,) = (each for each in trace.lanes if "page faults" in each.name)
    assert (lane.name, lane.kind, lane.stream) == ("GPU 0 page faults", LaneKind.OTHER, None)
    assert not any("not shown" in note.reason for note in trace.quality.notes)
    found = [each for each in diagnose(trace).findings if each.severity is Severity.HIGH]
    assert [each.rule for each in found] == ["pages-in-kernels"]
    assert "1 piece of 65.5 KB in all moves and the driver handles 1 group" in found[0].explanation


@pytest.mark.parametrize(
    "name",
    [
        "cudaMemPrefetchAsync",
        "cudaMemPrefetchAsync_v8000",
        "cuMemPrefetchAsync_ptsz",
        "hipMemPrefetchAsync",
        "cudaMemPrefetchBatchAsync",
        "cudaMemDiscardAndPrefetchBatchAsync",
    ],
)
def test_calls_that_prefetch_launch_work_and_are_no_waits(name: str) -> None:
    assert is_prefetch(name)
    assert call_of(name) is Call.COPY


@pytest.mark.parametrize(
    ("name", "cause"), [("cudaMemPrefetchAsync", Cause.HOST), ("cudaMemcpyAsync", Cause.SYNCHRONIZATION)]
)
def test_a_long_prefetch_is_work_of_the_cpu_and_a_long_copy_a_wait(name: str, cause: Cause) -> None:
    trace = TinyTrace()
    for number in range(20):
        at = number * 10_000.0
        trace.call(at, at + 8_000, name)
        trace.operation(at + 8_020, at + 9_990, "relax(float*)", at + 8_005)
    findings = diagnose(trace.build()).findings
    categories = {Cause.HOST: Category.HOST_BOUND, Cause.SYNCHRONIZATION: Category.SYNCHRONIZATION}
    (finding,) = (each for each in findings if each.category is categories[cause])
    assert finding.share > 0.7
    if cause is Cause.HOST:
        assert finding.title.startswith("Prefetching unified memory holds up the CPU")
        assert "prefetch each buffer once" in finding.advice[0]
        assert finding.cannot_tell.startswith("How many pages it moves")
        assert not any(each.category is Category.SYNCHRONIZATION for each in findings)
