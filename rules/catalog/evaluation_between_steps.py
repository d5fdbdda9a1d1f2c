"""The model is evaluated so often that it takes much of the training's time."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, clip, length, pairs, union
from rules.analysis.cpu.cpu_time import cpu_time
from rules.analysis.stretches.evaluations import evaluations
from rules.findings.base import Category, Evidence, Finding, Need, Rule, rule
from rules.losses.concentration import extent
from rules.losses.lost_time import any_stream
from rules.remedies.host_work import EVALUATE_SELDOM
from rules.terms.culprit import Culprit, CulpritKind
from rules.terms.thresholds import MIN_SHARE
from rules.wording.headline import Headline
from rules.wording.phrases import share

MAX_EVIDENCE = 3


@rule
class EvaluationBetweenSteps(Rule):
    """Time in forward passes of an evaluation."""

    id = "evaluation-between-steps"
    category = Category.EVALUATION
    needs = frozenset({Need.CPU_EVENTS})
    explanation = """
What it found
    A training run also evaluates its model, and that takes much of the recorded time.

Why it costs time
    Each evaluation is one or more forward passes that teach the model nothing.

How it decides
    A range or a Python function called evaluate, validate or similar holds layers and no backward pass. Or, in steps
    that the program marks, all layers of the trained model run without gradients after the optimizer's step; layers
    that run so before the backward pass may be a teacher or an actor, and do not count. On a GPU the time is that from
    the first to the last operation of the evaluation. Below {least-share} of the step nothing is reported.

What to try
    Evaluate every few hundred steps, on fewer samples, or in another process.

When it is wrong
    If the training needs the result in each step, for example to choose the next batch. A short recording may hold an
    evaluation that comes once in an hour.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        device, lost = _longest(analysis)
        if share(analysis, length(lost)) < analysis.thresholds[MIN_SHARE]:
            return
        where = extent(analysis, lost, device)
        took = lost[1] - lost[0]
        yield self.finding(
            analysis,
            ceiling_ns=length(lost),
            headline=Headline("The model is evaluated between steps", where.share(length(lost))),
            account=f"Forward passes without a backward pass take {where.part(length(lost))}: they evaluate the model.",
            remedy=EVALUATE_SELDOM,
            culprit=Culprit(CulpritKind.OUTSIDE, "the evaluation"),
            device=device if device >= 0 else None,
            evidence=tuple(
                Evidence(_lane(analysis, device), int(lost[0][each]), int(lost[1][each]), "evaluation")
                for each in np.argsort(-took, kind="stable")[:MAX_EVIDENCE].tolist()
            ),
            intervals=pairs(lost),
            unknown=("Whether the training uses what these passes compute.",),
        )


def _lane(analysis: Analysis, device: int) -> int:
    if device >= 0:
        return any_stream(analysis.trace, device)
    alone = cpu_time(analysis)
    return int(analysis.trace.events.lane[alone.operators[0]]) if alone and len(alone.operators) else 0


def _longest(analysis: Analysis) -> tuple[int, Intervals]:
    """The GPU on which evaluations take longest (-1: there is none), and when they ran there."""
    if (alone := cpu_time(analysis)) is not None:
        found = evaluations(analysis, alone.thread)
        return -1, found if alone.is_all else (found[0][:0], found[1][:0])
    best = -1, (np.empty(0, np.int64), np.empty(0, np.int64))
    for device in analysis.active_devices:
        ran = _on_gpu(analysis, device)
        if length(ran) > length(best[1]):
            best = device, ran
    return best


def _on_gpu(analysis: Analysis, device: int) -> Intervals:
    """From the first to the last operation of each evaluation on a GPU."""
    trace, threads = analysis.trace, analysis.threads
    operations, launches = trace.operations_of_device(device), trace.launches_of_device(device)
    operations, launches = operations[launches >= 0], launches[launches >= 0]
    launched, owner = trace.events.start[launches], threads.of_events(launches)
    starts, ends = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for thread in threads.drivers(device)[0]:
        begin, end = evaluations(analysis, thread)
        if not len(begin):
            continue
        mine = operations[owner == thread]
        number = np.searchsorted(begin, launched[owner == thread], side="right") - 1
        inside = (number >= 0) & (launched[owner == thread] < end[np.maximum(number, 0)])
        mine, number = mine[inside], number[inside]
        first = np.full(len(begin), np.iinfo(np.int64).max)
        last = np.zeros(len(begin), np.int64)
        np.minimum.at(first, number, trace.events.start[mine])
        np.maximum.at(last, number, trace.events.end[mine])
        starts.append(first[last > 0])
        ends.append(last[last > 0])
    return clip(union(np.concatenate(starts), np.concatenate(ends)), *analysis.window)
