"""What a gate answers for each of its limits; whatever cannot be judged does not pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from parsers.model import F64
from parsers.model.late import dataclass
from parsers.model.units import NS_PER_S, duration, size, three_digits
from rules.comparison.gate import Decision, Judgement, Outcome, decided, percent_of
from rules.comparison.step_times import CONFIDENCE, MIN_STEPS, RESAMPLES, StepTimes, ratio_of_runs
from rules.gates.against_kept import judgement_on
from rules.gates.figures import RunFigures
from rules.gates.limits import Gates, Limit, Quantity

Runs = Sequence[RunFigures]

MIN_FOR_P99 = 100  # steps: of fewer, none is the slowest in a hundred


@dataclass(frozen=True, slots=True)
class Answer:
    """To one limit. ``before`` and ``after`` are written with their units; the bounds are after over before."""

    limit: Limit
    decision: Decision
    why: str
    before: str = ""
    after: str = ""
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class _Measured:
    """A quantity of both sides with the interval of its ratio; or ``missing``, which says what is not known."""

    before: float = 0.0
    after: float = 0.0
    low: float = 0.0
    high: float = 0.0
    missing: str = ""


def overall(answers: Sequence[Answer]) -> Decision:
    """Failed if any failed, else inconclusive if any is, or if there is none."""
    decisions = {answer.decision for answer in answers}
    if Decision.FAILED in decisions:
        return Decision.FAILED
    return Decision.PASSED if decisions == {Decision.PASSED} else Decision.INCONCLUSIVE


def judge(gates: Gates, before: Runs, after: Runs, steps: Judgement) -> list[Answer]:
    """The answer to every limit; ``steps`` says whether the two can be compared, and how the step time changed."""
    return [_answer(limit, gates, before, after, steps) for limit in gates.limits]


def _answer(limit: Limit, gates: Gates, before: Runs, after: Runs, steps: Judgement) -> Answer:
    if limit.quantity is Quantity.STEP_TIME:
        return _of_steps(limit, steps)
    what = f"The gate on {limit.written}"
    if limit.quantity is Quantity.THROUGHPUT and gates.items and gates.items[0] != gates.items[1]:
        steps = judgement_on(before, after)  # which does not mind another batch: that is what was stated
    of_snapshots = limit.quantity is Quantity.MEMORY_PEAK and not any(run.gpus for run in (*before, *after))
    if steps.outcome is Outcome.NOT_COMPARABLE and not of_snapshots:
        return Answer(limit, Decision.INCONCLUSIVE, f"{what} cannot decide: {steps.reason}.")
    measured = _measured(limit, gates, before, after, steps)
    if measured.missing:
        return Answer(limit, Decision.INCONCLUSIVE, f"{what} cannot decide: {measured.missing}.")
    falls = limit.quantity is Quantity.THROUGHPUT
    range_ = percent_of(measured.low)
    if measured.high != measured.low:
        range_ += f" to {percent_of(measured.high)}"
    changes = f"it is {range_} of what it was"
    decision, why = decided(what, changes, measured.low, measured.high, limit.percent, falls=falls)
    write = _WRITTEN.get(limit.quantity, duration)
    return Answer(
        limit, decision, why, write(measured.before), write(measured.after), measured.low, measured.high
    )


def _of_steps(limit: Limit, steps: Judgement) -> Answer:
    decision, why = steps.gate(limit.percent)
    ratio = steps.ratio
    if ratio is None:
        return Answer(limit, decision, why)
    return Answer(
        limit, decision, why, duration(ratio.before.mean), duration(ratio.after.mean), ratio.low, ratio.high
    )


def _measured(limit: Limit, gates: Gates, before: Runs, after: Runs, steps: Judgement) -> _Measured:
    match limit.quantity:
        case Quantity.P99:
            return _p99(before, after)
        case Quantity.MEMORY_PEAK:
            return _memory(before, after)
        case Quantity.THROUGHPUT:
            return _throughput(gates, steps)
        case Quantity.REGION:
            return _series(
                before,
                after,
                lambda run: run.regions[limit.name].ns if limit.name in run.regions else None,
                f"the region {limit.name!r}",
            )
        case Quantity.KERNEL:
            return _series(before, after, lambda run: _of_kernel(run, limit.name), f"a kernel {limit.name!r}")
        case Quantity.LAUNCHES:
            return _series(before, after, lambda run: run.launches, "a launch of a kernel", counted=True)
        case Quantity.COLLECTIVE_TIME:
            return _series(before, after, lambda run: run.collective_ns, "a collective")
        case _:
            return _series(before, after, lambda run: run.kernel_ns, "a kernel")


def _of_kernel(run: RunFigures, name: str) -> F64 | None:
    found = run.kernels_called(name)
    return np.sum([each.ns for each in found], axis=0) if found else None


def _series(
    before: Runs, after: Runs, of: Callable[[RunFigures], F64 | None], what: str, counted: bool = False
) -> _Measured:
    """The mean over the steps; a number that is the same in every step is known without an interval."""
    sides = [[series for run in runs if (series := of(run)) is not None] for runs in (before, after)]
    missing = [
        side
        for side, found, runs in zip(("before", "after"), sides, (before, after), strict=True)
        if len(found) < len(runs) or not any(series.any() for series in found)
    ]
    if missing:
        return _Measured(missing=f"{what} is not in the steady steps {' and '.join(missing)}")
    means = [float(np.concatenate(found).mean()) for found in sides]
    if counted and all(np.ptp(np.concatenate(found)) == 0 for found in sides):
        ratio = means[1] / means[0]
        return _Measured(means[0], means[1], ratio, ratio)
    found_ratio = ratio_of_runs(*([StepTimes(series) for series in found] for found in sides))
    if found_ratio is None:
        return _Measured(missing=f"fewer than {MIN_STEPS} steady steps do not show the spread")
    return _Measured(means[0], means[1], found_ratio.low, found_ratio.high)


def _memory(before: Runs, after: Runs) -> _Measured:
    peaks = [[run.memory_peak for run in runs if run.memory_peak] for runs in (before, after)]
    for side, found, runs in zip(("before", "after"), peaks, (before, after), strict=True):
        if len(found) < len(runs):
            return _Measured(missing=f"memory was not recorded {side} (capture --memory)")
    return _Measured(
        float(max(peaks[0])),
        float(max(peaks[1])),
        min(peaks[1]) / max(peaks[0]),
        max(peaks[1]) / min(peaks[0]),
    )


def _throughput(gates: Gates, steps: Judgement) -> _Measured:
    if gates.items is None:
        return _Measured(missing="the number of items per step is not known (--per-step-items 64)")
    ratio = steps.ratio
    assert ratio is not None  # a comparison without one is not comparable
    items = gates.items[1] / gates.items[0]
    rates = [
        count * NS_PER_S / times.mean
        for count, times in zip(gates.items, (ratio.before, ratio.after), strict=True)
    ]
    return _Measured(rates[0], rates[1], items / ratio.high, items / ratio.low)


def _p99(before: Runs, after: Runs) -> _Measured:
    """The 99th percentile of all steps; its interval holds CONFIDENCE of bootstrap samples (Efron, 1979)."""
    steps = [np.concatenate([run.step_ns for run in runs]) for runs in (before, after)]
    if min(map(len, steps)) < MIN_FOR_P99:
        return _Measured(missing=f"fewer than {MIN_FOR_P99} steady steps have no 99th percentile")
    random = np.random.default_rng(0)
    values = [float(np.quantile(side, 0.99)) for side in steps]
    if np.array_equal(steps[0], steps[1]):
        return _Measured(values[0], values[1], 1.0, 1.0)
    logs = [np.log(_resampled_p99(side, random)) for side in steps]
    low, high = np.exp(np.quantile(logs[1] - logs[0], [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])).tolist()
    return _Measured(values[0], values[1], low, high)


def _resampled_p99(steps: F64, random: np.random.Generator) -> F64:
    """Of RESAMPLES samples with replacement; ranks rather than steps are drawn, so that long runs cost no more."""
    ordered = np.sort(steps)
    # of an order statistic of uniforms
    ranks = random.beta(0.99 * len(steps), 0.01 * len(steps) + 1, RESAMPLES)
    return np.asarray(np.interp(ranks * (len(steps) - 1), np.arange(len(steps)), ordered))


_WRITTEN: dict[Quantity, Callable[[float], str]] = {
    Quantity.LAUNCHES: three_digits,
    Quantity.MEMORY_PEAK: size,
    Quantity.THROUGHPUT: lambda value: f"{three_digits(value)} items/s",
}
