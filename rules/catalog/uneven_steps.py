"""Steps, or the runs of one kernel, that differ a lot from each other; evaluation that takes much of the training."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import EventKind
from parsers.model.arrays import median_of
from parsers.model.names.devices import device_name
from parsers.model.names.kernels import kernel_name
from parsers.model.units import duration, percent, three_digits
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, clip, durations, length, pairs, union
from rules.analysis.cpu.cpu_time import cpu_time
from rules.analysis.gpu.inside_window import operations
from rules.analysis.gpu.step_kernels import Work, work_of
from rules.analysis.idle.causes import Cause
from rules.analysis.names.serving_steps import kind_of_step
from rules.analysis.steps.growth import grow
from rules.analysis.steps.steps import Step
from rules.analysis.stretches.evaluations import evaluations
from rules.findings.base import Category, Evidence, Finding, Need, Rule, remedy, rule, severity_of
from rules.losses.lost_time import any_stream, event_evidence, extent, kernel_culprit
from rules.losses.warm_up import step_evidence
from rules.remedies.host_work import EVALUATE_SELDOM, GROWING_STEPS, RARER_IN_SLOW_STEPS, SLOWED_GPU
from rules.remedies.remedy import Remedy
from rules.terms import MIN_SHARE, Culprit, CulpritKind, Unit, threshold
from rules.wording.words import Headline, for_python, for_pytorch, listed, share, shortened

MAX_EVIDENCE = 3


@rule
class EvaluationBetweenSteps(Rule):
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


MIN_RATIO = threshold(
    "uneven-step",
    "a step counts as uneven from this many times the median step",
    Unit.TIMES,
    1.5,
    least=1.05,
    most=20,
    source="nsys-ai: longest step over the median",
)
MIN_STEPS = 3
MIN_SPREAD = 1.0  # standard deviation over mean of one kernel's duration (TraceLens) ...
MIN_CALLS = 10  # ... called more often than this ...
MIN_KERNEL_SHARE = 0.05  # ... and at least this part of the window


@rule
class UnevenSteps(Rule):
    id = "uneven-steps"
    category = Category.VARIABILITY
    explanation = """
What it found
    Some steps take much longer than most, or one kernel takes very different times.

Why it costs time
    Every slow step delays the run, and in a distributed run all other ranks too.

How it decides
    Steps: the longest steady step takes more than {uneven-step} times the median. The ceiling is the time all longer
    steps take above the median. Where kernels take that time, they are compared with those of the other steps by name,
    number and blocks. Kernels: one name with more than 10 runs and at least 5 % of the time whose standard deviation
    exceeds its mean; that is only information, because one kernel name may serve several shapes. Steps of which none
    is shorter than the one before are told as growing, without a ceiling.

What to try
    Check what else the long steps do: logging, saving, evaluation, garbage collection, longer inputs, other programs
    on the same machine, lower clocks.

