"""Tensors whose elements are computed and assigned one by one, and their gradients."""

from __future__ import annotations

import numpy as np
import pytest

from parsers.model import Attribute
from rules.fixes.catalog.written_out import MAX_PARTS, MIN_IN_STEP, MIN_WRITES
from rules.fixes.plan import Promise
from tests.rules.builder import AUTOGRAD, TinyTrace
from tests.rules.test_fixes import plan_of_body

FUNCTION = "autograd::engine::evaluate_function: "
SAMPLES = 512
COMPUTES = [f"aten::{each}" for each in ("cos", "sin", "neg", "mul", "add")]


def whole_tensors(
    *,
    tensors: int = 4,
    writes: int = 12,
    sides: tuple[int, int] = (4, 4),
    indices: int = 2,
    between: str = "",
    gradients: bool = False,
    shapes: bool = True,
) -> list[Promise]:
    """What is promised where a step assigns so many elements of each of some tensors of (samples, rows, columns)."""

    def body(trace: TinyTrace, index: int) -> None:
        at, number = 10.0, 10_000 * index
        assigned: list[int] = []

        def operator(name: str, dims: list[int], *, launches: bool = False) -> None:
            nonlocal at, number
            event = trace.op(at, at + 20, name)
            number += 1
            trace.builder.attribute(Attribute.SEQUENCE, np.array([event]), number)
            if shapes:
                trace.shapes(event, [dims], ["float"])
            if launches:
                trace.operation(at + 8, at + 10, f"void {name[6:]}_kernel", at + 2, launch_us=4)
            at += 22

        for _tensor in range(tensors):
            operator("aten::zeros", [], launches=True)
            for write in range(writes):
                operator(between or COMPUTES[write * write % 5], [SAMPLES], launches=True)
                if indices == 2:
                    operator("aten::select", [SAMPLES, *sides])
                operator("aten::select", [SAMPLES, sides[0]])
                operator("aten::copy_", [SAMPLES], launches=True)
                number += 1
                assigned.append(number)
        operator("aten::bmm", [SAMPLES, 4, 4], launches=True)
        for each in reversed(assigned) if gradients else ():
            function = trace.op(at, at + 40, f"{FUNCTION}torch::autograd::CopySlices", AUTOGRAD)
            trace.builder.attribute(Attribute.SEQUENCE, np.array([function]), each)
            trace.operation(at + 8, at + 10, "void clone_kernel", at + 2, thread=AUTOGRAD, launch_us=4)
            at += 44
        trace.kernels(at, 30, 5, 10, "void last_kernel")

    each_write = 22 * (2 + indices) + 44 * gradients
    plan = plan_of_body(body, length=500 + tensors * (22 + writes * each_write))
    assert plan.crashed == ()
    return [each for each in plan.promises if each.proposal.fix == "whole-tensors"]


def test_elements_that_are_assigned_one_by_one_are_computed_together() -> None:
    (found,) = whole_tensors()
    assert "48 elements" in found.proposal.title
    assert found.low < found.expected < found.high


def test_the_copies_of_the_backward_pass_go_with_the_assignments() -> None:
    (without,), (found,) = whole_tensors(), whole_tensors(gradients=True)
    assert found.expected > without.expected > 1.5


@pytest.mark.parametrize(
    ("tensors", "writes", "found"),
    [
        (4, MIN_WRITES, True),
        (5, MIN_WRITES - 1, False),
        (2, MIN_IN_STEP // 2, True),
        (2, MIN_IN_STEP // 2 - 1, False),
    ],
    ids=["eight in a row", "fewer", "32 in a step", "fewer in a step"],
)
def test_how_many_elements_are_assigned(tensors: int, writes: int, found: bool) -> None:
    assert bool(whole_tensors(tensors=tensors, writes=writes)) is found


@pytest.mark.parametrize(
    ("sides", "found"), [((4, 4), True), ((8, 8), True), ((8, MAX_PARTS // 8 + 1), False), ((2, 3), False)]
)
def test_a_matrix_has_few_elements(sides: tuple[int, int], found: bool) -> None:
    """Eight at least, or it is two halves; of more than 64 each may be of a time that needs the one before."""
    assert bool(whole_tensors(sides=sides)) is found


def test_rows_may_be_states_of_which_each_needs_the_one_before() -> None:
    assert not whole_tensors(indices=1)


def test_what_is_more_than_an_element_comes_between() -> None:
    assert not whole_tensors(between="aten::mv")


def test_shapes_say_what_an_element_is() -> None:
    assert not whole_tensors(shapes=False)
