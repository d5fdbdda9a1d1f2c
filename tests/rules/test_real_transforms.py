"""Fourier transforms of real numbers as complex ones, and what looks like them."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest

from parsers.model import Attribute
from rules.fixes.catalog.real_transforms import TransformRealNumbers
from rules.fixes.plan import Promise
from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body

WHOLE = [8, 64, 64]
REST = 400.0  # us of other work in a step
# an operator, the shape and the type that it is given, what it converts (us), and its other time (us)
Step = tuple[str, list[int], str, float, float]
COMPLEX = "c10::complex<float>"
THERE: Step = ("aten::fft_fft2", WHOLE, "float", 50.0, 200.0)
FILTER: Step = ("aten::mul", WHOLE, COMPLEX, 0.0, 100.0)
BACK: Step = ("aten::fft_ifft2", WHOLE, COMPLEX, 0.0, 200.0)
REAL: Step = ("aten::real", WHOLE, COMPLEX, 0.0, 0.0)
ALL = [THERE, FILTER, BACK, REAL]


def program(called: Sequence[Step], *, shapes: bool = True) -> object:
    def body(trace: TinyTrace, _: int) -> None:
        for part in range(3):
            begin = 20 + part * REST / 3
            trace.operation(begin, begin + REST / 3, "sm90_gemm", 1 + 6 * part)
        at, on_gpu = 20.0, 20 + REST
        for name, shape, kind, converting, us in called:
            event = np.array([trace.op(at, at + 18, name)])
            if converting:
                trace.op(at + 1, at + 8, "aten::_to_copy")
            for which, value in (
                (Attribute.INPUT_DIMS, [shape, []]),
                (Attribute.INPUT_TYPES, [kind, "Scalar"]),
            ):
                if shapes:
                    trace.builder.attribute(which, event, trace.builder.string(json.dumps(value)))
            for begin, long in ((at + 2, converting), (at + 10, us)):
                if long:
                    trace.operation(on_gpu, on_gpu + long, f"void {name[6:]}_kernel", begin)
                    on_gpu += long
            at += 20
        trace.call(at, on_gpu + 5, "cudaDeviceSynchronize")

    return body


def promised(called: Sequence[Step], *, shapes: bool = True) -> dict[str, Promise]:
    made = plan_of_body(
        program(called, shapes=shapes), length=REST + 30 + sum(sum(each[3:]) for each in called)
    )
    assert made.crashed == ()
    return {each.proposal.fix: each for each in made.promises}


@pytest.mark.parametrize(
    ("called", "found"),
    [
        (ALL, True),
        ([THERE, THERE, FILTER, BACK, REAL], True),
        ([THERE, FILTER], True),
        ([THERE, FILTER, BACK, FILTER, FILTER, REAL], True),
        ([THERE, FILTER, BACK, FILTER, FILTER, FILTER, REAL], False),
        ([THERE, FILTER, BACK, FILTER], False),
        ([THERE, REAL, FILTER], False),
        ([("aten::fft_fft2", WHOLE, COMPLEX, 0.0, 250.0), FILTER, BACK, REAL], False),
        ([("aten::fft_rfft2", WHOLE, "float", 0.0, 250.0), FILTER, ("aten::fft_irfft2", *BACK[1:])], False),
        ([(*THERE[:3], 10.0, 8.0)], False),
        ([(*THERE[:3], 18.0, 8.0)], True),
    ],
    ids=[
        "there, filtered and back",
        "a product of two spectra",
        "a spectrum alone",
        "two operators before the real part",
        "three operators before the real part",
        "a complex result",
        "the real part of a spectrum",
        "complex numbers",
        "half spectra",
        "less than a twentieth of the GPU's time",
        "more than a twentieth",
    ],
)
def test_real_numbers_that_are_transformed_as_complex_ones(called: Sequence[Step], found: bool) -> None:
    assert (TransformRealNumbers.id in promised(called)) is found


def test_conversions_go_and_half_of_the_transforms_and_of_what_works_on_the_spectrum_remains() -> None:
    made = promised(ALL)[TransformRealNumbers.id]
    whole = REST + 50 + 200 + 100 + 200
    assert made.expected == pytest.approx(whole / (REST + 100 + 50 + 100), rel=0.05)
    assert made.low < whole / (REST + 100 + 100 + 100) * 1.01
    bare = promised(ALL, shapes=False)[TransformRealNumbers.id]
    assert bare.expected == pytest.approx(whole / (REST + 100 + 100 + 100), rel=0.05)


def test_a_transform_along_one_dimension_computes_one_half_already() -> None:
    """What fills in the other half goes, and half of what works on both remains."""

    def body(trace: TinyTrace, _: int) -> None:
        trace.operation(20, 320, "sm90_gemm", 2)
        trace.op(10, 40, "aten::fft_fft")
        trace.op(11, 36, "aten::_fft_r2c")
        back, real = trace.op(50, 70, "aten::fft_ifft"), trace.op(80, 90, "aten::real")
        assert back < real
        trace.operation(320, 420, "void vector_fft_r2c", 12)
        trace.operation(420, 520, "_fft_conjugate_copy_kernel", 20)
        trace.operation(520, 720, "void vector_fft", 52)
        trace.call(100, 725, "cudaDeviceSynchronize")

    made = next(
        each
        for each in plan_of_body(body, length=740).promises
        if each.proposal.fix == TransformRealNumbers.id
    )
    assert made.expected == pytest.approx(740 / (740 - 100 - 100), rel=0.05)


def test_the_gradient_of_a_transform_stays_and_that_of_its_conversion_goes() -> None:
    """As operators of autograd they bear the number of the forward one."""

    def body(trace: TinyTrace, _: int) -> None:
        forward = [trace.op(20, 38, "aten::fft_fft2"), trace.op(40, 50, "aten::relu")]
        trace.op(21, 26, "aten::_to_copy")
        converts, transforms = (
            trace.op(at, at + 10, f"autograd::engine::evaluate_function: {name}Backward0")
            for at, name in ((60, "ToCopy"), (80, "FftC2C"))
        )
        for number, event in enumerate((forward[0], forward[1], converts, transforms)):
            state(trace, event, Attribute.SEQUENCE, 5 if number != 1 else 9)
        at = 25.0
        for launch, long in ((22, 50.0), (30, 200.0), (42, 300.0), (62, 50.0), (82, 200.0)):
            trace.operation(at, at + long, "void kernel", launch)
            at += long
        trace.call(100, at + 5, "cudaDeviceSynchronize")

    def state(trace: TinyTrace, event: int, which: Attribute, value: int) -> None:
        trace.builder.attribute(which, np.array([event]), np.array([value]))

    (made,) = (
        each
        for each in plan_of_body(body, length=840).promises
        if each.proposal.fix == TransformRealNumbers.id
    )
    assert made.expected == pytest.approx(800 / (800 - 50 - 100 - 50), rel=0.05)
    assert made.high > 1.05 * made.expected
