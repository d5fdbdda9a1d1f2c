"""What a compiler leaves of kernels on tensors that fusing never writes, and of those on complex numbers."""

from __future__ import annotations

import pytest

from rules.fixes.plan import Promise
from rules.kernels.launched_elements import spread_out
from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body

POINTWISE, REDUCE = "void vectorized_elementwise_kernel<4>", "void reduce_kernel<512, 1, ReduceOp<float>>"
FEW, MANY = [4096, 1, 64], [4096, 512, 64]
DIFFERENCES = (("aten::sub", [FEW, [1, 512, 64], []], POINTWISE),)
SQUARED, SUMMED = ("aten::pow", [MANY, []], POINTWISE), ("aten::sum", [MANY, [], [], []], REDUCE)
Operators = tuple[tuple[str, list[list[int]], str], ...]


def called(trace: TinyTrace, operators: Operators) -> None:
    """Three times the same kernels, which fill the step; the GPU does nothing else."""
    each = 1800 / (3 * len(operators))
    for place, (name, dims, kernel) in enumerate(operators * 3):
        operator = trace.op(5 + place * 8, 11 + place * 8, name)
        trace.shapes(operator, dims, ["float"] * len(dims))
        trace.operation(100 + place * each, 99 + (place + 1) * each, kernel, 6 + place * 8)
    trace.call(90, 1990, "cudaDeviceSynchronize")


def compiled(operators: Operators) -> Promise:
    made = plan_of_body(lambda trace, _: called(trace, operators))
    assert made.crashed == ()
    return next(each for each in made.promises if each.proposal.fix == "compile-model")


@pytest.mark.parametrize(
    ("operators", "kernels"),
    [
        ((*DIFFERENCES, SQUARED, SUMMED), 9),
        ((*DIFFERENCES, SUMMED), 6),
        ((SQUARED, SUMMED), 0),
        ((*DIFFERENCES, SQUARED), 0),
        ((("aten::sub", [[4096, 512, 8], [512, 64, 8], []], POINTWISE), SUMMED), 0),
        (
            (
                ("aten::add", [[4096, 7, 1], [1, 1, 7], []], POINTWISE),
                ("aten::sum", [[4096, 7, 7], [], []], REDUCE),
            ),
            0,
        ),
        (
            (
                ("aten::add", [[4096, 9, 1], [1, 1, 9], []], POINTWISE),
                ("aten::sum", [[4096, 9, 9], [], []], REDUCE),
            ),
            6,
        ),
        ((*DIFFERENCES, ("aten::mul", [[9, 9], [9, 9]], POINTWISE), SUMMED), 0),
        ((*DIFFERENCES, ("aten::sum", [[2**40, 2**40], []], REDUCE)), 0),
    ],
    ids=[
        "squared and summed",
        "summed",
        "large from the beginning",
        "kept",
        "shapes that do not fit",
        "a few times larger",
        "eight times larger",
        "something else in between",
        "another size",
    ],
)
def test_kernels_on_what_is_spread_out_and_reduced_are_found(operators: Operators, kernels: int) -> None:
    trace = TinyTrace()
    called(trace, operators)
    assert len(spread_out(trace.build())) == kernels


def test_what_fusing_never_writes_costs_hardly_anything() -> None:
    spread = compiled((*DIFFERENCES, SQUARED, SUMMED))
    whole = compiled((("aten::sub", [MANY, MANY, []], POINTWISE), SQUARED, SUMMED))
    assert spread.expected > 1.3 * whole.expected
    assert spread.high > spread.expected > spread.low > whole.low


def test_shapes_that_nobody_wrote_are_no_tensors() -> None:
    trace = TinyTrace()
    operator = trace.op(5, 11, "aten::sub")
    trace.shapes(operator, [[2**62, 1], [1, 2**62], ["a"]], ["float"])  # type: ignore[list-item]
    trace.operation(20, 30, POINTWISE, 6)
    assert not len(spread_out(trace.build()))


@pytest.mark.parametrize(("element", "more"), [("float", True), ("c10::complex<float>", False)])
def test_complex_numbers_are_left_as_they_are_except_at_best(element: str, more: bool) -> None:
    shifted = ("aten::roll", [MANY, [], []], f"void roll_cuda_kernel<{element}>")
    added = ("aten::add", [MANY, MANY, []], f"void elementwise_kernel<CUDAFunctor_add<{element}>>")
    plain = (("aten::mul", [MANY, []], POINTWISE), ("aten::relu", [MANY], POINTWISE))
    promise = compiled((shifted, shifted, added, *plain))
    assert (promise.expected > 2) is more
    assert promise.high > 2
