"""The GPU waits for the data loader or for input code."""

from __future__ import annotations

from collections.abc import Iterable

from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.analysis.idle.causes import Cause
from rules.analysis.names.regions import is_loader
from rules.findings.base import Category, Finding, Need, Rule, rule
from rules.losses.beneath import beneath
from rules.losses.lost_time import IdleTime, idle_finding
from rules.remedies.waiting import prepared_input
from rules.terms.thresholds import MIN_SHARE
from rules.wording.phrases import share, without_stacks


@rule
class WaitingForData(Rule):
    """Idle time while a data loader or an input region runs."""

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
        culprit = waiting.culprit
        loader, below = is_loader(culprit.name), beneath(waiting)
        yield idle_finding(
            self,
            waiting,
            what="The GPU waits for data",
            account=_explanation(analysis, waiting) + below.text,
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


def _explanation(analysis: Analysis, waiting: IdleTime) -> str:
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
