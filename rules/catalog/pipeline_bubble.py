"""Stages of a pipeline wait for one another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from parsers.model.names.devices import device_name
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, clip, intersect, length, pairs, union
from rules.analysis.idle.causes import Cause
from rules.analysis.ranks.collectives import CollectiveColumns, collective_columns
from rules.analysis.ranks.stages import NEIGHBOURS, messages_passed_on, stages_of, waiting_in_receives
from rules.findings.base import Category, Evidence, Finding, Need, Rule, rule
from rules.losses.lost_time import any_stream, extent
from rules.remedies.communication import MICRO_BATCHES_FOR_STAGE, full_pipeline
from rules.terms import MIN_SHARE
from rules.wording.words import Headline, listed, share

UNKNOWN = "Which stages have more layers than others, if all are busy all the time."
# micro-batches for each stage: a fifth of the time is left empty at most (GPipe, Huang et al. 2019)


@rule
class PipelineBubble(Rule):
    id = "pipeline-bubble"
    category = Category.PIPELINE_BUBBLE
    needs = frozenset({Need.GPU_EVENTS, Need.COLLECTIVES})
    explanation = """
What it found
    The GPUs are stages of a pipeline, and some of them have nothing to do while the others work.

Why it costs time
    The last stage begins when the first micro-batch has passed all others, and the first stage finishes before all
    others. With p stages and m micro-batches, each stage is empty for (p - 1) of (m + p - 1) slots.

How it decides
    GPUs form a pipeline if most messages between them are sends and receives, one GPU begins with a send and every
    other one with a receive. A stage waits before its first and after its last operation, and in receives to the
    extent that they take longer than the fastest message of their size. The mean over the stages is the ceiling.

What to try
    More micro-batches in each step, a schedule that starts backward passes early (1F1B, interleaved), and balanced
    stages.

When it is wrong
    If only part of the run was recorded on some GPUs, or a stage began late for a reason of its own.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        stages = stages_of(trace)
        waits = {stage: bubble_of(analysis, stage) for stage in stages}
        ceiling = sum(map(length, waits.values())) // max(len(stages), 1)
        if not stages or share(analysis, ceiling) < analysis.thresholds[MIN_SHARE]:
            return
        worst = max(stages, key=lambda stage: length(waits[stage]))
        found_in = extent(analysis, waits[worst], worst)
        each = [
            f"{device_name(trace, stage)} {percent(share(analysis, length(waits[stage])))}"
            for stage in stages
        ]
        yield self.finding(
            analysis,
            headline=Headline("Pipeline stages wait for each other", found_in.share(ceiling)),
            account=told_of(found_in.part(ceiling), each, passed_on(analysis)),
            remedy=full_pipeline(len(stages)),
            ceiling_ns=ceiling,
            culprit=NEIGHBOURS,
            device=worst,
            evidence=tuple(
                Evidence(any_stream(trace, worst), start, end, NEIGHBOURS.text)
                for start, end in sorted(pairs(waits[worst]), key=lambda pair: pair[0] - pair[1])[:20]
            ),
            intervals=pairs(waits[worst]),
            unknown=(UNKNOWN,),
        )


def bubble_of(analysis: Analysis, stage: int) -> Intervals:
    """Where a stage has nothing to do because of the others, inside the window."""
    time = analysis.time(stage)
    return bubble(
        collective_columns(analysis.trace),
        stage,
        time.communication,
        time.idle[Cause.NEIGHBOURS],
        analysis.window,
    )


def bubble(
    columns: CollectiveColumns,
    stage: int,
    communication: Intervals,
    outside: Intervals,
    window: tuple[int, int],
) -> Intervals:
    """The same from a stage's exposed ``communication`` and its time before and after its work."""
    start, end = waiting_in_receives(columns, stage, *window)
    waits = intersect(union(start, np.maximum(start, end)), communication)
    return clip(
        union(np.concatenate((waits[0], outside[0])), np.concatenate((waits[1], outside[1]))), *window
    )


def told_of(part: str, each: Sequence[str], micro_batches: int) -> str:
    """What is told of stages that are empty for ``part`` of the time; ``micro_batches`` in a step, 0 if unknown."""
    return (
        f"{len(each)} GPUs pass their work on to each other, and each has nothing to do until work reaches it, and "
        f"after its last: {part}, averaged over them. Empty: {listed(each)}. "
        + _by_micro_batches(micro_batches, len(each))
    )


def passed_on(analysis: Analysis) -> int:
    """Micro-batches in a step; 0 where that is unknown."""
    if not (steps := analysis.steady_steps):
        return 0
    first, last = min(step.start for step in steps), max(step.end for step in steps)
    messages = messages_passed_on(collective_columns(analysis.trace), first, last)
    return round(messages / analysis.steps_in_window) if analysis.steps_in_window else 0


def _by_micro_batches(found: int, stages: int) -> str:
    """What a step with a few and with enough micro-batches leaves empty, by the formula."""
    enough = MICRO_BATCHES_FOR_STAGE * stages
    if found and found < enough:
        few = f"{found:,} micro-batch{'es' if found > 1 else ''} a step {'were' if found > 1 else 'was'} passed on. "
        return (
            f"{few}Where each step begins with empty stages, that leaves (p - 1) of (m + p - 1) slots empty, "
            f"{percent(empty_slots(found, stages))} of the time; {enough:,} micro-batches leave "
            f"{percent(empty_slots(enough, stages))}."
        )
    return f"With {enough:,} micro-batches, equal stages are idle {percent(empty_slots(enough, stages))} of the time."


def empty_slots(micro_batches: int, stages: int) -> float:
    """The bubble of a pipeline of equal stages that is filled and emptied once (GPipe, Huang et al. 2019)."""
    return (stages - 1) / (micro_batches + stages - 1)
