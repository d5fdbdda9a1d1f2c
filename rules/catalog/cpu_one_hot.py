"""A program on the CPU alone that looks rows up by products with one-hot vectors."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import I64, Attribute, EventKind
from parsers.model.names.per_name import named
from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import contains, union
from rules.analysis.cpu.cpu_time import CpuTime
from rules.analysis.names.operators import is_autograd_function
from rules.findings.base import Finding, rule
from rules.kernels.one_hot_products import BETWEEN, LEFT, one_hot_products
from rules.losses.cpu_rule import CpuRule, line_or_operator
from rules.losses.cpu_work import MIN_SHARE, MIN_STEPS, longest_of
from rules.remedies.look_ups import ROWS_BY_INDEX


@rule
class CpuOneHot(CpuRule):
    """Products with one-hot vectors, on the CPU."""

    id = "cpu-one-hot"
    explanation = f"""
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

    def of_steps(self, analysis: Analysis, time: CpuTime) -> Iterable[Finding]:
        forward = one_hot_products(analysis.trace, time.operators)
        if not len(forward):
            return
        operators = np.concatenate((forward, _gradients(time, forward)))
        spans = union(*analysis.trace.events.spans(operators))
        took = time.without_recorder(spans)
        lost = round(took * (1 - LEFT))
        if lost < MIN_SHARE * time.step_ns:
            return
        yield self.lost(
            analysis,
            time,
            lost,
            "Rows are looked up by products with one-hot vectors",
            took=took,
            account="Making one-hot vectors and multiplying them by a matrix, with the gradients of that, takes "
            f"{duration(took / time.steps)} of the {duration(time.step_ns / time.steps)} of a step.",
            remedy=ROWS_BY_INDEX,
            culprit=line_or_operator(analysis, time, "aten::one_hot", spans),
            evidence=longest_of(time, spans, "products with one-hot vectors"),
        )


def _gradients(time: CpuTime, forward: I64) -> I64:
    """The functions of autograd, of the outermost operators, for what these operators call."""
    trace, table = time.trace, time.trace.events
    functions = time.operators[named(trace, time.operators, is_autograd_function)]
    called = time.activity.of_kind(EventKind.CPU_OP)
    inside = contains(union(*table.spans(forward)), table.start[called])
    numbers = trace.attribute(Attribute.SEQUENCE, called[inside], -1)
    return functions[np.isin(trace.attribute(Attribute.SEQUENCE, functions, -1), numbers[numbers >= 0])]
