"""Which collective kernels are one collective, and who waited how long in it, for whom; kept by participant."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np

from parsers.model import BOOL, F64, I64, Progress
from parsers.model.arrays import distinct_values, rows_by
from parsers.model.late import dataclass
from rules.analysis.arithmetic.intervals import Intervals, clip, measure
from rules.analysis.ranks.collectives import CollectiveKind


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """Collectives of all rows, in any order, on the run's clock."""

    kinds: tuple[CollectiveKind, ...]
    row: I64
    start: I64
    end: I64
    kind: I64  # index into kinds
    sequence: I64  # -1 where it was not recorded
    step: I64  # as counted on its own rank; -1 outside any

    @staticmethod
    def of(
        ranks: Iterable[tuple[Sequence[CollectiveKind], Mapping[str, tuple[int, ...]], Sequence[I64]]],
    ) -> Entries:
        """Of each rank its kinds, who belongs to its groups by their names, and its columns from ``row`` on.

        Groups of one name are different ones where their members are stated to be others, or their size, and matched
        by what their members agree on.
        """
        numbers: dict[tuple[str, str, int, tuple[int, ...]], int] = {}
        shown: list[CollectiveKind] = []
        columns: list[tuple[I64, ...]] = []
        for kinds, members, (row, start, end, kind, sequence, step) in ranks:
            local = []
            for each in kinds:
                key = (each.collective, each.group, each.bytes, members.get(each.group, ()))
                if key not in numbers:
                    numbers[key] = len(shown)
                    shown.append(each)
                local.append(numbers[key])
            columns.append((row, start, end, np.array(local, np.int64)[kind], sequence, step))
        joined = [np.concatenate(each).astype(np.int64) for each in zip(*columns, strict=True)]
        return Entries(tuple(shown), *(joined or [np.empty(0, np.int64)] * 6))


@dataclass(frozen=True, eq=False)
class Meetings:
    """One line for each participant of each collective, sorted by (collective, row); collectives by their start.

    ``first`` (collectives + 1) says where the participants of each begin, ``entry`` which of the ``Entries`` each is.
    ``waiting`` is exposed time before the transfer could start, inside the window; times are ns from the run's start.
    """

    kinds: tuple[CollectiveKind, ...]
    first: I64
    entry: I64
    row: I64
    start: I64
    end: I64
    kind: I64
    step: I64
    waiting: I64
    transferring: I64  # exposed time after that, inside the window
    in_window: BOOL  # of each collective: whether it touches the window
    rows: int  # of the run
    with_collectives: I64  # rows that have any

    @cached_property
    def meeting(self) -> I64:
        """Which collective each participant belongs to."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))

    @cached_property
    def size(self) -> I64:
        """How many participants each collective has."""
        return np.diff(self.first)

    @cached_property
    def duration(self) -> I64:
        """Kernel time of each participant."""
        return self.end - self.start

    @cached_property
    def transfer(self) -> I64:
        """The shortest participant of each collective: about the transfer itself."""
        return np.minimum.reduceat(self.duration, self.first[:-1]) if len(self.row) else self.duration

    @cached_property
    def last(self) -> I64:
        """The participant of each collective that waited least: it came last."""
        if not len(self.row):
            return np.empty(0, np.int64)
        order = np.lexsort((self.row, self.duration, self.meeting))
        return order[self.first[:-1]]

    @cached_property
    def waited(self) -> I64:
        """How long each collective's participants waited, exposed, summed."""
        return np.add.reduceat(self.waiting, self.first[:-1]) if len(self.row) else self.waiting

    @cached_property
    def caused(self) -> I64:
        """For each collective, what its last participant cost the others: their mean exposed waiting."""
        return (self.waited - self.waiting[self.last]) // np.maximum(self.size - 1, 1)

    @cached_property
    def blamed(self) -> F64:
        """For each participant, the mean exposed waiting for it until it arrived; who is late but not last counts, too.

        Between two arrivals those who are there wait, in equal parts, for all who are not.
        """
        wait = (self.duration - self.transfer[self.meeting]).astype(np.float64)
        order = np.lexsort((-wait, self.meeting))
        sorted_wait = wait[order]
        there = np.arange(len(order)) - self.first[self.meeting] + 1
        missing = self.size[self.meeting] - there
        following = np.append(sorted_wait[1:], 0.0)
        pause = np.where(missing > 0, sorted_wait - following, 0.0)
        for_each = pause * there / np.maximum(missing, 1)
        until = np.cumsum(for_each) - for_each  # what the participants before leave to this one
        charged = until - until[self.first[:-1]][self.meeting] if len(order) else until
        total = np.add.reduceat(charged, self.first[:-1]) if len(order) else charged
        found = np.empty(len(order))
        found[order] = charged / np.where(total > 0, total, 1.0)[self.meeting]
        return found * (self.waited / np.maximum(self.size - 1, 1))[self.meeting]

    @cached_property
    def caused_by_row(self) -> F64:
        """For each row of the run, what it cost the others by coming last, ns."""
        return np.bincount(self.row[self.last], self.caused, minlength=self.rows).astype(np.float64)

    def of_row(self, row: int) -> I64:
        """The participants that one row is."""
        order, first = self._by_row
        return order[first[row] : first[row + 1]]

    def waits(self, row: int) -> tuple[I64, I64]:
        """Start and end of the waiting part of each collective of one row."""
        mine = self.of_row(row)
        return self.start[mine], self.end[mine] - self.transfer[self.meeting[mine]]

    @cached_property
    def _by_row(self) -> tuple[I64, I64]:
        """The participants of row after row, and where each row's begin."""
        order = np.argsort(self.row, kind="stable")
        return order, np.searchsorted(self.row[order], np.arange(self.rows + 1))

    def by_row(self, values: F64 | I64) -> F64:
        """A value of participants, summed for each row of the run."""
        return np.bincount(self.row, values, minlength=self.rows).astype(np.float64)

    def by_row_and_step(self, values: F64 | I64, numbers: I64) -> F64:
        """(rows, steps): the same for each of the steps with these numbers."""
        inside = np.isin(self.step, numbers)
        place = np.searchsorted(numbers, self.step[inside])
        cell = self.row[inside] * max(len(numbers), 1) + place
        found = np.bincount(cell, values[inside], minlength=self.rows * max(len(numbers), 1))
        return found.astype(np.float64).reshape(self.rows, max(len(numbers), 1))[:, : len(numbers)]


