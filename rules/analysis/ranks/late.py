"""What several ranks tell together: whom the others wait for, since when and why, and what that costs."""

from __future__ import annotations

from functools import cached_property
from typing import Generic, TypeVar

import numpy as np

from parsers.model.arrays import I64, distinct_values, median_of, rows_by, without
from parsers.model.late import dataclass
from rules.analysis.arithmetic.intervals import Intervals, clip, intersect, length, union
from rules.analysis.idle.causes import Cause
from rules.analysis.ranks.collectives import bus_factor, whole_message
from rules.analysis.ranks.groups import PIPELINE
from rules.analysis.ranks.lateness import Lateness, late_rows
from rules.analysis.ranks.patterns import LOUD, Course, Party, Pattern, course_of, parties_of, patterns_of
from rules.analysis.ranks.reasons import CLEARLY_MORE, Reason, reasons_of
from rules.analysis.ranks.run import COMMUNICATION, COMPUTE, FIRST_IDLE, RunOfRanks
from rules.terms import MAJORITY

OF_THE_CPU = tuple(
    FIRST_IDLE + cause
    for cause in (Cause.LAUNCH, Cause.INPUT, Cause.HOST, Cause.SYNCHRONIZATION, Cause.ALLOCATOR)
)
MIN_LATE_SHARE = 0.01  # of the window: what a second late rank must cost (HTA, for collectives)
RunType = TypeVar("RunType", bound=RunOfRanks)


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveRow:
    """One kind of collective of one group in the window; speeds in bytes per second, 0 where the size is unknown."""

    collective: str
    group: str
    bytes: int
    count: int
    ranks: int
    transfer_ns: int  # median of the shortest participants
    waiting_ns: int  # mean over the rows of the run, summed
    algorithm_bandwidth: float
    bus_bandwidth: float
    rows: I64  # who takes part


