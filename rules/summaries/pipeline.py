"""Stages of a pipeline that wait for one another, told of summaries as ``rules.catalog.pipeline_bubble`` tells it."""

from __future__ import annotations

from collections.abc import Iterator

from parsers.model.units import percent
from rules.analysis.arithmetic.intervals import Intervals, length
from rules.analysis.idle.causes import Cause
from rules.analysis.ranks.stages import NEIGHBOURS, messages_passed_on
from rules.analysis.ranks.states import FIRST_IDLE
from rules.catalog.pipeline_bubble import UNKNOWN, PipelineBubble, bubble, told_of
from rules.findings.base import Finding, severity_of
from rules.remedies.communication import full_pipeline
from rules.summaries.run import ManyRanks
from rules.terms.thresholds import MIN_SHARE
from rules.wording.headline import Headline, Part


def pipeline_bubble(run: ManyRanks) -> Iterator[Finding]:
    """The finding about empty stages, where the run is a pipeline and they are empty long enough."""
    waits = {row: length(_bubble(run, row)) for row in run.stages}
    ceiling = sum(waits.values()) // max(len(waits), 1)
    if not waits or ceiling < run.thresholds[MIN_SHARE] * run.window_ns:
        return
    worst = max(waits, key=lambda row: waits[row])
    whole = max(run.window_ns, 1)
    part = Part(ceiling / whole, run.steps_in_window)
    yield Finding(
        rule=PipelineBubble.id,
        category=PipelineBubble.category,
        severity=severity_of(ceiling, run.window_ns),
        headline=Headline("Pipeline stages wait for one another", part),
        account=told_of(
            str(part),
            [f"{run.name(row)} {percent(waits[row] / whole)}" for row in waits],
            _micro_batches(run),
        ),
        remedy=full_pipeline(len(waits)),
        ceiling_ns=ceiling,
        window_ns=run.window_ns,
        culprit=NEIGHBOURS,
        rank=run.rows[worst].rank,
        device=worst,
        unknown=(UNKNOWN,),
    )


def _bubble(run: ManyRanks, row: int) -> Intervals:
    shift = run.members[run.rows[row].member].shift
    start, end = run.states(row).intervals(FIRST_IDLE + Cause.NEIGHBOURS)
    assert run.collectives is not None
    return bubble(run.collectives, row, run.alone(row), (start + shift, end + shift), run.window)


def _micro_batches(run: ManyRanks) -> int:
    steady = [(start[kept], end[kept]) for start, end, kept in run.steps_of_member if kept.any()]
    if not steady or run.collectives is None:
        return 0
    first = min(int(start.min()) for start, _ in steady)
    last = max(int(end.max()) for _, end in steady)
    return round(messages_passed_on(run.collectives, first, last) / run.steps_in_window)