def meetings_of(
    entry: Entries, rows: int, alone: Callable[[int], Intervals], window: tuple[int, int], progress: Progress
) -> Meetings:
    """Match the collectives of all ``rows``; ``alone`` says when a row's communication is exposed.

    Recorded sequence numbers decide. Else the n-th of a kind on one row belongs to the n-th on every other: over the
    whole recording where all have equally many, else counted anew in each step.
    """
    progress.step(0.0, "matching the collectives of the ranks")
    order, meeting = _matched(entry) if rows > 1 else (np.empty(0, np.int64), np.empty(0, np.int64))
    progress.step(0.4, "matching the collectives of the ranks")
    first = np.append(np.flatnonzero(np.diff(meeting, prepend=-1)), len(order)).astype(np.int64)
    row, start, end = entry.row[order], entry.start[order], entry.end[order]
    t0, t1 = window
    touches = (end > t0) & (start < t1)
    in_window = np.logical_or.reduceat(touches, first[:-1]) if len(order) else np.empty(0, bool)
    duration = end - start
    transfer = np.minimum.reduceat(duration, first[:-1]) if len(order) else duration
    until = end - np.repeat(transfer, np.diff(first))
    waiting, transferring = np.zeros(len(row), np.int64), np.zeros(len(row), np.int64)
    for each, mine in rows_by(row):
        progress.step(0.5 + 0.5 * each / rows, "measuring the waits inside collectives")
        exposed = clip(alone(each), *window)
        waiting[mine] = measure(exposed, start[mine], until[mine])
        transferring[mine] = measure(exposed, until[mine], end[mine])
    return Meetings(
        entry.kinds, first, order, row, start, end, entry.kind[order], entry.step[order], waiting, transferring,
        in_window, rows, distinct_values(entry.row),
    )  # fmt: skip


def _matched(entry: Entries) -> tuple[I64, I64]:
    """The entries that meet others, and which meeting each takes part in, in the order in which these begin."""
    number = np.where(entry.sequence >= 0, entry.sequence, 0)
    counted = entry.sequence < 0
    part = np.where(counted & _uneven(entry.kind, entry.row)[entry.kind], entry.step, 0)
    number = np.where(counted, _occurrence(entry.kind, entry.row, part, entry.start), number)
    part = np.where(counted, part, 0)
    order = np.lexsort((entry.start, entry.row, number, part, entry.kind))
    same = np.ones(len(order), bool)
    for column in (entry.kind, part, number):
        same[1:] &= column[order][1:] == column[order][:-1]
    again = same & np.concatenate(([False], entry.row[order][1:] == entry.row[order][:-1]))
    begins = ~same
    if len(order):
        begins[0], again[0] = True, False
    order, begins = order[~again], begins[~again]
    meeting = np.cumsum(begins) - 1
    alone_there = np.bincount(meeting, minlength=1)[meeting] < 2
    return _by_start(order[~alone_there], meeting[~alone_there], entry.start)


def _by_start(order: I64, meeting: I64, start: I64) -> tuple[I64, I64]:
    """Participants with the collectives in the order in which they begin, numbered anew."""
    if not len(order):
        return order, meeting
    first = np.flatnonzero(np.diff(meeting, prepend=-1))
    place = np.empty(len(first), np.int64)
    place[np.argsort(np.minimum.reduceat(start[order], first), kind="stable")] = np.arange(len(first))
    numbered = np.repeat(place, np.diff(np.append(first, len(order))))
    sorted_places = np.argsort(numbered, kind="stable")
    return order[sorted_places], numbered[sorted_places]


def _uneven(kind: I64, row: I64) -> BOOL:
    """Whether the rows that have collectives of a kind have unequally many."""
    kinds = int(kind.max(initial=-1)) + 1
    width = int(row.max(initial=0)) + 1
    pairs, counts = np.unique(kind * width + row, return_counts=True)
    least, most = np.full(kinds, np.iinfo(np.int64).max), np.zeros(kinds, np.int64)
    np.minimum.at(least, pairs // width, counts)
    np.maximum.at(most, pairs // width, counts)
    return np.asarray(most != least, bool)


def _occurrence(kind: I64, row: I64, part: I64, start: I64) -> I64:
    """0, 1, 2 ... within equal (kind, row, part), by start."""
    order = np.lexsort((start, part, row, kind))
    begins = np.ones(len(order), bool)
    begins[1:] = False
    for column in (kind, row, part):
        begins[1:] |= np.diff(column[order]) != 0
    place = np.arange(len(order))
    found = np.empty(len(order), np.int64)
    found[order] = place - np.maximum.accumulate(np.where(begins, place, 0))
    return found
