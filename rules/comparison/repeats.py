"""The ratio of mean step times where each side was recorded several times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from parsers.model.arrays import F64
from rules.comparison.step_times import (
    CONFIDENCE,
    FEWEST_STEPS,
    RESAMPLES,
    SEED,
    StepRatio,
    StepTimes,
    ratio_of,
)


def ratio_of_runs(before: Sequence[StepTimes], after: Sequence[StepTimes]) -> StepRatio | None:
    """As ``ratio_of``; what the runs of one side differ by widens the interval, as Student's t has it for their number.

    None where a side is empty, or one run with too few steps to know their spread.
    """
    if len(before) == len(after) == 1:
        return ratio_of(before[0], after[0])
    sides = [[run for run in runs if run.mean] for runs in (before, after)]
    if not all(len(runs) > 1 or (runs and len(runs[0].ns) >= FEWEST_STEPS) for runs in sides):
        return None
    random = np.random.default_rng(SEED)
    means = [_logarithms(runs, random) for runs in sides]
    pooled = [StepTimes(np.concatenate([run.ns for run in runs])) for runs in sides]
    low, high = np.exp(
        np.quantile(means[1] - means[0], [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    ).tolist()
    return StepRatio(pooled[0], pooled[1], low, high)


def _logarithms(runs: Sequence[StepTimes], random: np.random.Generator) -> F64:
    """Of bootstrap samples of the mean step of all runs, shape (RESAMPLES,)."""
    weight = np.array([len(run.ns) for run in runs], np.float64)
    samples = np.stack([run.resampled_means(random) for run in runs])
    found = np.log(weight @ samples / weight.sum())
    if len(runs) > 1:
        between = np.std(np.log([run.mean for run in runs]), ddof=1) / np.sqrt(len(runs))
        found = found + between * random.standard_t(len(runs) - 1, RESAMPLES)
    return np.asarray(found)