@dataclass(frozen=True, eq=False)
class Ranks(Generic[RunType]):
    """Everything is computed once, when it is asked for first; times in ns."""

    run: RunType

    @cached_property
    def lateness(self) -> Lateness:
        return Lateness(self.run)

    @cached_property
    def late(self) -> tuple[int, ...]:
        """The rows that the others wait for, the costliest first; empty where they take turns or nobody waits.

        Where ranks meet in several groups, lateness is followed back to who started it.
        """
        meetings, lateness = self.run.meetings, self.lateness
        if not len(meetings.row):
            return ()
        some = meetings.with_collectives
        blamed = lateness.started[some]
        last = blamed if lateness.passes_on else meetings.caused_by_row[some]
        few = late_rows(last, blamed, MIN_LATE_SHARE * self.run.window_ns)
        if few or not lateness.passes_on:
            return tuple(some[list(few)].tolist())
        return self._late_by_pattern

    @property
    def _late_by_pattern(self) -> tuple[int, ...]:
        """Ranks, nodes and groups that are late for reasons of their own, where most of the waiting is for them."""
        started = self.lateness.started
        rows = [each.rows for each in self.patterns if each.kind != PIPELINE]
        late = distinct_values(np.concatenate(rows)) if rows else np.empty(0, np.int64)
        if 2 * len(late) > len(started) or started[late].sum() <= MAJORITY * started.sum():
            return ()
        return tuple(late[np.argsort(-started[late], kind="stable")].tolist())

    @cached_property
    def parties(self) -> tuple[Party, ...]:
        """The late rows by what they are called: the patterns that they are, or their group, or their ranks."""
        parts = [Party(each.name, each.rows) for each in self.patterns if np.isin(each.rows, self.late).all()]
        if len(parts) > 1 and sum(len(each.rows) for each in parts) == len(self.late):
            return tuple(parts)
        return parties_of(self.lateness, self.late)

    @property
    def others(self) -> I64:
        """The rows that meet the late ones."""
        return without(self.run.meetings.with_collectives, self.late)

    def course(self, rows: I64) -> Course:
        """In which steps the others wait for these rows."""
        charged = self.lateness.charged[rows].sum(axis=0)
        return course_of(np.flatnonzero(charged > LOUD * charged.max(initial=0.0)), len(charged))

    def part_of_waiting(self, rows: I64) -> float:
        """How much of all waiting is for these rows, 0 to 1."""
        started = self.lateness.started
        return float(started[rows].sum() / max(started.sum(), 1.0))

    def reasons(self, rows: I64, steps: I64 | None = None) -> tuple[Reason, ...]:
        """What these rows do more of than the others, the most first; in some steps (indices) or the whole window."""
        return reasons_of(self.lateness, rows, np.array(self.late, np.int64), steps)

    @cached_property
    def patterns(self) -> tuple[Pattern, ...]:
        """Who is late together, and when: four at most."""
        return patterns_of(self.lateness)

    @cached_property
    def pattern_reasons(self) -> tuple[tuple[Reason, ...], ...]:
        """Why, for each pattern."""
        return tuple(
            reasons_of(self.lateness, each.rows, each.rows, each.course.steps) for each in self.patterns
        )

    @cached_property
    def exposed(self) -> I64:
        """(rows): exposed communication inside the window."""
        return self.run.parts[:, COMMUNICATION]

    @cached_property
    def waiting(self) -> I64:
        """(rows): exposed time inside collectives before the transfer could start, inside the window."""
        return self.run.meetings.by_row(self.run.meetings.waiting).astype(np.int64)

    @cached_property
    def in_turn(self) -> int:
        """What a row waits for others on average beyond what the late ones cost: each rank comes last at times."""
        rows = self.run.meetings.with_collectives
        return max(int(self.waiting[rows].sum()) // max(len(rows), 1) - self.lost_to_late, 0)

    @property
    def most_waiting(self) -> int:
        """What the row waits that waits longest for the late ones, or for whom these hold up."""
        meetings = self.run.meetings
        for_late = np.isin(meetings.row[meetings.last][meetings.meeting], self.late)
        waiting = meetings.by_row(np.where(for_late | self.lateness.passes_on, meetings.waiting, 0))
        return int(waiting[self.others].max())

    @cached_property
    def lost_to_late(self) -> int:
        """What the lateness of the late rows costs the others, mean over them.

        Visible is what they expose beyond a late rank, as far as these are to blame: what it exposes itself, without
        waiting for another late one, is the transfers alone. A waiting collective also takes multiprocessors, so that
        compute beside it becomes slower instead of waiting visibly: that counts as far as the late ranks idle longer
        than the others do; where nothing says clearly what the late ranks do more of, what they wait visibly
        counts twice at most.
        """
        late, others = np.array(self.late, np.int64), self.others
        if not len(late) or not len(others):
            return 0
        parts = self.run.parts
        beyond = np.maximum(self.exposed[others] - self._transfers_of_late, 0).mean()
        caused = self.lateness.started if self.lateness.passes_on else self.run.meetings.caused_by_row
        visible = int(beyond * caused[late].sum() / max(caused.sum(), 1.0))
        slowed = np.maximum(parts[others, COMPUTE] - parts[late, COMPUTE].mean(), 0).mean()
        waited = np.array([length(self.waits(row)) for row in others.tolist()]).mean()
        idle = parts[:, OF_THE_CPU].sum(axis=1)
        idler = max(float(idle[late].mean() - median_of(idle[others])), 0.0)
        lost = max(visible, int(min(idler, visible + slowed, waited)))
        clear = any(reason.share >= CLEARLY_MORE for reason in self.reasons(late))
        return lost if clear else min(lost, 2 * self.most_waiting)

    @property
    def _transfers_of_late(self) -> int:
        """What the late ranks expose, their waiting for one another left out."""
        late = list(self.late)
        own = self.exposed if len(late) == 1 else self.exposed - self.waiting
        return int(own[late].min())

    def waits(self, row: int) -> Intervals:
        """Where a row waits inside collectives in the window, also where computation covers it."""
        return clip(union(*self.run.meetings.waits(row)), *self.run.window)

    def exposed_waits(self, row: int) -> Intervals:
        """Where a row waits inside collectives in the window and nothing else runs."""
        return intersect(self.waits(row), self.run.alone(row))

    @cached_property
    def transfers_alone(self) -> int:
        """Exposed communication that is nobody's lateness: mean over the rows less what a late rank costs."""
        rows = self.run.meetings.with_collectives
        if not len(rows):
            return 0
        mean = int(self.exposed[rows].mean())
        return max(self._transfers_of_late, mean - self.lost_to_late) if self.late else mean

    @property
    def unrecorded(self) -> str:
        """ "the run has 4 ranks, and only 3 are open"; empty where all ranks were recorded.

        One file may hold several: each of their GPUs takes part in collectives.
        """
        meetings = self.run.meetings
        here = max(len({row.member for row in self.run.rows}), len(meetings.with_collectives))
        needed = max(self.run.world_size, max((kind.group_size for kind in meetings.kinds), default=0))
        are = "is" if here == 1 else "are"
        return f"the run has {needed:,} ranks, and only {here:,} {are} open" if needed > here > 0 else ""

    @cached_property
    def clock_error(self) -> I64:
        """(rows): how well each clock is known against the first row's, from the ends of common collectives.

        Half the middle spread of the differences.
        """
        meetings, rows = self.run.meetings, self.run.meetings.with_collectives
        error = np.zeros(len(self.run.rows), np.int64)
        first = meetings.row == rows[0] if len(rows) else np.empty(0, bool)
        end = np.zeros(len(meetings.size), np.int64)
        there = np.zeros(len(meetings.size), bool)
        end[meetings.meeting[first]], there[meetings.meeting[first]] = meetings.end[first], True
        for row in rows[1:].tolist():
            mine = meetings.of_row(row)
            mine = mine[there[meetings.meeting[mine]]]
            if len(mine):
                low, high = np.percentile(meetings.end[mine] - end[meetings.meeting[mine]], (25, 75))
                error[row] = int((high - low) / 2)
        return error

    @cached_property
    def collectives(self) -> tuple[CollectiveRow, ...]:
        """One for each kind of collective and its group, the longest total transfer first."""
        meetings, (t0, t1) = self.run.meetings, self.run.window
        begins = meetings.first[:-1]
        inside = np.flatnonzero((meetings.start[begins] >= t0) & (meetings.start[begins] < t1))
        rows = []
        found = sorted(rows_by(meetings.kind[begins][inside]), key=lambda each: int(each[1][0]))
        for kind, which in found:
            members, about = inside[which], meetings.kinds[kind]
            ranks = about.group_size or int(meetings.size[members].max())
            transfer = int(median_of(meetings.transfer[members]))
            speed = whole_message(about.collective, about.bytes, ranks) / transfer * 1e9 if transfer else 0.0
            waiting = int(meetings.waited[members].sum() // max(len(meetings.with_collectives), 1))
            first = int(members[0])
            rows.append(
                CollectiveRow(
                    about.collective,
                    about.group,
                    about.bytes,
                    len(members),
                    ranks,
                    transfer,
                    waiting,
                    speed,
                    speed * bus_factor(about.collective, ranks),
                    meetings.row[meetings.first[first] : meetings.first[first + 1]],
                )
            )
        return tuple(sorted(rows, key=lambda each: -each.transfer_ns * each.count))
