"""A program on the CPU alone that computes gradients for all rows of an embedding table, of which it looks up few."""

from __future__ import annotations

from collections.abc import Iterable

from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.cpu.cpu_time import CpuTime
from rules.findings.base import Finding, rule
from rules.losses.cpu_rule import CpuRule
from rules.losses.cpu_work import MIN_SHARE, MIN_STEPS, longest_of
from rules.losses.dense_tables import MAX_USED, dense_tables
from rules.remedies.gradients import SPARSE_GRADIENTS
from rules.terms.culprit import Culprit, CulpritKind


@rule
class CpuDenseTables(CpuRule):
    """Large embedding tables that are trained with dense gradients."""

    id = "cpu-dense-tables"
    explanation = f"""
What it found
    Only the CPU was recorded, and each step looks up few rows of an embedding table, but makes a gradient of all its
    rows, and updates all of them.

Why it costs time
    The gradient is filled with zeros, and the optimizer reads and writes the whole table, however few rows changed.

How it decides
    The lookups of a step (aten::embedding) have at most {percent(MAX_USED)} of a table's rows, and its gradient is
    dense (aten::embedding_dense_backward). The time in that operator, and in those of the optimizer that are handed
    mostly such tables, is counted, less the part of the rows that are looked up. A table that is also a factor of a
    matrix product, as the output layer of a language model may be, gets a dense gradient from that anyway. Below
    {percent(MIN_SHARE)} of the step nothing is reported, nor if fewer than {MIN_STEPS} steps were found. Shapes must be
    recorded.

What to try
    nn.Embedding(..., sparse=True), with SGD, Adagrad or SparseAdam.

When it is wrong
    If the optimizer must change all rows in each step, as with momentum or weight decay.
"""

    def of_steps(self, analysis: Analysis, time: CpuTime) -> Iterable[Finding]:
        found = dense_tables(time)
        if found is None:
            return
        lost = round(time.without_recorder(found.spans) * (1 - found.used / found.rows))
        if lost < MIN_SHARE * time.step_ns:
            return
        yield self.lost(
            analysis,
            time,
            lost,
            "All rows of an embedding table are updated",
            account=f"A step looks up at most {found.used:,} of {found.rows:,} rows, and makes and adds gradients of "
            f"all of them. That takes {duration(lost / time.steps)} of the {duration(time.step_ns / time.steps)} of a "
            "step more than those of the rows that were looked up.",
            remedy=SPARSE_GRADIENTS,
            culprit=Culprit(CulpritKind.OPERATOR, "aten::embedding_dense_backward"),
            evidence=longest_of(time, found.spans, "all rows of a table"),
            unknown=("Whether the optimizer must change all rows in each step.",),
        )
