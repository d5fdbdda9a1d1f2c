"""The workers of a data loader stay alive between two passes over the data."""

from __future__ import annotations

from collections.abc import Iterable

from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import less_host_time, most_per_step
from rules.remedies.waiting import PERSISTENT_WORKERS
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of

LIKELY_SOONER = 0.5  # of what the first batch of a pass takes: workers that run already begin it at once


@fix
class KeepWorkers:
    """Worker processes that are ended and started anew."""

    id = "keep-workers"
    switches = ("persistent-workers",)
    explanation = """
When it applies
    A DataLoader's workers start in the replayed steps: PyTorch draws a seed for them, records nothing while their
    processes start, and then fetches the first batch. Without persistent_workers that happens in each pass over the
    data, for a validation set as well.

What is changed in the replay
    The time to end the old workers and to start new ones is gone, and half of the time for the first batch.

What makes it more or less
    How much of the time for the first batch is the start of the workers, and how much the batch itself: from none of
    it to all of it is gone.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        around = surroundings_of(analysis)
        processes, batches = around.worker_starts_ns, around.first_batches_ns
        nodes = processes + batches > 0
        if not nodes.any():
            return
        taken = most_per_step(replay, processes + batches)
        yield Proposal(
            title=f"Keep the data loader's workers alive: starting them anew takes {duration(taken)} {replay.in_step}",
            categories=(Category.INPUT_BOUND, Category.HOST_BOUND, Category.VARIABILITY),
            culprit="data loader",
            remedy=PERSISTENT_WORKERS,
            expected=less_host_time(nodes, processes + LIKELY_SOONER * batches),
            low=less_host_time(nodes, processes),
            high=less_host_time(nodes, processes + batches),
            depends_on="how long the first batch takes once the workers run",
        )
