"""Rows of a matrix are looked up instead of being multiplied by one-hot vectors."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import durations_times
from rules.fixes.forms.written import called_in_order, costly_calls
from rules.kernels.one_hot_products import LEFT, MAX_LEFT, MIN_LEFT, one_hot_products
from rules.remedies.look_ups import ROWS_BY_INDEX
from rules.replay.replay import Replay


@fix
class LookRowsUp:
    """Products with one-hot vectors."""

    id = "look-rows-up"
    explanation = f"""
When it applies
    One-hot vectors are made (aten::one_hot) and multiplied by a matrix, with at most two operators between, such as a
    conversion. That takes at least 5 % of the GPU's time, with its gradient. Shapes must be recorded.

What is changed in the replay
    A look-up takes {percent(LEFT)} of this time, and so does its gradient.

What makes it more or less
    How many rows are looked up, and how long the rows are: {percent(MIN_LEFT)} to {percent(MAX_LEFT)} of the time
    is left.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        found = [one_hot_products(analysis.trace, operators) for operators in called_in_order(analysis)]
        operators = np.concatenate([np.empty(0, np.int64), *found])
        nodes, share = costly_calls(analysis, replay, operators)
        if not share:
            return
        operations = nodes[replay.device.launch]
        yield Proposal(
            title=f"Look rows up by index: products with one-hot vectors take {percent(share)} of the GPU's time",
            categories=(Category.SLOW_OPERATOR, Category.MEMORY_BOUND_KERNELS),
            culprit="aten::one_hot",
            problem="Rows are looked up by products with one-hot vectors",
            remedy=ROWS_BY_INDEX,
            expected=durations_times(operations, LEFT),
            low=durations_times(operations, MAX_LEFT),
            high=durations_times(operations, MIN_LEFT),
            depends_on="how many rows are looked up, and how long they are",
        )
