"""Batches are prepared by other processes while the GPU works on the one before."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.analysis.names.software import names_that_ran
from rules.analysis.stretches.worker_starts import OF_WORKERS
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import less_host_time, most_per_step
from rules.remedies.waiting import prepared_input
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of
from rules.wording.phrases import number_of_cores

FETCH_NS = 300_000.0  # what taking a finished batch from a worker costs: docs/predictions.md
# workers, as far as they help each other and nothing else: they share cores, the link to the data and the main process
LIKELY, FEWEST = 4, 2
TIMES_MORE = 2  # workers where some are there already


@fix
class LoadDataInWorkers:
    """The time that steps spend inside a data loader."""

    id = "load-data-in-workers"
    switches = ("num-workers", "persistent-workers", "prefetch-factor", "same-batch")
    explanation = """
When it applies
    The step's thread spends time inside a data loader, or in a range named like one.

What is changed in the replay
    That time shrinks to the 0.3 ms it takes to fetch a finished batch, or to what is left if four workers, or twice as
    many as there are, make batches more slowly than the rest of a step uses them. Where the recording says how many
    cores the program may use, loading and the rest of a step share them.

What makes it more or less
    How many workers there are, and whether they can read fast enough: from two workers to as many as are needed.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        around = surroundings_of(analysis)
        loading = around.input_ns
        nodes = loading > FETCH_NS
        if not nodes.any():
            return
        hidden = np.maximum(loading - FETCH_NS, 0.0)
        workers = any(OF_WORKERS in name for name in names_that_ran(analysis.trace))
        what = "Let more workers load the data" if workers else "Load the data in other processes"
        rest = replay.time([less_host_time(nodes, hidden)])
        load = replay.usual_ns - rest  # of a step; workers that are there already deliver one batch a step
        made = replay.usual_ns if workers else load
        cores = analysis.trace.capture.cores

        def hides(count: float) -> float:
            """The part of the loading that so many workers do meanwhile, on cores that they share with the step."""
            least = max(made / count, (made + rest) / (cores or math.inf))
            return max(1.0 - max(least - rest, 0.0) / max(load, 1.0), 0.0)

        likely, few = (TIMES_MORE, TIMES_MORE) if workers else (LIKELY, FEWEST)
        yield Proposal(
            title=f"{what}: loading a batch takes {duration(most_per_step(replay, loading))} {replay.in_step}",
            categories=(Category.INPUT_BOUND,),
            culprit="data loader",
            remedy=prepared_input("", loader=True, workers=workers).and_then(
                "Do constant work once: tokenise or decode the dataset beforehand."
            ),
            expected=less_host_time(nodes, hidden, hides(likely)),
            low=less_host_time(nodes, hidden, hides(few)) if hides(few) < hides(likely) else None,
            high=less_host_time(nodes, hidden, hides(math.inf)) if hides(likely) < hides(math.inf) else None,
            depends_on="how many workers can load at once without slowing each other down"
            if cores is None
            else f"how well workers and the program share {number_of_cores(cores)}",
        )
