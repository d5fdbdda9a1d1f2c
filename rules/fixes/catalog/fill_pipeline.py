"""A pipeline works on several micro-batches at once, so that its stages wait less for one another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from rules.analysis.analysis import Analysis
from rules.analysis.ranks.collectives import collective_columns
from rules.analysis.ranks.stages import mostly_passes_on
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import first_members, without_meetings
from rules.remedies.communication import full_pipeline
from rules.replay.replay import Replay


@fix
class FillPipeline:
    """Stages that send to one another."""

    id: ClassVar[str] = "fill-pipeline"
    explanation: ClassVar[str] = """
When it applies
    The ranks mostly send to and receive from each other.

What is changed in the replay
    No stage waits for another, and transfers overlap with computation: the slowest stage is the limit.

What makes it more or less
    The number of micro-batches m: with s stages, (s - 1) of (m + s - 1) slots stay empty. Smaller micro-batches use
    the GPU less efficiently.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        device = replay.device
        if len(replay.spans) < 2 or not (device.meeting >= 0).any():
            return
        columns = collective_columns(analysis.trace)
        between = np.isin(columns.event, device.event[device.meeting >= 0])
        if not mostly_passes_on(columns, between):
            return
        everything = np.ones(len(first_members(replay)[0]), bool)
        yield Proposal(
            title=f"Feed the pipeline more micro-batches: its {len(replay.spans)} stages wait for each other",
            categories=(Category.PIPELINE_BUBBLE, Category.EXPOSED_COMMUNICATION),
            culprit="pipeline",
            remedy=full_pipeline(len(replay.spans)),
            expected=without_meetings(replay, everything),
        )
