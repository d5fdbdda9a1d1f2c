"""The GPU waits for the CPU, which fetches or prepares input."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL
from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, clip, length, pairs
from rules.analysis.idle.causes import Cause
from rules.analysis.names.regions import is_loader
from rules.analysis.stretches.worker_starts import WorkerStarts, worker_starts
from rules.findings.base import Category, Finding, Need, Rule, rule
from rules.losses.asleep import slept
from rules.losses.beneath import beneath
from rules.losses.lost_time import IdleTime, evidence_of, idle_finding
from rules.losses.pauses import longest_pause
from rules.remedies.waiting import PERSISTENT_WORKERS, prepared_input
from rules.terms import MIN_SHARE, Culprit, CulpritKind
from rules.wording.words import Headline, share, without_stacks


@rule
class WaitingForData(Rule):
    id = "waiting-for-data"
    category = Category.INPUT_BOUND
    needs = frozenset({Need.GPU_EVENTS, Need.LAUNCH_LINKS, Need.CPU_EVENTS})
    explanation = """
What it found
    The GPU has nothing to do while the program fetches or prepares the next batch.

Why it costs time
    The step can only start once its data is there. If loading takes longer than the GPU's work, every step waits.

How it decides
    It takes each gap on the GPU, finds the call that ended it and the thread that made the call, and looks at what
    that thread did during the gap. The time counts as waiting for data when the thread was inside a data loader
    (enumerate(DataLoader)#...) or inside a region whose name speaks of data, such as load, fetch, read, input, batch
    or preprocess, and launched nothing. Below {least-share} of the step nothing is reported.

What to try
    Load in several worker processes, pin the memory, prefetch the next batch while the GPU works on this one, move
    decoding and augmentation to the GPU, or store the data in a form that is cheaper to read.

When it is wrong
    If a region is named like input but does something else. If the recording itself slows Python down, loading takes
    longer than usual.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        waiting = IdleTime(analysis, Cause.INPUT)
        if share(analysis, waiting.ns) < analysis.thresholds[MIN_SHARE]:
            return
        sleep = slept(waiting)
        if sleep.pace is not None:
            return
        culprit = waiting.culprit
        loader, below = is_loader(culprit.name), beneath(waiting)
        yield idle_finding(
            self,
            waiting,
            what="The GPU waits for data",
            account=_told_input(analysis, waiting) + below.text + sleep.text,
            remedy=prepared_input(
                culprit.name, loader=loader, workers="_MultiProcessingDataLoaderIter" in culprit.name
            ),
            unknown=()
            if below
            else (
                without_stacks(
                    analysis.trace,
                    f"Which part of {culprit.said} is slow. Record with stacks (with_stack=True), or put "
                    "record_function regions around reading, decoding and collating.",
                ),
            ),
        )


def _told_input(analysis: Analysis, waiting: IdleTime) -> str:
    text = (
        f"While {waiting.culprit.said} runs, nothing is launched and the GPU idles: "
        f"{waiting.part}, the longest wait {duration(waiting.longest_ns)}."
    )
    least = analysis.thresholds[MIN_SHARE]
    if others := [each for each in waiting.blames[1:3] if share(analysis, each.ns) >= least]:
        text += f" Also waited for: {waiting.named(others)}."
    if "_SingleProcessDataLoaderIter" in waiting.culprit.name:
        text += (
            " The DataLoader has no worker processes (num_workers=0): it loads in the training thread itself."
        )
    elif "_MultiProcessingDataLoaderIter" in waiting.culprit.name:
        text += " The DataLoader has worker processes, but they deliver batches more slowly than the GPU uses them."
    return text


@rule
class WorkersStartedAnew(Rule):
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
