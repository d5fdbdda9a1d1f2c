"""Weights that are converted in each call, and conversions that are none of them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from parsers.model import Attribute
from parsers.model.late import dataclass
from rules import diagnose
from rules.fixes.plan import Plan
from tests.rules.builder import TinyTrace, steps
from tests.rules.test_fixes import plan_of_body, promised

BATCH, WEIGHT, OTHER = [8, 64], [128, 64], [64, 64]


@dataclass(frozen=True)
class Layer:
    """A product of 30 us with weights that are converted before it."""

    convert_us: float = 20.0
    converted: tuple[int, ...] = tuple(WEIGHT)
    needs_gradient: bool = False
    between: str = ""  # an operator between conversion and product
    product: str = "aten::linear"
    shapes: bool = True
    layers: int = 10
    in_steps: int = 1  # of so many, one converts
    idle_us: float = 0.0

    def body(self, trace: TinyTrace, index: int) -> None:
        at, on_gpu, number = 10.0, 20.0, 1_000 * index
        for _layer in range(self.layers):
            if index % self.in_steps == 0:
                number += 1
                self._operator(trace, at, "aten::to", [self.converted], number)
                trace.operation(on_gpu, on_gpu + self.convert_us, "direct_copy_kernel", at + 1)
                on_gpu += self.convert_us
            number += self.needs_gradient
            if self.between:
                self._operator(trace, at + 4, self.between, [self.converted], number)
            self._operator(trace, at + 8, self.product, [BATCH, WEIGHT], number)
            trace.operation(on_gpu, on_gpu + 30, "sm90_gemm_64x64_tn", at + 9)
            on_gpu += 30
            number += 1
            at += 12
        trace.call(at + 10, on_gpu + 5 + self.idle_us, "cudaDeviceSynchronize")

    def _operator(self, trace: TinyTrace, at: float, name: str, dims: list[object], number: int) -> None:
        event = np.array([trace.op(at, at + 3.5, name)])
        trace.builder.attribute(Attribute.SEQUENCE, event, number)
        if self.shapes:
            trace.builder.attribute(Attribute.INPUT_DIMS, event, trace.builder.string(json.dumps(dims)))

    @property
    def length_us(self) -> float:
        return self.layers * (self.convert_us + 30) + 100 + self.idle_us

    def plan(self, count: int = 6) -> Plan:
        return plan_of_body(self.body, count=count, length=self.length_us)


@pytest.mark.parametrize(
    ("layer", "found"),
    [
        (Layer(), True),
        (Layer(between="aten::mul"), True),
        (Layer(converted=(128, 4, 16), between="aten::view_as"), True),
        (Layer(converted=(64, 4, 32), between="aten::view_as"), False),
        (Layer(convert_us=1.7), True),
        (Layer(convert_us=1.5), False),
        (Layer(needs_gradient=True), False),
        (Layer(converted=tuple(OTHER)), False),
        (Layer(between="aten::relu"), False),
        (Layer(product="aten::bmm"), False),
        (Layer(shapes=False), False),
        (Layer(in_steps=2), False),
    ],
    ids=[
        "as they are",
        "scaled in between",
        "in groups of columns",
        "other rows",
        "a twentieth of the GPU's time",
        "less than a twentieth",
        "weights that are trained",
        "another shape: no weights of the product",
        "another operator in between",
        "a product of two batches",
        "no shapes recorded",
        "not in each step",
    ],
)
def test_weights_that_are_converted_in_each_call(layer: Layer, found: bool) -> None:
    assert ("convert-once" in promised(layer.plan())) is found


def test_of_one_step_nobody_knows_whether_it_converts_again() -> None:
    assert "convert-once" not in promised(Layer().plan(count=1))


@pytest.mark.parametrize(("idle_us", "told"), [(0.0, True), (20_000.0, False)])
def test_they_are_told_by_their_name_where_they_cost_time(idle_us: float, told: bool) -> None:
    layer = Layer(idle_us=idle_us)
    found = diagnose(steps(6, layer.length_us, layer.body).build()).findings
    names = [each.title for each in found if each.rule == "convert-once"]
    assert bool(names) is told
    assert all(each.startswith("Weights are converted in each call: ") for each in names)


def test_without_conversions_the_products_remain() -> None:
    made = next(each for each in Layer().plan().promises if each.proposal.fix == "convert-once")
    assert 500 / 300 <= made.expected <= 600 / 300  # of 500 us on the GPU, and the wait at the end of a step
