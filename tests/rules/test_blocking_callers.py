"""Who made a blocking call or asked for a copy: a region, else a Python frame, else the operator around it."""

from __future__ import annotations

import pytest

from parsers.model import EventKind
from rules import diagnose
from rules.findings.base import Category, Finding
from tests.rules.builder import TinyTrace, steps

# The cases lie on either side of these.
SCALAR_BYTES = 16

MASK = "model.py(42): select"


def read_back(trace: TinyTrace, start: float, operator: str, *, inner: str = "") -> None:
    """A value is computed, copied to the host and waited for inside an operator; then the CPU launches again."""
    trace.op(start, start + 260, operator)
    if inner:
        trace.op(start + 1, start + 259, inner)
    trace.operation(start + 20, start + 200, "reduce_kernel", start + 10)
    trace.operation(
        start + 202,
        start + 204,
        "Memcpy DtoH (Device -> Pageable)",
        start + 20,
        kind=EventKind.MEMCPY,
        copy_kind=2,
    )
    trace.call(start + 30, start + 255, "cudaStreamSynchronize")


def blocked(
    operator: str, *, inner: str = "", frame: str = "", region: str = "", device: bool = False
) -> Finding:
    def body(trace: TinyTrace, _: int) -> None:
        if region:
            trace.region(0, 990, region)
        for number in range(2):
            start = 400 * number
            if frame:
                trace.frame(start - 1 if start else 0, start + 290, "train.py(7): main")
                trace.frame(start, start + 280, frame)
                trace.frame(start + 1, start + 270, "torch/_tensor.py(3): nonzero")
            if device:
                trace.operation(start + 10, start + 200, "gemm", start + 2)
                trace.call(start + 30, start + 250, "cudaDeviceSynchronize")
            else:
                read_back(trace, start + 2, operator, inner=inner)
            trace.operation(start + 300, start + 380, "gemm", start + 290)

    made = steps(5, 1000, body).build()
    return next(each for each in diagnose(made).findings if each.category is Category.SYNCHRONIZATION)


