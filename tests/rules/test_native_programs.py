"""Programs that are not Python get advice that they can follow; Python programs keep theirs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from parsers.model import EventKind, LaneKind
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.analysis.idle.causes import Cause
from rules.findings.base import Category
from rules.fixes.plan import make_plan
from rules.replay.replay import replay_of
from rules.wording.words import Reader
from tests.rules.builder import MAIN, TinyTrace, found, repeated
from tests.rules.test_fixes import SGEMM, promised


def copies(trace: TinyTrace, at: float) -> None:
    trace.copy(at + 5, at + 505, "HtoD", at + 2, pageable=True)
    trace.copy(at + 505, at + 905, "DtoH", at + 4, pageable=True)
    trace.operation(at + 905, at + 2000, "stencil", at + 8)


def synchronises(trace: TinyTrace, at: float) -> None:
    trace.operation(at + 6, at + 900, "stencil", at)
    trace.call(at + 10, at + 1100, "cudaDeviceSynchronize")
    trace.operation(at + 1110, at + 1995, "stencil", at + 1102)


def allocates(trace: TinyTrace, at: float) -> None:
    trace.operation(at + 6, at + 900, "stencil", at)
    trace.call(at + 910, at + 1300, "cudaMalloc")
    trace.call(at + 1300, at + 1400, "cudaFree")
    trace.operation(at + 1410, at + 1995, "stencil", at + 1402)


def waits(trace: TinyTrace, at: float) -> None:
    trace.operation(at + 6, at + 300, "stencil", at)
    trace.operation(at + 300, at + 600, "update", at + 10)


def launches(trace: TinyTrace, at: float) -> None:
    trace.kernels(at, 66, 2, 30)


def leaves_empty(trace: TinyTrace, at: float) -> None:
    trace.operation(at + 6, at + 1900, "stencil", at, grid=4, block=64)


CASES = [
    (copies, Category.COPY_H2D, "cudaHostAlloc"),
    (copies, Category.COPY_D2H, "cudaHostAlloc"),
    (synchronises, Category.SYNCHRONIZATION, "cudaStreamWaitEvent"),
    (allocates, Category.ALLOCATOR, "cudaMallocAsync"),
    (waits, Category.HOST_BOUND, "nvtxRangePushA"),
    (launches, Category.LAUNCH_BOUND, "cudaStreamBeginCapture"),
    (leaves_empty, Category.SMALL_GRID, "blocks of 128 to 256 threads"),
]


@pytest.mark.parametrize(("body", "category", "word"), CASES)
def test_a_program_without_python_is_advised_in_terms_of_the_cuda_api(
    body: Callable[[TinyTrace, float], None], category: Category, word: str
) -> None:
    finding = found(repeated(body), category)
    said = " ".join((*finding.advice, finding.cannot_tell, finding.code))
    assert word in said
    for foreign in ("torch", "DataLoader", "with_stack", "forward pass", "batch", "optimizer", "pin_memory"):
        assert foreign not in said


@pytest.mark.parametrize(("body", "category", "word"), CASES)
def test_a_python_program_is_advised_in_terms_of_pytorch(
    body: Callable[[TinyTrace, float], None], category: Category, word: str
) -> None:
    finding = found(repeated(body, "aten::mm"), category)
    assert word not in " ".join(finding.advice)
    assert finding.code


def test_the_advice_about_a_slow_link_is_kept() -> None:
    trace = TinyTrace(gpu="NVIDIA H200")
    for at in range(0, 20_000, 2000):
        trace.copy(at + 5, at + 1005, "HtoD", at + 2, bytes=5_000_000)
        trace.operation(at + 1005, at + 2000, "stencil", at + 8)
    finding = found(trace.build(), Category.COPY_H2D)
    assert any("nvidia-smi topo -m" in advice for advice in finding.advice)


def test_advice_that_fits_every_program_is_left_as_it_is() -> None:
    def loads(trace: TinyTrace, at: float) -> None:
        trace.operation(at + 1900, at + 1950, "stencil", at + 10, launch_us=1880)
        trace.operation(at + 1950, at + 1990, "update", at + 1892)

    finding = found(repeated(loads), Category.HOST_BOUND)
    assert finding.advice == found(repeated(loads, "aten::mm"), Category.HOST_BOUND).advice
    assert finding.code == ""


def pages_that_the_cpu_touches(sampled: bool = False) -> TinyTrace:
    trace = TinyTrace()
    trace.operation(6, 1000, "stencil", 0)
    for number in range(30):
        trace.operation(
            1050 + 100 * number, 1080 + 100 * number, "Memcpy DtoH, unified memory", kind=EventKind.MEMCPY
        )
        if sampled:
            at = 1090 + 100 * number
            trace.add(at, at, "vfprintf", trace._lane(LaneKind.CPU_THREAD, MAIN), EventKind.SAMPLE)
    return trace


def test_pages_of_unified_memory_are_to_be_fetched_before_they_are_touched() -> None:
    trace = pages_that_the_cpu_touches()
    trace.operation(3980, 4080, "stencil")
    recording = trace.build()
    for category in (Category.HOST_BOUND, Category.COPY_D2H):
        assert "cudaMemPrefetchAsync" in found(recording, category).advice[0]
    assert "unified memory" in found(recording, Category.COPY_D2H).title
    idle = Analysis(recording).idle
    assert {Cause(cause) for cause in idle.cause.tolist()} == {Cause.HOST}


def test_what_samples_say_of_code_that_touches_unified_memory_is_the_first_to_leave_out() -> None:
    trace = pages_that_the_cpu_touches(sampled=True)
    trace.operation(4080, 4180, "stencil", 4074)
    recording = trace.build()
    finding = found(recording, Category.HOST_BOUND)
    assert "vfprintf (100 %)" in finding.explanation
    assert "Do on the GPU what the CPU does with this memory" in finding.advice[0]
    assert "cudaMemPrefetchAsync" in finding.advice[1]
    assert replay_of(Analysis(recording)).reason == "pages of unified memory move, which no call launches"


@pytest.mark.parametrize(
    ("kernel", "queued", "kept"),
    [
        ("update_57_gpu", "#pragma acc wait(1)", "#pragma acc data copy"),
        ("__omp_offloading_3d_update_l57", "taskwait", "#pragma omp target data"),
        ("stencil", "", ""),
    ],
)
def test_loops_of_directives_are_queued_by_their_own_clauses(kernel: str, queued: str, kept: str) -> None:
    trace = TinyTrace()
    for place in range(60):
        at = place * 100.0
        trace.operation(at + 6, at + 20, kernel, at)
        trace.call(at + 10, at + 40, "cuStreamSynchronize")
        trace.call(at + 45, at + 80, "cuMemAlloc_v2")
    findings = {each.category: " ".join(each.advice) for each in diagnose(trace.build()).findings}
    assert queued in findings[Category.SYNCHRONIZATION]
    assert kept in findings[Category.ALLOCATOR]
    assert ("#pragma" in findings[Category.ALLOCATOR]) is bool(kept)


@pytest.mark.parametrize(("kernel", "collapsed"), [("update_57_gpu", True), ("stencil", False)])
def test_short_loops_of_directives_are_offloaded_with_the_loop_around_them(
    kernel: str, collapsed: bool
) -> None:
    trace = TinyTrace()
    for place in range(200):
        trace.operation(place * 20 + 6, place * 20 + 8, kernel, place * 20.0)
    advice = found(trace.build(), Category.LAUNCH_BOUND).advice
    assert ("Offload the loop around them" in advice[-1]) is collapsed


@pytest.mark.parametrize(
    ("kernel", "spread", "code"),
    [
        ("update_57_gpu", "#pragma acc parallel loop", "#pragma acc"),
        ("__omp_offloading_3d_update_l57", "target teams distribute", "#pragma omp"),
        ("stencil", "blocks of 128 to 256 threads", "<<<blocks, threads>>>"),
    ],
)
def test_a_loop_on_one_thread_is_spread_in_the_words_of_its_program(
    kernel: str, spread: str, code: str
) -> None:
    trace = TinyTrace()
    for place in range(30):
        at = place * 1000.0
        trace.operation(at + 6, at + 1000, kernel, at, grid=1, block=1)
    finding = found(trace.build(), Category.SMALL_GRID)
    assert spread in finding.advice[0]
    assert code in finding.code


def test_a_native_program_is_shown_no_python() -> None:
    trace = TinyTrace()
    for index in range(6):
        for place in range(9):
            at = index * 2000 + 20 + place * 215
            trace.operation(at, at + 215, SGEMM, index * 2000 + 5 + place * 6)
        trace.call(index * 2000 + 70, index * 2000 + 1985, "cudaDeviceSynchronize")
    made = make_plan(Analysis(trace.build()))
    assert "use-tensor-cores" in promised(made)
    reader = Reader.of(made.replay.analysis.trace)
    assert all(not each.proposal.remedy.code_for(reader) for each in made.promises)
    assert "torch" not in " ".join(
        text for each in made.promises for text in each.proposal.remedy.advice_for(reader)
    )
