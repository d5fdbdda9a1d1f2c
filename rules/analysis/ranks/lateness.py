"""By how much each rank is late in each step, for whom the others wait, and who started it."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from parsers.model.arrays import F64, I64, distinct_values, median_of
from parsers.model.late import dataclass
from rules.analysis.ranks.groups import PIPELINE, Dimension, dimensions_of
from rules.analysis.ranks.run import COMMUNICATION, RunOfRanks
from rules.terms import MAJORITY, NEARLY_ALL

BESIDE_IT = 0.25  # of all waiting: what a second late rank must be to blame for, to be named with the first
# of all waiting: what a few late ranks together must be to blame for where no single one stands out
MAX_HOPS = 8  # groups through which lateness is followed back
NOISE = 4.0  # times the middle spread of all ranks in a step: who is later is late


@dataclass(frozen=True, eq=False)
class Lateness:
    """Rows are those of the run, steps its ``step_numbers``; all in ns."""

    run: RunOfRanks

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
        """(rows, steps): mean waiting of the others of its groups for each, until it arrived."""
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
        passed = (self.waited >= MAJORITY * self.blamed) & (self.blamed > 0) & (self.waited_for >= 0)
        towards = np.where(passed, self.waited_for, own)
        found, column = own, np.arange(steps)[None, :]
        for _ in range(MAX_HOPS):
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
    def passes_on(self) -> bool:
        """Whether ranks meet in groups smaller than the run, through which lateness travels."""
        meetings = self.run.meetings
        if not len(meetings.size):
            return False
        stated = np.array([kind.group_size for kind in meetings.kinds])[meetings.kind[meetings.first[:-1]]]
        whole = np.maximum(stated, meetings.size)[stated > 1]  # of some only a part may have been recorded
        smallest = whole.min() if len(whole) else median_of(meetings.size)
        return bool(smallest < len(meetings.with_collectives))

    @cached_property
    def charged(self) -> F64:
        """(rows, steps): the waiting that is told to be for each: what it started, where lateness is passed on."""
        return self.cost if self.passes_on else self.blamed

    @cached_property
    def started(self) -> F64:
        """(rows): ``charged`` over all steps; without steps, or where nothing is passed on, over the whole window."""
        if self.passes_on and self.charged.shape[1]:
            total: F64 = self.charged.sum(axis=1)
            return total
        return self.run.meetings.by_row(self.run.meetings.blamed)


def beyond_median(values: I64 | F64, stage: I64) -> F64:
    """(rows, steps): each value less the median of the rows of its stage in the same step."""
    found = np.zeros(values.shape)
    for each in distinct_values(stage).tolist():
        here = stage == each
        found[here] = values[here] - median_of(values[here], axis=0)
    return found


def above_noise(late: F64, stage: I64) -> F64:
    """``late``, with 0 where it is no more than ranks of the same stage differ from one another in that step."""
    found = np.zeros(late.shape)
    for each in distinct_values(stage).tolist():
        here = stage == each
        spread = median_of(np.abs(late[here]), axis=0)
        found[here] = np.where(late[here] > NOISE * spread, late[here], 0.0)
    return found


def late_rows(last: F64, blamed: F64, least: float) -> tuple[int, ...]:
    """Which come late, the costliest first; none when they take turns or nobody waits.

    ``last`` and ``blamed`` give each one's waiting caused by coming last, and by not being there yet; ``least`` is
    how much a second one must cost to be named. Those named are never more than half: else the others are early.
    """
    if not last.sum() or not blamed.sum():
        return ()
    by_blame = np.argsort(-blamed, kind="stable")
    most = max(len(blamed) // 2, 1)
    first = int(last.argmax())
    if last[first] > MAJORITY * last.sum():
        beside = (blamed >= BESIDE_IT * blamed.sum()) & (blamed >= least)
        return (first, *[each for each in by_blame.tolist() if beside[each] and each != first])[:most]
    few = blamed >= MAJORITY * blamed.max()
    if 1 < few.sum() <= most and blamed[few].sum() >= NEARLY_ALL * blamed.sum():
        return tuple(each for each in by_blame.tolist() if few[each])
    return ()
