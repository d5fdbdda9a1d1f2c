"""How evenly the work is spread over the ranks, and what their differences cost more of them the more there are."""

from __future__ import annotations

from math import lgamma

import numpy as np

from parsers.model.arrays import F64, distinct_values
from parsers.model.late import dataclass
from rules.analysis.ranks.groups import EXPERT
from rules.analysis.ranks.lateness import Lateness
from rules.terms import MAJORITY

MIN_IMBALANCE = 0.1  # the most loaded rank beyond the mean of its like
SIZES = (8, 64, 512, 4096)


@dataclass(frozen=True, slots=True)
class Imbalance:
    """``most`` is the most loaded rank's work over the mean of its like, averaged over steps (1 is even)."""

    most: float
    rotates: bool
    row: int  # the most loaded one of most steps
    of_experts: bool


def imbalance_of(lateness: Lateness) -> Imbalance | None:
    """Unequal work by the blocks of the compute kernels in a step; None where it is even or was not recorded."""
    blocks = lateness.run.reading("blocks")
    if not blocks.size or not np.isfinite(blocks).any() or not np.nansum(blocks):
        return None
    expert = next((each for each in lateness.dimensions if each.kind == EXPERT), None)
    like = lateness.stage
    ratio = np.ones(blocks.shape)
    for each in distinct_values(like).tolist():
        here = like == each
        mean = np.nanmean(blocks[here], axis=0)
        ratio[here] = blocks[here] / np.where(mean > 0, mean, 1.0)
    ratio = np.nan_to_num(ratio, nan=1.0)
    heaviest, steps = ratio.argmax(axis=0), blocks.shape[1]
    most = float(ratio.max(axis=0).mean())
    if most < 1 + MIN_IMBALANCE:
        return None
    counts = np.bincount(heaviest, minlength=len(ratio))
    row = int(counts.argmax())
    rotates = bool(counts[row] < MAJORITY * steps and steps > 2)
    return Imbalance(most, rotates, row, expert is not None and not rotates)


@dataclass(frozen=True, slots=True)
class Scaling:
    """The mean time (ns) of the slowest of ``ranks`` in a step, if they were picked from those recorded."""

    ranks: int
    step_ns: int


def scaling_of(lateness: Lateness) -> tuple[Scaling, ...]:
    """What a step's slowest rank takes with 8, 64, 512 ranks: the mean maximum of so many of the recorded ones.

    Of n values in ascending order, the i-th is the largest of k picked ones with probability C(i-1, k-1) / C(n, k).
    """
    own = np.sort(lateness.own.astype(np.float64), axis=0)
    rows = len(own)
    if rows < SIZES[0] or not own.shape[1]:
        return ()
    sizes = [size for size in SIZES if size < rows] + [rows]
    return tuple(Scaling(size, int((_weights(rows, size) @ own).mean())) for size in sizes)


def _weights(rows: int, picked: int) -> F64:
    whole = _log_choose(rows, picked)
    return np.array(
        [
            np.exp(_log_choose(below, picked - 1) - whole) if below >= picked - 1 else 0.0
            for below in range(rows)
        ]
    )


def _log_choose(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