@pytest.mark.parametrize("read", [False, True])
def test_values_in_the_cpu_s_memory_are_no_read_backs_whatever_else_waits(read: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        read_back(trace, 2, "aten::_local_scalar_dense" if read else "aten::copy_")
        trace.operation(300, 380, "gemm", 290)
        for number in range(3):
            trace.op(400 + 10 * number, 405 + 10 * number, "aten::_local_scalar_dense")

    (found,) = (
        each
        for each in diagnose(steps(5, 1000, body).build()).findings
        if each.category is Category.SYNCHRONIZATION
    )
    said = found.explanation
    assert ("1 scalar read-back a step" in said) is read
    assert ("3 other values a step lie" if read else "3 values a step lie in the CPU's memory") in said


def test_a_call_outside_any_region_is_placed_in_its_operator() -> None:
    assert "cudaStreamSynchronize in aten::nonzero" in blocked("aten::nonzero").explanation


def test_with_stacks_it_is_placed_in_the_user_s_own_frame() -> None:
    found = blocked("aten::nonzero", frame=MASK)
    assert found.culprit.text.endswith(f" in {MASK}")
    assert "aten::nonzero in aten::nonzero" not in found.explanation


def test_a_region_says_more_than_a_frame() -> None:
    assert blocked("aten::nonzero", frame=MASK, region="postprocess").culprit.text.endswith(" in postprocess")


def test_the_call_inside_a_read_back_is_not_counted_beside_it() -> None:
    explanation = blocked("aten::item", inner="aten::_local_scalar_dense").explanation
    assert "because of 2 scalar read-backs a step;" in explanation


def test_operators_whose_result_has_no_known_size_are_counted_and_advised_on_their_own() -> None:
    found = blocked("aten::nonzero")
    assert "because of 2 searches for values (nonzero, x[mask]) a step;" in found.explanation
    assert "torch.where" in found.advice[0]
    assert not any(".item()" in advice for advice in found.advice)


def copied_and_waited_for(size: int, *others: str) -> Finding:
    """A recording without operators: work, a copy of ``size`` bytes to the host, a wait for it; then other calls."""

    def body(trace: TinyTrace, _: int) -> None:
        trace.operation(10, 200, "reduce_kernel", 2)
        trace.copy(202, 204, "DtoH", 12, bytes=size)
        trace.call(30, 250, "cudaStreamSynchronize")
        for number, name in enumerate(others):
            trace.call(260 + 20 * number, 275 + 20 * number, name)
        trace.operation(400, 900, "gemm", 390)

    findings = diagnose(steps(5, 1000, body).build()).findings
    return next(each for each in findings if each.category is Category.SYNCHRONIZATION)


def test_without_operators_a_copy_of_one_number_that_is_waited_for_is_a_read_back() -> None:
    found = copied_and_waited_for(SCALAR_BYTES, "cudaDeviceSynchronize")
    assert "because of 1 scalar read-back a step and 1 other blocking call a step;" in found.explanation
    found = copied_and_waited_for(SCALAR_BYTES)
    assert "because of 1 scalar read-back a step;" in found.explanation
    assert ".item()" in found.advice[0]


def test_a_larger_copy_that_is_waited_for_is_none() -> None:
    assert "read-back" not in copied_and_waited_for(SCALAR_BYTES + 1).explanation


def test_a_synchronisation_that_reads_nothing_back_is_a_blocking_call() -> None:
    found = blocked("", device=True)
    assert "because of 2 blocking calls a step;" in found.explanation
    assert "torch.cuda.synchronize()" in found.advice[0]


@pytest.mark.parametrize(
    ("copied", "told"),
    [(True, "1 blocking call a step and 2 blocking copies a step;"), (False, "1 blocking call a step;")],
)
def test_blocking_copies_are_counted_where_the_gpu_idles_after_them(copied: bool, told: str) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.operation(10, 200, "reduce_kernel", 2)
        trace.call(30, 250, "cudaDeviceSynchronize")
        for start in (300, 450) if copied else ():
            trace.operation(start + 4, start + 80, "Memcpy DtoH (Device -> Pageable)", kind=EventKind.MEMCPY)
            trace.call(start, start + 140, "cudaMemcpy")
        trace.operation(620, 900, "gemm", 610)

    findings = diagnose(steps(5, 1000, body).build()).findings
    found = next(each for each in findings if each.category is Category.SYNCHRONIZATION)
    assert f"because of {told}" in found.explanation


def test_an_allocation_is_placed_in_a_frame_but_in_no_operator() -> None:
    def body(trace: TinyTrace, index: int, frame: str) -> None:
        if frame:
            trace.frame(0, 900, frame)
        trace.operation(10, 200, "gemm", 0)
        trace.op(205, 700, "aten::empty")
        trace.call(210, 690, "cudaMalloc")
        trace.operation(720, 900, "gemm", 710)

    for frame, culprit in (("", "cudaMalloc"), (MASK, f"cudaMalloc in {MASK}")):
        made = steps(5, 1000, lambda trace, index, frame=frame: body(trace, index, frame)).build()
        found = next(each for each in diagnose(made).findings if each.category is Category.ALLOCATOR)
        assert found.culprit.text == culprit


def test_with_stacks_a_copy_is_asked_for_by_a_frame() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.frame(0, 400, "data.py(9): to_gpu")
        trace.copy(10, 390, "HtoD", 2, pageable=True)
        trace.operation(400, 900, "gemm", 395)

    findings = diagnose(steps(5, 1000, body).build()).findings
    found = next(each for each in findings if each.category is Category.COPY_H2D)
    assert found.culprit.text.endswith(" in data.py(9): to_gpu")
    assert found.cannot_tell == ""
