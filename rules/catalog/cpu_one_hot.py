"""A program on the CPU alone that looks rows up by products with one-hot vectors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from parsers.model import I64, Attribute, EventKind
from parsers.model.names.per_name import named
from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import contains, union
from rules.analysis.cpu.cpu_time import CpuTime, cpu_time
from rules.analysis.names.operators import AUTOGRAD_FUNCTION
from rules.findings.base import Category, Finding, Need, Rule, rule
from rules.kernels.one_hot_products import BETWEEN, LEFT, one_hot_products
from rules.losses.cpu_work import MIN_SHARE, MIN_STEPS, culprit_of, longest_of, own_lines
from rules.remedies.look_ups import ROWS_BY_INDEX
from rules.terms.culprit import Culprit, CulpritKind
from rules.wording.headline import Headline
from rules.wording.phrases import of_every_step


@rule
class CpuOneHot(Rule):
    """Products with one-hot vectors, on the CPU."""

    id: ClassVar[str] = "cpu-one-hot"
    category: ClassVar[Category] = Category.HOST_BOUND
    needs: ClassVar[frozenset[Need]] = frozenset({Need.CPU_EVENTS})
    explanation: ClassVar[str] = f"""
What it found
    Only the CPU was recorded, and vectors that are one in a single place and zero everywhere else are multiplied by a
    matrix.

Why it costs time
    The product is a row of the matrix. Multiplying reads all of it for each vector, and the vectors are as large as
    there are rows.

How it decides
    One-hot vectors are made, and as many vectors are multiplied by a matrix at most {BETWEEN} operators later. What
    the gradients of these products take counts, too, where sequence numbers were recorded; {percent(LEFT)} of it all
    remains. Below {percent(MIN_SHARE)} of the step nothing is reported, nor if fewer than {MIN_STEPS} steps were found.
    Shapes must be recorded.

What to try
    Index the matrix: weight[ids], F.embedding(ids, weight) or nn.Embedding.

When it is wrong
    If what is multiplied is something else than the vectors that were made, but as large.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        time = cpu_time(analysis)
        if time is None or not time.is_all or time.steps < MIN_STEPS:
            return
        table = analysis.trace.events
        forward = one_hot_products(analysis.trace, time.operators)
        if not len(forward):
            return
        operators = np.concatenate((forward, _gradients(time, forward)))
        spans = union(table.start[operators], table.end[operators])
        took = time.without_recorder(spans)
        lost = round(took * (1 - LEFT))
        if lost < MIN_SHARE * time.step_ns:
            return
        yield self.finding(
            analysis,
            ceiling_ns=lost,
            window_ns=time.step_ns,
            headline=Headline(
                "Rows are looked up by products with one-hot vectors",
                of_every_step(analysis, took / time.step_ns),
            ),
            account="Making one-hot vectors and multiplying them by a matrix, with the gradients of that, takes "
            f"{duration(took / time.steps)} of the {duration(time.step_ns / time.steps)} of a step.",
            remedy=ROWS_BY_INDEX,
            culprit=culprit_of(
                analysis, own_lines(analysis, time, spans), Culprit(CulpritKind.OPERATOR, "aten::one_hot")
            ),
            evidence=longest_of(int(table.lane[forward[0]]), spans, "products with one-hot vectors"),
        )


def _gradients(time: CpuTime, forward: I64) -> I64:
    """The functions of autograd, of the outermost operators, for what these operators call."""
    trace, table = time.trace, time.trace.events
    functions = time.operators[named(trace, time.operators, lambda name: name.startswith(AUTOGRAD_FUNCTION))]
    called = time.activity.events[time.activity.kind == EventKind.CPU_OP]
    inside = contains(union(table.start[forward], table.end[forward]), table.start[called])
    numbers = trace.attribute(Attribute.SEQUENCE, called[inside], -1)
    return functions[np.isin(trace.attribute(Attribute.SEQUENCE, functions, -1), numbers[numbers >= 0])]
