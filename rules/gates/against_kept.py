"""Runs of which only figures are known: whether they can be compared, and a comparison of a recording with them."""

from __future__ import annotations

from collections.abc import Sequence

from parsers.model import Trace
from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.comparison.comparable import MIN_COMMON_SHARE, look_like_different_programs
from rules.comparison.compare import KERNEL_ROWS, Comparison, Measure, changes_of_work, verdict_on
from rules.comparison.gate import Judgement
from rules.comparison.kernel_rows import Work
from rules.comparison.step_times import ratio_of_runs
from rules.diagnosis import diagnosis_of
from rules.gates.figures import RunFigures, figures_of
from rules.terms import DEFAULTS, Thresholds


def judgement_on(before: Sequence[RunFigures], after: Sequence[RunFigures]) -> Judgement:
    """How the step time changed, or why that cannot be said, from figures alone; several runs a side are repeats."""
    reasons = _not_comparable(before[0], after[0])
    for runs in (before, after):
        for run in runs[1:]:
            reasons += [f"repeats differ: {reason}" for reason in _not_comparable(runs[0], run)]
    ratio = ratio_of_runs([run.steps for run in before], [run.steps for run in after])
    return Judgement.of(ratio, list(dict.fromkeys(reasons)))


def _not_comparable(before: RunFigures, after: RunFigures) -> list[str]:
    reasons = []
    if not (before.gpus and after.gpus):
        reasons.append("no GPU work was recorded in at least one of them")
    if not (before.found_by and after.found_by):
        neither = not (before.found_by or after.found_by)
        reasons.append(f"no steps were found in {'either' if neither else 'one of them'}")
    elif before.found_by != after.found_by and "repetition" in (before.found_by, after.found_by):
        reasons.append("steps were found in different ways, one by annotation and one by repetition")
    if len(before.gpus) != len(after.gpus):
        reasons.append(f"{len(before.gpus)} GPUs before and {len(after.gpus)} after")
    models = [sorted(set(run.gpus) - {""}) for run in (before, after)]
    if all(models) and models[0] != models[1]:
        reasons.append(f"different GPUs: {', '.join(models[0])} and {', '.join(models[1])}")
    works = _works(before), _works(after)
    if look_like_different_programs(*works):
        reasons.append("they share almost no kernels, and one launches many times more than the other")
    return reasons


def _works(run: RunFigures) -> dict[str, Work]:
    return {key: (each.launches, float(each.ns.mean())) for key, each in run.kernels.items() if len(each.ns)}


def compare_with_kept(
    before: Sequence[RunFigures],
    name: str,
    after: Trace,
    repeats: Sequence[RunFigures] = (),
    thresholds: Thresholds = DEFAULTS,
) -> Comparison:
    """Compare a recording with kept runs called ``name``; ``repeats`` are more runs like ``after``.

    Findings are left out, since those of the kept runs are not known; kernels are the longest of each.
    """
    analysis = Analysis(after, thresholds)
    figures = figures_of(analysis)
    judgement = judgement_on(before, [figures, *repeats])
    ratio = judgement.ratio
    times = (ratio.before, ratio.after) if ratio is not None else (before[0].steps, figures.steps)
    step = Measure("step time, mean", times[0].mean, times[1].mean, "ns")
    works = _works(before[0]), _works(figures)
    shown = {key: each.shown for run in (before[0], figures) for key, each in run.kernels.items()}
    if judgement.reason:
        verdict = (
            f"Not comparable: {judgement.reason}. As recorded: {duration(step.before)} per step before, "
        )
        verdict += f"{duration(step.after)} after"
    else:
        verdict = verdict_on(step, "a step takes", [], diagnosis_of(analysis), judgement)
    in_common = set(works[0]) & set(works[1])
    return Comparison(
        before=name,
        after=", ".join(each.path for each in after.inputs),
        verdict=verdict,
        step=step,
        measures=tuple(_measures(before[0], figures)),
        kernels=tuple(changes_of_work(*works, shown)[:KERNEL_ROWS]),
        findings=(),
        cautions=(
            "only figures of the earlier run were kept: no findings, no idle time, only the longest kernels",
            *(
                ["they share almost no kernels: another precision, a compiler, or another program"]
                if _share(works[1], in_common) < MIN_COMMON_SHARE
                else []
            ),
            *(ratio.about() if ratio is not None else ()),
        ),
        judgement=judgement,
        files=((name,), tuple(each.path for each in after.inputs)),
    )


def _share(work: dict[str, Work], names: set[str]) -> float:
    return sum(work[name][1] for name in names) / max(sum(ns for _, ns in work.values()), 1.0)


def _measures(before: RunFigures, after: RunFigures) -> list[Measure]:
    found = [
        Measure(name, float(one.mean()), float(other.mean()), unit)
        for name, one, other, unit in (
            ("kernels a step", before.launches, after.launches, "count"),
            ("kernel time a step", before.kernel_ns, after.kernel_ns, "ns"),
            ("collective time a step", before.collective_ns, after.collective_ns, "ns"),
        )
        if len(one) and len(other) and (one.any() or other.any())
    ]
    return [*found, Measure("step time, median", before.steps.median, after.steps.median, "ns")]