When it is wrong
    If steps differ by design. Three or four recorded steps say little: record more. Without launch links it is
    unknown which step GPU work belongs to, and nothing is reported.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        yield from self._steps(analysis)
        yield from self._kernels(analysis)

    def _steps(self, analysis: Analysis) -> Iterable[Finding]:
        uneven = _most_uneven(analysis)
        if uneven is None:
            return
        slow, usual, extra, explained, reasons = uneven
        ceiling = max(extra - explained, 0)
        if share(analysis, extra) < analysis.thresholds[MIN_SHARE]:
            return
        longest = max(slow, key=lambda step: step.duration)
        mine = next(steps for steps in _alike(analysis).values() if longest in steps)
        if grow(np.array([step.duration for step in mine], np.float64)):
            yield self._growing(analysis, mine)
            return
        work = work_of(analysis, slow, [step for step in mine if step not in slow], usual)
        yield self.finding(
            analysis,
            severity=severity_of(ceiling, analysis.window_ns),
            headline=Headline(
                "Step times vary widely" if work.is_other else "The same kernels run slower in some steps",
                f"slow steps add {percent(share(analysis, extra))} of the total time",
            ),
            account=_explanation(analysis, slow, usual, reasons, work),
            remedy=_advice(longest, work),
            ceiling_ns=min(ceiling, analysis.window_ns),
            culprit=Culprit(CulpritKind.STEP, longest.name),
            rank=longest.rank,
            evidence=step_evidence(analysis, tuple(slow)),
            intervals=tuple((step.start, step.end) for step in slow),
            unknown=("Whether this repeats: record more steps.",),
            confidence="medium",
        )

    def _growing(self, analysis: Analysis, steps: list[Step]) -> Finding:
        first, last = steps[0], max(steps, key=lambda step: step.duration)
        return self.finding(
            analysis,
            headline=Headline(
                "Steps take ever longer", f"from {duration(first.duration)} to {duration(last.duration)}"
            ),
            account=(
                f"Over {len(steps)} steps the time of one grows from {duration(first.duration)} ({first.name}) to "
                f"{duration(last.duration)} ({last.name}), and hardly any is shorter than the one before. What is said "
                "about the mean step holds for none of them."
            ),
            remedy=GROWING_STEPS,
            culprit=Culprit(CulpritKind.STEP, last.name),
            rank=last.rank,
            evidence=step_evidence(analysis, (last,)),
            intervals=((last.start, last.end),),
            unknown=("Whether they are meant to: whether each works on more data than the one before.",),
            confidence="medium",
        )

    def _kernels(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        for device in analysis.active_devices:
            kernels = operations(analysis, device, EventKind.KERNEL)
            kernels = kernels[~trace.communicates[kernels]]
            name, time = trace.events.name[kernels], durations(trace, kernels).astype(np.float64)
            count = np.bincount(name, minlength=len(trace.strings))
            total = np.bincount(name, time, minlength=len(trace.strings))
            square = np.bincount(name, time * time, minlength=len(trace.strings))
            mean = total / np.maximum(count, 1)
            spread = np.sqrt(np.maximum(square / np.maximum(count, 1) - mean * mean, 0)) / np.maximum(mean, 1)
            odd = (
                (count > MIN_CALLS) & (spread > MIN_SPREAD) & (total >= MIN_KERNEL_SHARE * analysis.window_ns)
            )
            if not odd.any():
                continue
            worst = int(np.flatnonzero(odd)[total[odd].argmax()])
            mine = kernels[name == worst]
            yield self.finding(
                analysis,
                headline=Headline(
                    "One kernel's time varies",
                    shortened(kernel_name(trace.strings[worst]), 60),
                    names_culprit=True,
                ),
                account=(
                    f"It runs {count[worst]:,} times on {device_name(trace, device)}, {duration(mean[worst])} on "
                    f"average, with a standard deviation of {three_digits(spread[worst])} times that. Often the "
                    "same kernel serves small and large inputs."
                ),
                remedy=remedy(
                    "Group its runs by grid size to see whether they do different amounts of work.",
                    code="lengths = sorted(len(sample) for sample in dataset)          # are the inputs equally long?",
                ),
                culprit=kernel_culprit(trace, int(mine[0])),
                device=device,
                evidence=event_evidence(trace, mine, 5),
                unknown=(
                    ""
                    if trace.capture.record_shapes
                    else for_pytorch("Which shapes it ran on: record with record_shapes=True."),
                ),
                confidence="low",
            )
            return


def _alike(analysis: Analysis) -> dict[tuple[int | None, int], list[Step]]:
    """The steady steps of each rank, those that compute prompts apart from those that answer."""
    found: dict[tuple[int | None, int], list[Step]] = {}
    for step in analysis.steady_steps:
        found.setdefault((step.rank, kind_of_step(step.name)), []).append(step)
    return found


def _most_uneven(analysis: Analysis) -> tuple[list[Step], float, int, int, list[str]] | None:
    """Of the rank that loses most: slow steps, median, time above it, what other findings count of that, and which."""
    best: tuple[list[Step], float, int, int, list[str]] | None = None
    if not len(analysis.trace.links.launch) and any(step.event >= 0 for step in analysis.steady_steps):
        return None  # when the GPU ran what a step launched is not known, and the host may be ahead
    for steps in _alike(analysis).values():
        if len(steps) < MIN_STEPS:
            continue
        usual = float(median_of([step.duration for step in steps]))
        slow = [step for step in steps if step.duration > analysis.thresholds[MIN_RATIO] * usual]
        extra = int(sum(max(step.duration - usual, 0) for step in steps))
        if slow and (best is None or extra > best[2]):
            typical = [step for step in steps if step.duration <= analysis.thresholds[MIN_RATIO] * usual]
            explained, reasons = _explained(analysis, slow, typical)
            best = (slow, usual, extra, explained, reasons)
    return best


def _explained(analysis: Analysis, slow: list[Step], typical: list[Step]) -> tuple[int, list[str]]:
    """Idle time by named causes that the slow steps have beyond the typical ones, ns, and these causes."""
    devices = [each for each in analysis.active_devices if analysis.trace.devices[each].rank == slow[0].rank]
    if not devices or not typical:
        return 0, []
    time = analysis.time(devices[0])
    whole, reasons = 0, []
    for cause in Cause:
        usual = float(median_of([time.idle_within(cause, step.start, step.end) for step in typical]))
        beyond = int(sum(max(time.idle_within(cause, step.start, step.end) - usual, 0) for step in slow))
        whole += beyond
        if share(analysis, beyond) >= analysis.thresholds[MIN_SHARE]:
            reasons.append(f"{analysis.idle.label(cause)} ({percent(share(analysis, beyond))})")
    return whole, reasons


def _explanation(analysis: Analysis, slow: list[Step], usual: float, reasons: list[str], work: Work) -> str:
    longest = max(slow, key=lambda step: step.duration)
    whose = f" of rank {longest.rank}" if len({step.rank for step in analysis.steady_steps}) > 1 else ""
    text = (
        f"{longest.name}{whose} takes {duration(longest.duration)}, "
        f"{three_digits(longest.duration / max(usual, 1))} times the "
        f"median ({duration(usual)}); {len(slow)} of {analysis.steps_in_window} steps "
        f"{'is' if len(slow) == 1 else 'are'} more than "
        f"{three_digits(analysis.thresholds[MIN_RATIO])} times as "
        "long."
    )
    if reasons:
        text += f" The slow steps spend the extra time {listed(reasons)}, which other findings count."
    else:
        text += _WORK[work]
    return text


_WORK = {
    Work.UNKNOWN: "",
    Work.OTHER: " In the slow steps the GPU computes for that much longer.",
    Work.SAME_KERNELS: " They run the same kernels as other steps, and just as many, but these take longer.",
    Work.SAME: " They run the same kernels on grids of the same size as other steps, but these take longer.",
}


def _advice(longest: Step, work: Work) -> Remedy:
    compare = f"Compare {longest.name} with its neighbours: what runs only there?"
    lengths = for_python("Batch inputs of similar length together, or pad to a few fixed lengths.")
    if work is Work.SAME:
        return SLOWED_GPU
    if work is Work.SAME_KERNELS:
        return SLOWED_GPU.after(
            "Compare the inputs of slow steps with those of others: are they larger?", lengths
        )
    return RARER_IN_SLOW_STEPS.after(compare, lengths)
