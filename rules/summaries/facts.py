"""What the summaries of many ranks tell beside who is late: slow links, uneven work, typical ranks."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from math import lgamma

import numpy as np

from parsers.model.arrays import F64, I64, distinct_values, median_of, without
from parsers.model.late import dataclass
from rules.analysis.ranks.groups import EXPERT, NODE, Dimension
from rules.analysis.ranks.late import CollectiveRow, Ranks
from rules.analysis.ranks.lateness import Lateness
from rules.analysis.ranks.patterns import LOUD
from rules.analysis.ranks.reasons import Reason
from rules.summaries.run import ManyRanks
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


SLOW = 0.7  # times the median bus bandwidth of groups that send the same
ALIKE_GROUPS = 3  # so many are compared at least
MIN_MEETINGS = 3  # of one group: a single slow transfer is no slow link
MIN_BYTES = 64 << 10  # smaller messages take as long as the latency, whatever the link


@dataclass(frozen=True, slots=True, eq=False)
class SlowLink:
    """Groups that are slow and what they share: a node, a pair of ranks, or only their own members."""

    name: str
    rows: I64
    speed: CollectiveRow  # the costliest of them
    usual: float  # bus bandwidth of groups that send the same, bytes per second
    groups: int

    @property
    def lost_ns(self) -> int:
        """What its slowness takes in the window."""
        return int(
            self.speed.transfer_ns * self.speed.count * max(1 - self.speed.bus_bandwidth / self.usual, 0.0)
        )


def slow_links(
    run: ManyRanks, dimensions: tuple[Dimension, ...], collectives: tuple[CollectiveRow, ...]
) -> tuple[SlowLink, ...]:
    """Slow groups joined by what they share, the costliest first."""
    timed = [
        each
        for each in collectives
        if each.bytes >= MIN_BYTES and each.count >= MIN_MEETINGS and each.bus_bandwidth
    ]
    alike: dict[tuple[str, int, int], list[float]] = {}
    for each in timed:
        alike.setdefault(_sends(each), []).append(each.bus_bandwidth)
    usual = {
        sends: float(median_of(speeds)) for sends, speeds in alike.items() if len(speeds) >= ALIKE_GROUPS
    }
    slow = [
        SlowLink("", each.rows, each, usual[_sends(each)], 1)
        for each in timed
        if each.bus_bandwidth < SLOW * usual.get(_sends(each), 0.0)
    ]
    slow.sort(key=lambda each: -each.lost_ns)
    node = next((each for each in dimensions if each.kind == NODE), None)
    found: dict[str, list[SlowLink]] = {}
    for link in slow:
        name = _name(run, link.rows, node.label if node is not None else None, slow)
        found.setdefault(name, []).append(link)
    return tuple(
        replace(
            links[0],
            name=name,
            rows=distinct_values(np.concatenate([each.rows for each in links])),
            groups=len(links),
        )
        for name, links in found.items()
    )


def _sends(speed: CollectiveRow) -> tuple[str, int, int]:
    return speed.collective, speed.bytes, speed.ranks


def _name(run: ManyRanks, rows: I64, node: I64 | None, slow: list[SlowLink]) -> str:
    """The node that all slow groups touch where there is exactly one, or the ranks themselves."""
    if node is not None:
        nodes = distinct_values(node[rows])
        if len(nodes) == 1:
            return f"inside {run.rows[int(rows[0])].node}"
        shared = set(nodes.tolist())
        for each in slow:
            shared &= set(node[each.rows].tolist())
        if len(shared) == 1 and len(slow) > 1:
            one = int(next(iter(shared)))
            return f"from and to {run.rows[int(np.flatnonzero(node == one)[0])].node}"
    if len(rows) == 2:
        return f"between {run.name(int(rows[0]))} and {run.name(int(rows[1]))}"
    return f"among the {len(rows)} ranks from {run.name(int(rows[0]))} to {run.name(int(rows[-1]))}"


MAX_LISTED = 10


@dataclass(frozen=True, slots=True)
class CostlyRank:
    """One of the ranks that cost most: ``cost_ns`` waiting a step that it started; late by, in its late steps."""

    row: int
    cost_ns: int
    late_ns: int
    latest_in: int  # steps in which nobody costs more
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, eq=False)
class ManyRanksDiagnosis(Ranks[ManyRanks]):
    """Everything is computed once, when it is asked for first."""

    @cached_property
    def late_ceiling(self) -> int:
        """``lost_to_late``, as far as the others would not be as late themselves (ns)."""
        if not self.lost_to_late:
            return 0
        gain = self._gain_without_late
        return self.lost_to_late if gain is None else min(self.lost_to_late, gain)

    @property
    def _gain_without_late(self) -> int | None:
        """The most that the window can shrink (ns) if the late rows took no longer than the others; None where unknown.

        As ``rules.replay.late_ranks`` predicts from a replay of all ranks: a step takes what its slowest rank needs
        for itself, each replayed without its collectives, and the transfers. Kernels of the others
        that take longer than the late ranks' do so beside a waiting collective.
        """
        alone = [self.run.members[row.member].summary.words.alone for row in self.run.rows]
        known = [each for each in alone if each is not None]
        chosen = np.isin(np.arange(len(alone)), self.late)
        if not self.run.steps_in_window or len(known) < len(alone) or chosen.all() or not chosen.any():
            return None
        step, least, kernels = (
            np.array([getattr(each, which) for each in known])
            for which in ("step_ns", "without_silence_ns", "kernels_ns")
        )
        slowed = np.maximum(kernels - kernels[chosen].max(), 0.0)
        others = float((least - slowed)[~chosen].max())
        each = self.transfers_alone / self.run.steps_in_window
        share = 1 - (others + each) / max(float(step.max()) + each, 1.0)
        return int(max(share, 0.0) * self.run.window_ns)

    @cached_property
    def slow_links(self) -> tuple[SlowLink, ...]:
        """Groups that are slower than others that send the same."""
        return slow_links(self.run, self.lateness.dimensions, self.collectives)

    @cached_property
    def imbalance(self) -> Imbalance | None:
        return imbalance_of(self.lateness)

    @cached_property
    def scaling(self) -> tuple[Scaling, ...]:
        """What the slowest of 8, 64, 512 ranks takes."""
        return scaling_of(self.lateness)

    @cached_property
    def costly(self) -> tuple[CostlyRank, ...]:
        """The ranks that cost most, ten at most; none of those that cost less than a thousandth of a step."""
        cost, late = self.lateness.charged, self.lateness.late
        if not cost.size:
            return ()
        total = cost.sum(axis=1)
        latest = np.bincount(cost.argmax(axis=0), minlength=len(cost))
        least = self.run.window_ns / 1000
        found = []
        for row in np.argsort(-total, kind="stable")[:MAX_LISTED].tolist():
            if total[row] < least:
                break
            steps = np.flatnonzero(cost[row] > LOUD * cost[row].max())
            found.append(
                CostlyRank(
                    row=row,
                    cost_ns=int(total[row] / cost.shape[1]),
                    late_ns=max(int(median_of(late[row, steps])), 0),
                    latest_in=int(latest[row]),
                    reasons=self.reasons(np.array([row]), steps),
                )
            )
        return tuple(found)

    @cached_property
    def typical(self) -> int:
        """A row that nothing is wrong with: its own time in the steps is the median's; -1 without rows."""
        own = self.lateness.own.sum(axis=1) if self.lateness.own.shape[1] else self.run.parts.sum(axis=1)
        fine = without(np.arange(len(own)), np.array(self.late, np.int64))
        if not len(fine):
            return -1
        return int(fine[np.abs(own[fine] - median_of(own[fine])).argmin()])

    @property
    def slowest(self) -> int:
        """The row that costs most; the one with most time of its own where nobody waits; -1 without rows."""
        if self.late:
            return self.late[0]
        if self.costly:
            return self.costly[0].row
        own = self.lateness.own.sum(axis=1) if self.lateness.own.shape[1] else self.run.parts.sum(axis=1)
        return int(own.argmax()) if len(own) else -1
