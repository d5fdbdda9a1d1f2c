"""A data loader ends its worker processes after each pass over the data, and starts new ones."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.arrays import BOOL
from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, clip, length, pairs
from rules.analysis.stretches.worker_starts import WorkerStarts, worker_starts
from rules.findings.base import Category, Finding, Need, Rule, rule
from rules.losses.lost_time import evidence_of
from rules.losses.pauses import longest_pause
from rules.remedies.waiting import PERSISTENT_WORKERS
from rules.terms.culprit import Culprit, CulpritKind
from rules.terms.thresholds import MIN_SHARE
from rules.wording.headline import Headline
from rules.wording.phrases import share, without_stacks


@rule
class WorkersStartedAnew(Rule):
    """Time in which the worker processes of a data loader end and start."""

    id = "workers-started-anew"
    category = Category.INPUT_BOUND
    needs = frozenset({Need.CPU_EVENTS})
    explanation = """
What it found
    A DataLoader starts its worker processes again and again, once in each pass over the data.

Why it costs time
    A process takes tens of milliseconds to start, and more if it imports the program anew. Nobody prepares a batch
    meanwhile. Where an epoch or a validation set has few batches, this is much of the run.

How it decides
    When a DataLoader with workers is iterated over, PyTorch draws a seed for them (aten::random_, aten::item), starts
    the processes, which leaves no record, and fetches the first batch. The finding counts the time from the fetch
    that ended the last pass to the end of the first fetch, without what a fetch usually takes; on a GPU, only while
    it idles. Below {least-share} of the step nothing is reported.

What to try
    Keep the workers: DataLoader(..., persistent_workers=True). Make the loader once, outside the loop over epochs.

When it is wrong
    If the recording begins with the program's first pass: every program starts its workers once.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        lost = longest_pause(analysis, lambda thread: worker_starts(analysis, thread).whole)
        if lost is None or share(analysis, lost.ns) < analysis.thresholds[MIN_SHARE]:
            return
        starts, (begin, end) = worker_starts(analysis, lost.thread), analysis.window
        inside = (starts.began >= begin) & (starts.began < end)
        event = starts.event[inside]
        yield self.finding(
            analysis,
            ceiling_ns=lost.ns,
            headline=Headline("The data loader's workers are started anew", lost.extent.share(lost.ns)),
            account=_account(starts, inside, clip(starts.ends, begin, end)),
            remedy=PERSISTENT_WORKERS,
            culprit=Culprit(CulpritKind.REGION, analysis.trace.name(int(event[0]))),
            device=lost.device if lost.device >= 0 else None,
            evidence=evidence_of(analysis.trace, event),
            intervals=pairs(lost.intervals),
            unknown=(
                without_stacks(
                    analysis.trace,
                    "Which loader this is, if there are several. Record with stacks (with_stack=True).",
                ),
            ),
        )


def _account(starts: WorkerStarts, inside: BOOL, ends: Intervals) -> str:
    count = int(np.count_nonzero(inside))
    starting, first = (
        float(np.mean((later - earlier)[inside]))
        for earlier, later in ((starts.began, starts.ended), (starts.ended, starts.fetched))
    )
    passes = "One pass over the data begins" if count == 1 else f"{count} passes over the data begin"
    stopping = length(ends) / count
    ended = f"ending the old ones takes {duration(stopping)}, " if stopping else ""
    return (
        f"{passes} with new worker processes: {ended}starting new ones takes {duration(starting)}, and their first "
        f"batch {duration(first)}{' on average' if count > 1 else ''}. A DataLoader without persistent_workers ends "
        "its workers after each pass."
    )
