"""Blocks of steps with and without a change, and the gain between them with its bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from parsers.model.arrays import F64, median_of
from parsers.model.late import dataclass
from rules.comparison.step_times import StepRatio, StepTimes, ratio_of_blocks, ratio_of_runs

SAME_SIZE = 0.001  # elements of a batch; blocks that differ by less did the same work
MIN_BLOCKS = 4  # on each side
BLOCKS_A_ROUND = 4  # two with the change and two without, side by side
# times as far as blocks on their own do those spread that share what their round adds to both sides
SAME_ROUND = 2.0


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive steps that were timed as one, with the candidate's change made or without it.

    ``ns`` is the time of all its ``steps`` on the slowest rank, ``elements`` what their batches held together (0 where
    nobody knows), ``peak_bytes`` the most memory allocated meanwhile, ``settling_ns`` the time between the change and
    the block beyond that of usual steps, such as for compiling.
    """

    candidate: str
    changed: bool
    steps: int
    ns: float
    elements: float = 0.0
    peak_bytes: int | None = None
    settling_ns: float = 0.0
    changes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Gain:
    """How many times as fast a step is with a change, with the bounds of the comparison's confidence."""

    value: float
    low: float
    high: float

    @property
    def is_seen(self) -> bool:
        """Whether the noise allows to see a difference."""
        return not self.low <= 1.0 <= self.high

    def as_wide_as(self, other: Gain, share: float = 1.0) -> Gain:
        """The same with bounds no nearer than a ``share`` of those of the ``other``, whose true gain is 1."""
        low, high = min(other.low, 1.0) ** share, max(other.high, 1.0) ** share
        return Gain(self.value, min(self.low, self.value / high), max(self.high, self.value / low))

    @classmethod
    def of(cls, ratio: StepRatio, *, by_median: bool = True) -> Gain:
        """From the ratio of times with over times without."""
        value = 1 / (ratio.median if by_median else ratio.mean)
        return cls(value, min(1 / ratio.high, value), max(1 / ratio.low, value))


def have_different_sizes(blocks: Sequence[Block]) -> bool:
    """Whether steps of known batches did different amounts of work."""
    sizes = [block.elements / block.steps for block in blocks]
    return bool(sizes) and min(sizes) > 0 and max(sizes) > (1 + SAME_SIZE) * min(sizes)


