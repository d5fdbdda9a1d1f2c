"""A recording of a program that starts shows no run: only copies, or a few kernels in a long time."""

from __future__ import annotations

import pytest

from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.verdict.verdict import verdict
from tests.rules.builder import MAIN, TinyTrace

ONLY_COPIES = "No kernel was recorded, only copies: 30 of them"


def said(trace: TinyTrace) -> str:
    built = trace.build()
    return verdict(Analysis(built), diagnose(built))


def test_pages_that_move_alone_are_a_program_that_starts_as_well() -> None:
    trace = TinyTrace()
    for number in range(30):
        trace.copy(100.0 * number, 100.0 * number + 10, "HtoD", unified=True)
    assert said(trace) == ONLY_COPIES


def uploads(trace: TinyTrace, took_us: float, count: int = 30) -> TinyTrace:
    for number in range(count):
        at = 100.0 * number
        trace.copy(at, at + took_us, "HtoD", at - 5, pageable=True)
    return trace


@pytest.mark.parametrize(("took_us", "told"), [(10.0, True), (80.0, False)])
def test_copies_that_leave_the_gpu_idle_and_no_kernel_are_a_program_that_starts(
    took_us: float, told: bool
) -> None:
    assert (said(uploads(TinyTrace(), took_us)) == ONLY_COPIES) is told


def test_copies_beside_a_kernel_or_a_launch_are_not_alone() -> None:
    with_a_kernel = uploads(TinyTrace(), 10.0)
    with_a_kernel.operation(3_000, 3_400, "gemm", 2_990)
    launched = uploads(TinyTrace(), 10.0)
    launched.call(1_050, 1_055, "cudaLaunchKernel")
    assert ONLY_COPIES not in (said(with_a_kernel), said(launched))


@pytest.mark.parametrize(
    ("each_us", "beside", "told"), [(88.0, False, True), (91.0, False, False), (88.0, True, False)]
)
def test_collectives_that_send_nothing_of_a_program_are_a_test_of_links(
    each_us: float, beside: bool, told: bool
) -> None:
    trace = TinyTrace(rank=0)
    for number in range(24):
        trace.collective(100.0 * number, 100.0 * number + each_us, 100.0 * number - 1)
    trace.operation(2_400, 2_500, "gemm" if beside else "ncclDevKernel_Broadcast", 2_399)
    assert (said(trace) == "Only communication was recorded: 25 collectives") is told


@pytest.mark.parametrize(
    ("kernels", "each_us", "names", "judged"),
    [
        (6, 5.0, 6, False),
        (19, 5.0, 19, False),
        (20, 5.0, 20, True),
        (6, 5.0, 2, True),  # each runs three times
        (6, 470.0, 6, True),  # the GPU works for 1.1 % of the time
        (6, 390.0, 6, False),
    ],
)
def test_a_few_kernels_in_a_time_of_which_the_gpu_works_a_hundredth_are_too_little(
    kernels: int, each_us: float, names: int, judged: bool
) -> None:
    trace = uploads(TinyTrace(), 1.0)
    for number in range(kernels):
        at = 10_000.0 + 240_000.0 * number / kernels
        trace.operation(at, at + each_us, f"kernel_{number % names}", at - 8)
    trace.copy(260_000, 260_001, "DtoH", 259_990)
    assert said(trace).startswith(f"Too little was recorded to judge: {kernels} kernels") is not judged


CODE_OF_ITS_OWN = "in which the GPU has nothing to do and the CPU runs code of its own: look there first."
IN_CALLS = "in which the GPU has nothing to do and the CPU is in calls of the GPU: look there first."


@pytest.mark.parametrize(
    ("wait_us", "work_us", "call_us", "told"),
    [
        (100_000.0, 5.0, 0.0, CODE_OF_ITS_OWN),
        (99_999.0, 5.0, 0.0, ""),  # less than 100 ms
        (100_000.0, 5_500.0, 0.0, CODE_OF_ITS_OWN),  # 90.1 % of the time
        (100_000.0, 5_600.0, 0.0, ""),  # 89.9 %
        (100_000.0, 5.0, 50_000.0, IN_CALLS),
        (100_000.0, 5.0, 49_000.0, CODE_OF_ITS_OWN),
    ],
)
def test_the_one_wait_that_takes_nearly_all_of_a_short_recording_is_told(
    wait_us: float, work_us: float, call_us: float, told: str
) -> None:
    trace = TinyTrace()
    trace.operation(50, 50 + work_us, "multiply", 40)
    if call_us:
        trace.call(60 + work_us, 60 + work_us + call_us, "cudaFree")
    after = 50 + work_us + wait_us
    trace.copy(after, after + work_us, "DtoH", after - 5)
    built = trace.build()
    (first, *_) = diagnose(built).findings
    assert first.title.startswith("Too little was recorded to judge")
    assert first.explanation.endswith(told or "nothing for the program.")


FIRST_USE = "Only first use was recorded: 97 % of the time"


def first_pass(
    context_us: float = 400_000, until_us: float = 420_000, thread: int = MAIN, call: str = "cudaFree"
) -> TinyTrace:
    """A first kernel, the wait for the context in the first convolution, and the rest of the model's kernels."""
    trace = TinyTrace()
    trace.operation(0, 10, "fill", -20)
    trace.op(50, until_us, "model", thread)
    trace.call(100, 100 + context_us, call)
    for number in range(60):
        at = context_us + 200.0 * number + 200
        trace.operation(at, at + 100, f"kernel_{number % 10}", at - 20)
    return trace


def test_a_region_that_waits_for_the_context_and_ends_with_the_recorded_work_is_a_first_pass() -> None:
    assert said(first_pass()).startswith(FIRST_USE)


@pytest.mark.parametrize(
    "trace",
    [
        first_pass(until_us=402_000),  # most launches come after the region
        first_pass(thread=MAIN + 1),
        first_pass(context_us=90_000, until_us=110_000),  # so long a call may happen later too
        first_pass(call="cudaDeviceSynchronize"),
    ],
)
def test_what_follows_a_wait_elsewhere_is_judged(trace: TinyTrace) -> None:
    assert "first use" not in said(trace)
