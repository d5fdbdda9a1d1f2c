"""What the summaries of many ranks tell together: who is late and why, slow links, uneven work, typical ranks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rules.analysis.ranks.lateness import LEAST_BLAME, late_devices
from rules.summaries.balance import Imbalance, Scaling, imbalance_of, scaling_of
from rules.summaries.groups import PIPELINE
from rules.summaries.lateness import LEAST_LATE_SHARE, Lateness
from rules.summaries.links import GroupSpeed, SlowLink, slow_links, speeds_of
from rules.summaries.patterns import Pattern, named, patterns_of
from rules.summaries.reasons import Reason, reason_of
from rules.summaries.run import ManyRanks
from rules.wording.phrases import listed

MOST_COSTLY = 10
LOUD = 0.3  # of the costliest step of a rank: the others are steps in which it is on time


@dataclass(frozen=True, slots=True)
class CostlyRank:
    """One of the ranks that cost most: ``cost_ns`` waiting a step that it started; late by, in its late steps."""

    row: int
    cost_ns: int
    late_ns: int
    latest_in: int  # steps in which nobody costs more
    reason: Reason


@dataclass(frozen=True, eq=False)
class ManyRanksDiagnosis:
    """Everything is computed once, when it is asked for first."""

    run: ManyRanks

    @cached_property
    def lateness(self) -> Lateness:
        return Lateness(self.run)

    @cached_property
    def late(self) -> tuple[int, ...]:
        """The rows that the others wait for, the costliest first; empty where they take turns or nobody waits.

        Where ranks meet in several groups, lateness is followed back to who started it.
        """
        lateness, meetings = self.lateness, self.run.meetings
        if not self.passes_on:
            return lateness.late_together
        some = meetings.with_collectives
        started = lateness.started[some]
        least = LEAST_LATE_SHARE * self.run.window_ns
        few = late_devices(started, started, least)
        return tuple(some[list(few)].tolist()) if few else self._late_by_pattern

    @property
    def _late_by_pattern(self) -> tuple[int, ...]:
        """Ranks, nodes and groups that are late for reasons of their own, where most of the waiting is for them."""
        started = self.lateness.started
        rows = [each.rows for each in self.patterns if each.kind != PIPELINE]
        late = np.unique(np.concatenate(rows)) if rows else np.empty(0, np.int64)
        if 2 * len(late) > len(started) or started[late].sum() <= LEAST_BLAME * started.sum():
            return ()
        return tuple(late[np.argsort(-started[late], kind="stable")].tolist())

    @property
    def late_name(self) -> str:
        """What the late rows are called: the patterns that they are, or their group, or their ranks."""
        parts = [each for each in self.patterns if np.isin(each.rows, self.late).all()]
        if len(parts) > 1 and sum(len(each.rows) for each in parts) == len(self.late):
            return listed([each.name for each in parts])
        return named(self.lateness, self.late)

    @property
    def passes_on(self) -> bool:
        """Whether ranks meet in groups smaller than the run, through which lateness travels."""
        meetings = self.run.meetings
        if not len(meetings.size):
            return False
        stated = [kind.group_size for kind in meetings.kinds if kind.group_size > 1]
        smallest = min(stated) if stated else int(np.median(meetings.size))
        return smallest < len(meetings.with_collectives)

    @cached_property
    def lost_to_late(self) -> int:
        """What the late rows cost the others in the window (ns), mean over them."""
        share = None
        if self.passes_on and self.late:
            started = self.lateness.started
            share = float(started[list(self.late)].sum() / max(float(started.sum()), 1.0))
        return self.lateness.lost_to(self.late, share)

    @cached_property
    def late_ceiling(self) -> int:
        """``lost_to_late``, as far as the others would not be as late themselves (ns)."""
        if not self.lost_to_late:
            return 0
        gain = self.lateness.gain_without(self.late, self.transfers_alone)
        return self.lost_to_late if gain is None else min(self.lost_to_late, gain)

    @cached_property
    def transfers_alone(self) -> int:
        """Exposed communication that is nobody's lateness (ns): as of a full reading."""
        meetings = self.run.meetings
        rows = meetings.with_collectives
        if not len(rows):
            return 0
        mean = int(self.lateness.exposed[rows].mean())
        if not self.late:
            return mean
        return max(self.lateness.transfers_of(self.late), mean - self.lost_to_late)

    @cached_property
    def patterns(self) -> tuple[Pattern, ...]:
        """Who is late together, and when: four at most."""
        return patterns_of(self.lateness)

    @cached_property
    def reasons(self) -> tuple[Reason, ...]:
        """Why, for each pattern."""
        return tuple(reason_of(self.lateness, each.rows, each.steps) for each in self.patterns)

    @cached_property
    def speeds(self) -> tuple[GroupSpeed, ...]:
        """How fast each group communicates."""
        return speeds_of(self.run)

    @cached_property
    def slow_links(self) -> tuple[SlowLink, ...]:
        """Groups that are slower than others that send the same."""
        return slow_links(self.run, self.speeds)

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
        cost, late = self.lateness.cost, self.lateness.late
        if not cost.size:
            return ()
        total = cost.sum(axis=1)
        latest = np.bincount(cost.argmax(axis=0), minlength=len(cost))
        least = self.run.window_ns / 1000
        found = []
        for row in np.argsort(-total, kind="stable")[:MOST_COSTLY].tolist():
            if total[row] < least:
                break
            steps = np.flatnonzero(cost[row] > LOUD * cost[row].max())
            found.append(
                CostlyRank(
                    row=row,
                    cost_ns=int(total[row] / cost.shape[1]),
                    late_ns=max(int(np.median(late[row, steps])), 0),
                    latest_in=int(latest[row]),
                    reason=reason_of(self.lateness, np.array([row]), steps),
                )
            )
        return tuple(found)

    @cached_property
    def typical(self) -> int:
        """A row that nothing is wrong with: its own time in the steps is the median's; -1 without rows."""
        own = self.lateness.own.sum(axis=1) if self.lateness.own.shape[1] else self.run.parts.sum(axis=1)
        fine = np.setdiff1d(np.arange(len(own)), np.array(self.late, np.int64))
        if not len(fine):
            return -1
        return int(fine[np.abs(own[fine] - np.median(own[fine])).argmin()])

    @property
    def slowest(self) -> int:
        """The row that costs most; the one with most time of its own where nobody waits; -1 without rows."""
        if self.late:
            return self.late[0]
        if self.costly:
            return self.costly[0].row
        own = self.lateness.own.sum(axis=1) if self.lateness.own.shape[1] else self.run.parts.sum(axis=1)
        return int(own.argmax()) if len(own) else -1
