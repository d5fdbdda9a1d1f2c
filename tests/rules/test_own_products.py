"""A product in a kernel of the program's own counts as one without tensor cores, and is better left to a library."""

from __future__ import annotations

import pytest

from rules import Finding, diagnose
from tests.rules.builder import TinyTrace, steps

OWN = "matmul_k(float*, float*, float*, int, int, int)"
LIBRARY = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_execute"


def found(kernel: str, *, operator: str = "", python: bool = True, library_us: int = 0) -> Finding | None:
    def body(trace: TinyTrace, _: int) -> None:
        if python:
            trace.op(0, 2, "aten::empty")
        if operator:
            trace.op(3, 9, operator)
        trace.operation(10, 900, kernel, 5)
        if library_us:
            trace.op(20, 30, "aten::mm")
            trace.operation(900, 900 + library_us, LIBRARY, 25)

    trace = steps(5, 1_000 + library_us, body, into=TinyTrace(capability=(8, 0))).build()
    return next((each for each in diagnose(trace).findings if each.rule == "no-tensor-cores"), None)


@pytest.mark.parametrize(
    ("kernel", "told"),
    [
        (OWN, True),
        ("matmul_k(float const*, float*, int)", True),
        ("void matmul_k(const float *, float *)", True),
        ("matmul_k(__half*, __half*, float*)", False),
        ("matmul_wmma_k(float*, float*)", False),
        ("gemv_k(float*, float*)", False),
        ("void lib::matmul_k(float*, float*)", False),
        ("histogram_k(float*, float*)", False),
        ("matmul_kernel", False),
    ],
)
def test_by_its_name_and_its_parameters(kernel: str, told: bool) -> None:
    assert (found(kernel) is not None) is told


@pytest.mark.parametrize(
    ("operator", "python", "told"), [("", True, True), ("my::matmul", True, False), ("", False, False)]
)
def test_only_what_a_python_program_launches_without_an_operator(
    operator: str, python: bool, told: bool
) -> None:
    assert (found(OWN, operator=operator, python=python) is not None) is told


@pytest.mark.parametrize(("library_us", "own"), [(800, True), (1_000, False)])
def test_the_longest_kernel_decides_what_is_advised(library_us: int, own: bool) -> None:
    finding = found(OWN, library_us=library_us)
    assert finding is not None
    assert ("matmul_k, a kernel of the program's own." in finding.explanation) is own
    assert finding.explanation.startswith("100 % of the time in matrix products")
    assert any("Multiply with torch.matmul" in each for each in finding.advice) is own
    assert any("set_float32_matmul_precision" in each for each in finding.advice) is not own
    assert finding.confidence == ("medium" if own else "high")
