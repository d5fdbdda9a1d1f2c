"""The step times of two recordings: the ratio of their means with a bootstrap interval, slow steps, and drift."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from parsers.model.arrays import F64, I64, median_of
from parsers.model.late import dataclass
from parsers.model.units import duration, percent, three_digits
from rules.analysis.steps.steps import Step

CONFIDENCE = 0.95
RESAMPLES = 4000
MAX_BLOCKS = 1000  # of consecutive steps: more are not resampled one by one
STEP_SPREAD = 0.02  # of one step on a quiet machine: what a few steps may not show of their own spread
MIN_STEPS = 2  # of one, nothing is known about the spread
SLOW_STEP = 2.0  # times the median
# of Spearman's rank correlation of step time and position, times sqrt(n - 1): never of fewer than 5
DRIFT_Z = 1.96
MIN_DRIFT = 0.02  # of the first half's mean
MAX_NAMED = 3
FURTHEST = np.log(np.finfo(np.float64).max) / 2  # logarithm of a factor; a bound that keeps numbers finite


@dataclass(frozen=True, slots=True)
class StepTimes:
    """The steady steps of one recording in order, ns, shape (n,); of several ranks the mean of each step."""

    ns: F64

    @classmethod
    def of(cls, steps: Sequence[Step]) -> StepTimes:
        """The steady ones of ``steps``; the n-th step of every rank is one step."""
        ranks: dict[int | None, list[int]] = {}
        for step in steps:
            if step.steady:
                ranks.setdefault(step.rank, []).append(step.duration)
        total = np.zeros(max(map(len, ranks.values()), default=0))
        count = np.zeros(len(total))
        for lengths in ranks.values():
            total[: len(lengths)] += lengths
            count[: len(lengths)] += 1
        return cls(total / np.maximum(count, 1))

    @property
    def mean(self) -> float:
        return float(self.ns.mean()) if len(self.ns) else 0.0

    @property
    def median(self) -> float:
        return float(median_of(self.ns)) if len(self.ns) else 0.0

    @property
    def slow(self) -> I64:
        """Positions of the steps that take at least SLOW_STEP times the median."""
        return np.flatnonzero(self.ns >= SLOW_STEP * self.median)

    @property
    def drift(self) -> float:
        """By what share the second half's mean is above the first's, where steps get steadily longer or shorter; or 0.

        Spearman's rank correlation with the position decides (Spearman, 1904).
        """
        count = len(self.ns)
        if not count or np.ptp(self.ns) == 0:
            return 0.0
        ranks = np.argsort(np.argsort(self.ns, kind="stable"), kind="stable")
        if abs(np.corrcoef(ranks, np.arange(count))[0, 1]) * np.sqrt(count - 1) < DRIFT_Z:
            return 0.0
        change = float(self.ns[(count + 1) // 2 :].mean() / self.ns[: count // 2].mean() - 1)
        return change if abs(change) >= MIN_DRIFT else 0.0

    def _slow_recur(self) -> bool:
        """Whether slow steps come at even distances, as a checkpoint does, so that their number is no chance."""
        slow = self.slow
        gaps = np.diff(slow)
        return (
            len(slow) > 1
            and bool((gaps == gaps[0]).all())
            and int(slow[0]) < gaps[0]
            and len(self.ns) - 1 - int(slow[-1]) < gaps[0]
        )

    def random(self) -> np.random.Generator:
        """Random numbers of these times alone.

        The same two recordings give the same interval, and swapped ones its inverse.
        """
        return np.random.default_rng(zlib.crc32(self.ns.tobytes()))

    def resampled_means(self, random: np.random.Generator) -> F64:
        """Means of RESAMPLES bootstrap samples, ns (Efron, 1979; in blocks where steps drift: Kuensch, 1989)."""
        count = len(self.ns)
        if self._slow_recur():
            is_slow = np.isin(np.arange(count), self.slow)
            parts = [self.ns[is_slow], self.ns[~is_slow]]
            means = sum((len(part) * _means(part, 1, random) for part in parts), np.zeros(RESAMPLES)) / count
        else:
            means = _means(block_means(self.ns), count // 2 if self.drift else 1, random)
        unseen = STEP_SPREAD / np.sqrt(count) * random.standard_t(count, RESAMPLES)
        return np.asarray(means * np.exp(unseen))

    def resampled_medians(self, random: np.random.Generator) -> F64:
        """Medians of RESAMPLES bootstrap samples, ns: of blocks of steps, which show their own spread."""
        return _resampled(self.ns, 1, random, np.median)


def block_means(ns: F64, most: int = MAX_BLOCKS) -> F64:
    """Means of consecutive steps where there are more, so that the work stays bounded."""
    if len(ns) <= most:
        return ns
    edges = np.linspace(0, len(ns), most + 1).astype(np.int64)
    return np.asarray(np.add.reduceat(ns, edges[:-1]) / np.diff(edges))


def _means(ns: F64, block: int, random: np.random.Generator) -> F64:
    return _resampled(ns, block, random, np.mean)


def _resampled(ns: F64, block: int, random: np.random.Generator, statistic: Any) -> F64:
    """A statistic of bootstrap samples of circular blocks.

    Its logarithms spread as far as Student's t says of so few values.
    """
    count = len(ns)
    block = min(max(block, 1), max(count // 2, 1))
    blocks = -(-count // block)
    starts = random.integers(count, size=(RESAMPLES, blocks))
    chosen = (starts[:, :, None] + np.arange(block)) % count
    means = statistic(ns[chosen.reshape(RESAMPLES, -1)[:, :count]], axis=1)
    freedom = max(blocks - 1, 1)
    spread = np.sqrt(count / max(count - 1, 1) * freedom / random.chisquare(freedom, RESAMPLES))
    whole = statistic(ns)
    return np.asarray(whole * np.exp(np.clip(np.log(means / whole) * spread, -FURTHEST, FURTHEST)))


@dataclass(frozen=True, slots=True)
class StepRatio:
    """Mean step time after over that before, with the interval ``low`` to ``high`` at CONFIDENCE.

    ``unrecorded`` is the ratio without what the recorders cost, where that is known.
    """

    before: StepTimes
    after: StepTimes
    low: float
    high: float
    unrecorded: float | None = None

    @property
    def mean(self) -> float:
        return self.after.mean / self.before.mean

    @property
    def median(self) -> float:
        return self.after.median / self.before.median

    @property
    def is_seen(self) -> bool:
        """Whether the noise allows to see a difference."""
        return not self.low <= 1.0 <= self.high

    def about(self) -> list[str]:
        """What to know before the ratio is trusted: drift, and steps without which it would be another."""
        said = []
        for side, times in (("first", self.before), ("second", self.after)):
            if drift := times.drift:
                said.append(
                    f"the steps of the {side} drift: the later half takes {percent(abs(drift))} "
                    f"{'more' if drift > 0 else 'less'} time per step than the earlier half"
                )
        if self.is_seen and not self.low <= self.median <= self.high:
            slower = self.median > 1
            said.append(
                f"by the median step it is {three_digits(self.median if slower else 1 / self.median)}x "
                f"{'slower' if slower else 'faster'} ({duration(self.after.median)} instead of "
                f"{duration(self.before.median)}); the mean is what a run costs"
                + _slow_steps("before", self.before)
                + _slow_steps("after", self.after)
            )
        return said


def _slow_steps(side: str, times: StepTimes) -> str:
    slow = times.slow
    if not len(slow):
        return ""
    named = ", ".join(str(position + 1) for position in slow[:MAX_NAMED].tolist())
    more = ", ..." if len(slow) > MAX_NAMED else ""
    return (
        f"; {side}, {len(slow)} of {len(times.ns)} steady steps (number {named}{more}) "
        f"take {duration(float(times.ns[slow].mean()))} on average"
    )


def ratio_of(before: StepTimes, after: StepTimes) -> StepRatio | None:
    """The ratio of the means with its interval; None where one has too few steps to know their spread."""
    if min(len(before.ns), len(after.ns)) < MIN_STEPS or not before.mean or not after.mean:
        return None
    if np.array_equal(before.ns, after.ns):
        return StepRatio(before, after, 1.0, 1.0)
    return _ratio(
        before, after, before.resampled_means(before.random()), after.resampled_means(after.random())
    )


def ratio_of_blocks(before: StepTimes, after: StepTimes) -> StepRatio | None:
    """The ratio of the medians with its interval, of blocks of steps; None where one side has fewer than two."""
    if min(len(before.ns), len(after.ns)) < MIN_STEPS or not before.median or not after.median:
        return None
    return _ratio(
        before, after, before.resampled_medians(before.random()), after.resampled_medians(after.random())
    )


def _ratio(before: StepTimes, after: StepTimes, samples_before: F64, samples_after: F64) -> StepRatio:
    logs = np.log(samples_after) - np.log(samples_before)
    low, high = np.exp(np.quantile(logs, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])).tolist()
    return StepRatio(before, after, low, high)


def ratio_of_runs(
    before: Sequence[StepTimes], after: Sequence[StepTimes], *, alike: bool = False
) -> StepRatio | None:
    """As ``ratio_of``; what the runs of a side differ by widens the interval, as Student's t has it for their number.

    ``alike`` says that runs of both sides took turns, so that they differ alike and both tell by how much.
    None where a side is empty, or one run with too few steps to know their spread.
    """
    if len(before) == len(after) == 1:
        return ratio_of(before[0], after[0])
    sides = [[run for run in runs if run.mean] for runs in (before, after)]
    if not all(len(runs) > 1 or (runs and len(runs[0].ns) >= MIN_STEPS) for runs in sides):
        return None
    pooled = [StepTimes(np.concatenate([run.ns for run in runs])) for runs in sides]
    spread = _pooled_spread(sides) if alike else None
    means = [_logarithms(runs, whole.random(), spread) for runs, whole in zip(sides, pooled, strict=True)]
    low, high = np.exp(
        np.quantile(means[1] - means[0], [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    ).tolist()
    return StepRatio(pooled[0], pooled[1], low, high)


def _spread(runs: Sequence[StepTimes]) -> tuple[float, int]:
    """The standard deviation of the logarithms of the means of runs, and its degrees of freedom."""
    freedom = len(runs) - 1
    return (float(np.std(np.log([run.mean for run in runs]), ddof=1)) if freedom else 0.0), freedom


def _pooled_spread(sides: Sequence[Sequence[StepTimes]]) -> tuple[float, int]:
    """The same within each side, from both."""
    found = [_spread(runs) for runs in sides]
    freedom = sum(each for _, each in found)
    return float(np.sqrt(sum(spread**2 * each for spread, each in found) / max(freedom, 1))), freedom


def _logarithms(
    runs: Sequence[StepTimes], random: np.random.Generator, spread: tuple[float, int] | None
) -> F64:
    """Of bootstrap samples of the mean step of all runs, shape (RESAMPLES,); ``spread`` is theirs unless given."""
    weight = np.array([len(run.ns) for run in runs], np.float64)
    samples = np.stack([run.resampled_means(random) for run in runs])
    found = np.log(weight @ samples / weight.sum())
    between, freedom = spread if spread is not None else _spread(runs)
    if freedom:
        found = found + between / np.sqrt(len(runs)) * random.standard_t(freedom, RESAMPLES)
    return np.asarray(found)
