"""Gradients of whole embedding tables of which a batch uses few rows."""

from __future__ import annotations

import json

import numpy as np
import pytest

from parsers.model import Attribute
from parsers.model.late import dataclass
from rules.analysis.analysis import Analysis
from rules.fixes.plan import Plan, Promise, make_plan
from tests.rules.builder import AUTOGRAD, TinyTrace, steps

FUNCTION = "autograd::engine::evaluate_function: "
STEPS = 6


@dataclass(frozen=True)
class Program:
    """Steps that look rows up in tables, gather gradients of whole tables, and update them."""

    rows: int = 500_000
    width: int = 64
    used: int = 8_192
    tables: int = 4
    optimizer: str = "SGD"
    product: tuple[int, ...] = (8_192, 64)
    shapes: bool = True
    bags: bool = False
    sparse: bool = False

    def plan(self) -> Plan:
        return make_plan(Analysis(steps(STEPS, 3_000, self._step).build()), reaches={})

    def promise(self) -> Promise | None:
        made = [each for each in self.plan().promises if each.proposal.fix == "use-sparse-gradients"]
        return made[0] if made else None

    def _step(self, trace: TinyTrace, index: int) -> None:
        at, number = 10.0, 1_000 * index
        table = [self.rows, self.width]
        for place in range(self.tables):
            op = trace.op(at, at + 30, "aten::embedding_bag" if self.bags else "aten::embedding")
            self._says(trace, op, number + place, table, [self.used])
            trace.operation(at + 6, at + 16, "void gather", at + 1)
            at += 40
        op = trace.op(at, at + 30, "aten::mm")
        self._says(trace, op, -1, list(self.product), [64, 64])
        trace.operation(at + 6, at + 106, "void gemm", at + 1)
        at += 120
        for place in reversed(range(self.tables)):
            self._backward(trace, at, number + place, table)
            at += 250
        trace.region(at, at + 30, f"Optimizer.step#{self.optimizer}.step")
        trace.operation(at + 8, at + 808, "void multi_tensor_apply_kernel", at + 1)
        trace.call(at + 40, at + 815, "cudaDeviceSynchronize")

    def _backward(self, trace: TinyTrace, at: float, number: int, table: list[int]) -> None:
        function = trace.op(at, at + 200, f"{FUNCTION}EmbeddingBackward0", AUTOGRAD)
        trace.builder.attribute(Attribute.SEQUENCE, np.array([function]), number)
        kind = "_embedding_bag" if self.bags else "embedding"
        kind += "_sparse_backward" if self.sparse else "_dense_backward"
        op = trace.op(at + 2, at + 198, f"aten::{kind}", AUTOGRAD)
        self._says(trace, op, -1, [self.used, self.width], [self.used])
        trace.op(at + 5, at + 30, "aten::zeros", AUTOGRAD)
        trace.operation(at + 16, at + 46, "void fill", at + 10, thread=AUTOGRAD)
        for launch in range(6):
            begun = at + 40 + 20 * launch
            trace.operation(begun + 8, begun + 18, "void radix_sort", begun, thread=AUTOGRAD)
        trace.op(at + 202, at + 230, f"{FUNCTION}torch::autograd::AccumulateGrad", AUTOGRAD)
        self._says(
            trace, trace.op(at + 203, at + 228, "torch::autograd::AccumulateGrad", AUTOGRAD), -1, table
        )

    def _says(self, trace: TinyTrace, event: int, number: int, *shapes: list[int]) -> None:
        if number >= 0:
            trace.builder.attribute(Attribute.SEQUENCE, np.array([event]), number)
        if self.shapes:
            dims = trace.builder.string(json.dumps(shapes))
            trace.builder.attribute(Attribute.INPUT_DIMS, np.array([event]), dims)


@pytest.mark.parametrize("bags", [False, True])
def test_tables_of_which_few_rows_are_used_are_named_with_all_that_they_cost(bags: bool) -> None:
    promise = Program(bags=bags).promise()
    assert promise is not None
    assert promise.proposal.title == (
        "Use sparse gradients for 4 embedding tables: a step writes and updates 500,000 rows of each, and uses at "
        "most 8,192"
    )
    assert 1.9 < promise.expected < 2.1


@pytest.mark.parametrize(
    ("program", "found"),
    [
        (Program(used=50_000), True),
        (Program(used=50_001), False),
        (Program(rows=100_000, width=40, used=64), True),
        (Program(rows=99_999, width=40, used=64), False),
        (Program(product=(64, 500_000)), False),
        (Program(product=(64, 500_001)), True),
        (Program(shapes=False), False),
        (Program(sparse=True), False),
    ],
    ids=[
        "a tenth of the rows",
        "more of them",
        "4 million elements",
        "fewer",
        "the table is a factor of a product",
        "another one is",
        "no shapes",
        "sparse gradients",
    ],
)
def test_what_takes_a_dense_gradient_in_vain(program: Program, found: bool) -> None:
    assert (program.promise() is not None) is found


@pytest.mark.parametrize(("optimizer", "unsure"), [("SGD", False), ("Adam", True)])
def test_an_optimizer_that_sorts_the_rows_saves_less_at_least(optimizer: str, unsure: bool) -> None:
    promise = Program(optimizer=optimizer).promise()
    assert promise is not None
    assert (promise.proposal.low is not None) is unsure
    assert ("optimizer" in promise.proposal.depends_on) is unsure
