"""Who is late in a run of many ranks, who started it, and what that costs the others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from parsers.model.arrays import F64, I64
from rules.analysis.arithmetic.intervals import clip, length, union
from rules.analysis.idle.causes import Cause
from rules.analysis.ranks.lateness import late_devices
from rules.summaries.groups import PIPELINE, Dimension, dimensions_of
from rules.summaries.run import ManyRanks
from rules.summaries.states import COMMUNICATION, COMPUTE, FIRST_IDLE

OF_THE_CPU = tuple(
    FIRST_IDLE + cause
    for cause in (Cause.LAUNCH, Cause.INPUT, Cause.HOST, Cause.SYNCHRONIZATION, Cause.ALLOCATOR)
)
LEAST_LATE_SHARE = 0.01  # of the window: what a second late rank must cost (HTA, for collectives)
PASSED_ON = 0.5  # of a rank's lateness: so much waiting of its own explains it
MOST_HOPS = 8  # groups through which lateness is followed back
NOISE = 4.0  # times the middle spread of all ranks in a step: who is later is late


@dataclass(frozen=True, eq=False)
class Lateness:
    """Rows are those of the run, steps its ``step_numbers``; all in ns."""

    run: ManyRanks

    @cached_property
    def dimensions(self) -> tuple[Dimension, ...]:
        return dimensions_of(self.run)

    @cached_property
    def own(self) -> I64:
        """(rows, steps): time of a step that is not exposed communication: what the rank itself takes."""
        parts = self.run.by_step
        own: I64 = parts.sum(axis=2) - parts[:, :, COMMUNICATION]
        return own

    @cached_property
    def late(self) -> F64:
        """(rows, steps): by how much a rank takes longer than the median rank of its stage in the same step."""
        return beyond_median(self.own, self.stage)

    @cached_property
    def stage(self) -> I64:
        """(rows): the pipeline stage of each, 0 where there are none: only ranks of one stage have the same work."""
        pipeline = next((each for each in self.dimensions if each.kind == PIPELINE), None)
        return pipeline.label if pipeline is not None else np.zeros(len(self.run.rows), np.int64)

    @cached_property
    def waited(self) -> F64:
        """(rows, steps): exposed waiting inside collectives."""
        meetings = self.run.meetings
        return meetings.by_row_and_step(meetings.waiting, self.run.step_numbers)

    @cached_property
    def blamed(self) -> F64:
        """(rows, steps): mean waiting of the others of its groups for each."""
        meetings = self.run.meetings
        return meetings.by_row_and_step(meetings.blamed, self.run.step_numbers)

    @cached_property
    def waited_for(self) -> I64:
        """(rows, steps): for which row each waits most in a step; -1 where it waits for nobody."""
        meetings, numbers = self.run.meetings, self.run.step_numbers
        rows, steps = len(self.run.rows), len(numbers)
        found = np.full((rows, steps), -1, np.int64)
        if not len(meetings.row) or not steps:
            return found
        most = np.lexsort((-meetings.blamed, meetings.meeting))[meetings.first[:-1]]
        blamed_row = meetings.row[most][meetings.meeting]
        here = np.isin(meetings.step, numbers) & (meetings.waiting > 0) & (blamed_row != meetings.row)
        step = np.searchsorted(numbers, meetings.step[here])
        cell = (meetings.row[here] * steps + step) * rows + blamed_row[here]
        cells, which = np.unique(cell, return_inverse=True)
        time = np.bincount(which, meetings.waiting[here])
        order = np.argsort(time, kind="stable")
        found.ravel()[cells[order] // rows] = cells[order] % rows
        return found

    @cached_property
    def origin(self) -> I64:
        """(rows, steps): who started a rank's lateness: itself, or whom it waited for before it came late."""
        rows, steps = self.blamed.shape
        own = np.repeat(np.arange(rows)[:, None], steps, axis=1)
        passed = (self.waited >= PASSED_ON * self.blamed) & (self.blamed > 0) & (self.waited_for >= 0)
        towards = np.where(passed, self.waited_for, own)
        found, column = own, np.arange(steps)[None, :]
        for _ in range(MOST_HOPS):
            found = towards[found, column]
        return found

    @cached_property
    def cost(self) -> F64:
        """(rows, steps): mean waiting that each started, what others passed on included."""
        found = np.zeros(self.blamed.shape)
        steps = self.blamed.shape[1]
        cell = self.origin * steps + np.arange(steps)[None, :]
        found.ravel()[:] = np.bincount(cell.ravel(), self.blamed.ravel(), minlength=found.size)
        return found

    @cached_property
    def started(self) -> F64:
        """(rows): ``cost`` over all steps; without steps, what each is blamed for in the window."""
        if self.cost.shape[1]:
            total: F64 = self.cost.sum(axis=1)
            return total
        return self.run.meetings.by_row(self.run.meetings.blamed)

    @cached_property
    def late_together(self) -> tuple[int, ...]:
        """The rows that the others wait for, the costliest first; none when they take turns."""
        meetings = self.run.meetings
        some = meetings.with_collectives
        if not len(meetings.row):
            return ()
        last = np.bincount(meetings.row[meetings.last], meetings.caused, meetings.rows)[some].astype(
            np.float64
        )
        blamed = meetings.by_row(meetings.blamed)[some]
        return tuple(some[list(late_devices(last, blamed, LEAST_LATE_SHARE * self.run.window_ns))].tolist())

    @cached_property
    def exposed(self) -> I64:
        """(rows): exposed communication inside the window."""
        return self.run.parts[:, COMMUNICATION]

    def lost_to(self, late: tuple[int, ...], share: float | None = None) -> int:
        """What the lateness of these rows costs the others, mean over them; as ``Ranks.lost_to_late`` reckons.

        ``share`` is the part of all lateness that is theirs; by default what they cause by coming last.
        """
        meetings, parts = self.run.meetings, self.run.parts
        rows = meetings.with_collectives
        chosen = np.isin(rows, late)
        if not chosen.any() or chosen.all():
            return 0
        caused = np.bincount(meetings.row[meetings.last], meetings.caused, minlength=meetings.rows)[rows]
        exposed = self.exposed[rows]
        beyond = np.maximum(exposed[~chosen] - self.transfers_of(late), 0).mean()
        theirs = caused[chosen].sum() / max(caused.sum(), 1) if share is None else share
        visible = int(beyond * theirs)
        compute = parts[rows, COMPUTE]
        slowed = np.maximum(compute[~chosen] - compute[chosen].mean(), 0).mean()
        waited = np.array([self._waiting_in_window(row) for row in rows[~chosen].tolist()]).mean()
        idle = parts[rows][:, OF_THE_CPU].sum(axis=1)
        idler = max(float(idle[chosen].mean() - np.median(idle[~chosen])), 0.0)
        return max(visible, int(min(idler, visible + slowed, waited)))

    def gain_without(self, late: tuple[int, ...], transfers: int) -> int | None:
        """The most that the window can shrink (ns) if these rows took no longer than the others; None where unknown.

        As ``rules.replay.late_ranks`` predicts from a replay of all ranks: a step takes what its slowest rank needs
        for itself, each replayed without its collectives, and ``transfers`` (ns in the window). Kernels of the others
        that take longer than the late ranks' do so beside a waiting collective.
        """
        alone = [self.run.members[row.member].summary.words.alone for row in self.run.rows]
        known = [each for each in alone if each is not None]
        chosen = np.isin(np.arange(len(alone)), late)
        if not self.run.steps_in_window or len(known) < len(alone) or chosen.all() or not chosen.any():
            return None
        step, least, kernels = (
            np.array([getattr(each, which) for each in known])
            for which in ("step_ns", "without_silence_ns", "kernels_ns")
        )
        slowed = np.maximum(kernels - kernels[chosen].max(), 0.0)
        others = float((least - slowed)[~chosen].max())
        each = transfers / self.run.steps_in_window
        share = 1 - (others + each) / max(float(step.max()) + each, 1.0)
        return int(max(share, 0.0) * self.run.window_ns)

    def transfers_of(self, late: tuple[int, ...]) -> int:
        """What these rows expose, their waiting for one another left out (ns)."""
        if len(late) == 1:
            return int(self.exposed[late[0]])
        waited = self.run.meetings.by_row(self.run.meetings.waiting)
        return int((self.exposed - waited)[list(late)].min())

    def _waiting_in_window(self, row: int) -> int:
        """Waiting of one row inside the window, also where computation covers it."""
        meetings = self.run.meetings
        mine = self._participations[1][self._participations[0][row] : self._participations[0][row + 1]]
        until = meetings.end[mine] - meetings.transfer[meetings.meeting[mine]]
        return length(clip(union(meetings.start[mine], until), *self.run.window))

    @cached_property
    def _participations(self) -> tuple[I64, I64]:
        """Where each row's participations begin in the second: all of them, by row."""
        row = self.run.meetings.row
        order = np.argsort(row, kind="stable")
        return np.searchsorted(row[order], np.arange(len(self.run.rows) + 1)), order


def beyond_median(values: I64 | F64, stage: I64) -> F64:
    """(rows, steps): each value less the median of the rows of its stage in the same step."""
    found = np.zeros(values.shape)
    for each in np.unique(stage).tolist():
        here = stage == each
        found[here] = values[here] - np.median(values[here], axis=0)
    return found


def above_noise(late: F64, stage: I64) -> F64:
    """``late``, with 0 where it is no more than ranks of the same stage differ from one another in that step."""
    found = np.zeros(late.shape)
    for each in np.unique(stage).tolist():
        here = stage == each
        spread = np.median(np.abs(late[here]), axis=0)
        found[here] = np.where(late[here] > NOISE * spread, late[here], 0.0)
    return found
