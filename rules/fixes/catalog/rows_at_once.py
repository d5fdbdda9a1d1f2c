"""Batches that are built from Python's numbers, a tensor for each row, before they go to the GPU."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.analysis.stretches.python_values import MAX_APART_NS, MIN_TIMES
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import less_host_time, most_per_step
from rules.fixes.python_rows import python_rows
from rules.remedies.host_work import ROWS_AT_ONCE
from rules.replay.replay import Replay
from rules.terms import MAJORITY


@fix
class RowsAtOnce:
    id = "rows-at-once"
    explanation = f"""
When it applies
    torch.tensor() is called at least {MIN_TIMES} times in a row on a thread that launches work, with nothing in between
    but what moves and joins its results, and never {duration(MAX_APART_NS)} or more of anything else.

What is changed in the replay
    All of the time before the next call of which they are more than half is gone; elsewhere, their own time.

What makes it more or less
    What Python does around such rows remains at most, where they are not picked by index but only built at once.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        part, gap = python_rows(analysis), replay.usual.gap
        made = part > 0
        if not made.any():
            return
        gone = np.where(part >= MAJORITY, gap, part * gap)
        yield Proposal(
            title=f"Build each batch in one call: {duration(most_per_step(replay, gone))} {replay.in_step} goes into "
            "tensors made one by one from Python values",
            categories=(Category.HOST_BOUND, Category.INPUT_BOUND),
            culprit="torch.tensor",
            problem="Batches are built from Python values one at a time",
            remedy=ROWS_AT_ONCE,
            expected=less_host_time(made, gone),
            low=less_host_time(made, part * gap),
            depends_on="what Python still does for each row",
        )
