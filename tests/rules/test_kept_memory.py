"""Memory that PyTorch asks for in a recording in which nothing repeats is kept: it is no fault of each step."""

from __future__ import annotations

import pytest

from rules.analysis.analysis import Analysis
from rules.diagnosis import diagnosis_of
from rules.findings.base import Finding, Severity
from tests.rules.builder import TinyTrace, steps

PASS_US = 21_000
KERNELS = "aabacabbcadbcdaaccbdb"  # in no order that repeats


def allocating(
    frees: int = 0, passes: int = 1, operator: str = "aten::mm", free: str = "cudaFree"
) -> Finding:
    """Passes of 21 kernels, before each of which memory is asked for, in the window 20 times; some calls free some."""

    def body(trace: TinyTrace, _: int) -> None:
        for number, kernel in enumerate(KERNELS):
            at = 1_000.0 * number
            trace.op(at + 1, at + 990, operator)
            trace.call(at + 2, at + 400, "cudaMalloc")
            if 0 < number <= frees:
                trace.call(at + 400, at + 440, free)
            trace.operation(at + 460, at + 900, f"gemm_{kernel}", at + 450)

    if passes > 1:
        trace = steps(passes, PASS_US, body)
    else:
        trace = TinyTrace()
        body(trace, 0)
    found = diagnosis_of(Analysis(trace.build())).findings
    return next(each for each in found if each.rule == "allocation-in-step")


@pytest.mark.parametrize(
    ("frees", "passes", "operator", "severity"),
    [
        (0, 1, "aten::mm", Severity.INFO),
        (2, 1, "aten::mm", Severity.INFO),
        (3, 1, "aten::mm", Severity.HIGH),
        (0, 2, "aten::mm", Severity.HIGH),
        (0, 1, "hipblas", Severity.HIGH),  # nothing says that PyTorch asks
    ],
)
def test_only_a_first_pass_of_pytorch_that_gives_nothing_back_is_no_fault(
    frees: int, passes: int, operator: str, severity: Severity
) -> None:
    assert allocating(frees, passes, operator).severity is severity


@pytest.mark.parametrize(
    "free", ["cuMemUnmap", "cuMemRelease", "cudaFreeAsync", "cudaMemPoolTrimTo", "cudaHostUnregister"]
)
def test_calls_that_give_memory_back_are_told_from_those_that_ask_for_it(free: str) -> None:
    assert allocating(3, free=free).severity is Severity.HIGH


def test_it_is_said_that_the_memory_is_kept_and_not_that_it_is_freed() -> None:
    found = allocating()
    assert "for the first time" in found.title
    assert "Memory is allocated: 20 calls" in found.explanation
    assert "empty_cache" not in " ".join(map(str, found.advice))