def whole_rounds(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """The blocks of one launch without those of rounds that were cut short, in their order."""
    left: dict[str, int] = {}
    for block in blocks:
        left[block.candidate] = left.get(block.candidate, 0) + 1
    left = {name: count // BLOCKS_A_ROUND * BLOCKS_A_ROUND for name, count in left.items()}
    kept = []
    for block in blocks:
        if left[block.candidate]:
            left[block.candidate] -= 1
            kept.append(block)
    return tuple(kept)


def rounds_with(blocks: Sequence[Block], changes: Sequence[str]) -> list[Block]:
    """Of whole rounds of one candidate those in which exactly these changes were made."""
    rounds = [blocks[at : at + BLOCKS_A_ROUND] for at in range(0, len(blocks), BLOCKS_A_ROUND)]
    made = set(changes)
    return [
        block
        for each in rounds
        if all(set(block.changes) == made for block in each if block.changed)
        for block in each
    ]


def step_times(blocks: Sequence[Block], of: Sequence[Block]) -> StepTimes:
    """The time of a step in each of some blocks, ns; for a usual batch where batches differ in the blocks ``of``."""
    if not have_different_sizes(of):
        return StepTimes(np.array([block.ns / block.steps for block in blocks], np.float64))
    usual = float(median_of([block.elements / block.steps for block in of]))
    return StepTimes(np.array([block.ns / block.elements * usual for block in blocks], np.float64))


def gain_of(blocks: Sequence[Block]) -> Gain | None:
    """What a change gives, from the blocks of its candidate; None where one side has too few.

    Of two blocks on each side, all of one come before all of the other by chance once in three times; of four, once in
    35.
    """
    times = sides(blocks)
    if min(len(side.ns) for side in times) < MIN_BLOCKS:
        return None
    without, with_it = _without_drift(blocks, times)
    ratio = ratio_of_blocks(without, with_it)
    return Gain.of(ratio) if ratio is not None else None


def _without_drift(
    blocks: Sequence[Block], times: tuple[StepTimes, StepTimes]
) -> tuple[StepTimes, StepTimes]:
    """The step times of both sides as if every round had run at the same speed.

    A round compares its own blocks, so the speed of the machine cancels out however much it wanders between rounds.
    Taking out the level of a round also takes out a quarter of the variance of its blocks, which is put back. Where
    the gain differs from round to round by more than its blocks do, the four blocks of a round are one observation of
    it, not four.
    """
    changed = np.array([block.changed for block in blocks], bool)
    rounds = len(blocks) // BLOCKS_A_ROUND
    in_rounds = changed[: rounds * BLOCKS_A_ROUND].reshape(rounds, BLOCKS_A_ROUND)
    if (
        rounds < 2
        or rounds * BLOCKS_A_ROUND != len(blocks)
        or (in_rounds.sum(1) != BLOCKS_A_ROUND // 2).any()
    ):
        return times
    logs = np.empty(len(blocks))
    logs[~changed], logs[changed] = np.log(times[0].ns), np.log(times[1].ns)
    levels = logs.reshape(rounds, BLOCKS_A_ROUND).mean(1)
    flat = logs - np.repeat(levels - levels.mean(), BLOCKS_A_ROUND)
    spread = math.sqrt(BLOCKS_A_ROUND / (BLOCKS_A_ROUND - 1))
    wander = (SAME_ROUND - spread) * _wandering_gain(flat, changed)
    before, after = (_spread_out(flat[side], spread, wander[side]) for side in (~changed, changed))
    return before, after


def _spread_out(logs: F64, spread: float, more: F64) -> StepTimes:
    """Times that lie so many times as far from their median, and more."""
    middle = median_of(logs)
    return StepTimes(np.exp(middle + spread * (logs - middle) + more))


def _wandering_gain(logs: F64, changed: NDArray[np.bool_]) -> F64:
    """What each block of whole rounds of the same level lies off because the gain of its round is another.

    Of the differences between rounds, only what the spread of blocks of the same kind within a round does not explain.
    """
    sign = np.where(changed, -0.5, 0.5)
    rounds = len(logs) // BLOCKS_A_ROUND
    gains = (logs * sign).reshape(rounds, BLOCKS_A_ROUND).sum(1)
    off = gains - gains.mean()
    noise = logs - logs.mean() - sign * np.repeat(gains, BLOCKS_A_ROUND)
    explained = (noise**2).sum() / (2 * rounds)
    found = (off**2).sum() / (rounds - 1)
    share = max(0.0, 1.0 - explained / found) if found > 0 else 0.0
    return np.asarray(np.sqrt(share) * sign * np.repeat(off, BLOCKS_A_ROUND))


def sides(blocks: Sequence[Block]) -> tuple[StepTimes, StepTimes]:
    """The step times without the change and with it."""
    parts = [[block for block in blocks if block.changed is changed] for changed in (False, True)]
    return step_times(parts[0], blocks), step_times(parts[1], blocks)


def gain_of_launches(without: Sequence[Sequence[Block]], with_it: Sequence[Sequence[Block]]) -> Gain | None:
    """What a setting gives that is fixed at start, from the blocks of launches without and with it."""
    every = [block for launch in (*without, *with_it) for block in launch]
    before, after = (
        [step_times(launch, every) for launch in launches if launch] for launches in (without, with_it)
    )
    ratio = ratio_of_runs(before, after, alike=True) if before and after else None
    return Gain.of(ratio, by_median=False) if ratio is not None else None
