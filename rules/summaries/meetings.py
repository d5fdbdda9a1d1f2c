"""Collectives of many ranks, matched: who waited how long in each, for whom; kept by participant, never as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from parsers.model import BOOL, F64, I64, Progress
from rules.analysis.arithmetic.intervals import clip, measure
from rules.analysis.ranks.collectives import CollectiveColumns
from rules.analysis.ranks.stages import RECEIVE, SEND
from rules.summaries.rank_summary import CollectiveKind, Placed, Row


@dataclass(frozen=True, eq=False)
class Meetings:
    """One entry for each participant of each collective, sorted by (collective, row).

    ``first`` (collectives + 1) says where the participants of each begin. ``step`` is the participant's own count,
    -1 outside any; ``kind`` an index into ``kinds``. ``waiting`` is exposed time before the transfer could start,
    inside the window; times are ns from the run's start.
    """

    kinds: tuple[CollectiveKind, ...]
    first: I64
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
        """For each participant, the mean exposed waiting for it, as ``rules.analysis.ranks.lateness.blame`` shares it.

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

    def by_row(self, values: F64 | I64) -> F64:
        """A value of participants, summed for each row of the run."""
        return np.bincount(self.row, values, minlength=self.rows).astype(np.float64)

    def by_row_and_step(self, values: F64 | I64, numbers: I64) -> F64:
        """(rows, steps): the same for each of the steps with these numbers."""
        inside = np.isin(self.step, numbers)
        place = np.searchsorted(numbers, self.step[inside])
        cell = self.row[inside] * max(len(numbers), 1) + place
        found = np.bincount(cell, values[inside], minlength=self.rows * max(len(numbers), 1))
        return found.astype(np.float64).reshape(self.rows, -1)[:, : len(numbers)]


def meetings_of(
    members: Sequence[Placed], rows: Sequence[Row], window: tuple[int, int], progress: Progress
) -> Meetings:
    """Match the collectives of all members.

    Recorded sequence numbers decide. Else the n-th of a kind on one row belongs to the n-th on every other: over the
    whole recording where all have equally many, else counted anew in each step.
    """
    progress.step(0.0, "matching the collectives of the ranks")
    entry = _entries(members, rows)
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
    progress.step(0.4, "matching the collectives of the ranks")
    meeting = np.cumsum(begins) - 1
    alone = np.bincount(meeting, minlength=1)[meeting] < 2
    order, meeting = order[~alone], meeting[~alone]
    first = np.append(np.flatnonzero(np.diff(meeting, prepend=-1)), len(order)).astype(np.int64)
    start, end = entry.start[order], entry.end[order]
    t0, t1 = window
    touches = (end > t0) & (start < t1)
    in_window = np.logical_or.reduceat(touches, first[:-1]) if len(order) else np.empty(0, bool)
    duration = end - start
    transfer = np.minimum.reduceat(duration, first[:-1]) if len(order) else duration
    until = end - np.repeat(transfer, np.diff(first))
    waiting, transferring = _exposed(members, rows, window, (entry.row[order], start, until, end), progress)
    return Meetings(
        entry.kinds, first, entry.row[order], start, end, entry.kind[order], entry.step[order], waiting, transferring,
        in_window, len(rows), np.unique(entry.row),
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class _Entries:
    kinds: tuple[CollectiveKind, ...]
    row: I64
    start: I64
    end: I64
    kind: I64
    sequence: I64
    step: I64


def _entries(members: Sequence[Placed], rows: Sequence[Row]) -> _Entries:
    """The collectives of all members, on the run's clock, with kinds numbered for all of them.

    Groups of one name are different ones where their members are stated to be others, or their size, and matched by
    what their members agree on.
    """
    kinds: dict[tuple[str, str, int, tuple[int, ...]], int] = {}
    shown: list[CollectiveKind] = []
    columns: list[tuple[I64, ...]] = []
    first_row: dict[int, int] = {}
    for number, row in enumerate(rows):
        first_row.setdefault(row.member, number)
    for index, placed in enumerate(members):
        words, own = placed.summary.words, placed.summary.columns
        stated = {group.name: group.ranks for group in (words.rank.groups if words.rank else ())}
        local = []
        for kind in words.kinds:
            key = (kind.collective, kind.group, kind.bytes, stated.get(kind.group, ()))
            if (known := kinds.get(key)) is None:
                known = kinds[key] = len(shown)
                shown.append(kind)
            local.append(known)
        device = own["collective.device"]
        kept = np.flatnonzero(device >= 0)
        if not len(kept) or index not in first_row:
            continue
        columns.append(
            (
                first_row[index] + device[kept].astype(np.int64),
                own["collective.start"][kept] + placed.shift,
                own["collective.end"][kept] + placed.shift,
                np.array(local, np.int64)[own["collective.kind"][kept]],
                own["collective.sequence"][kept],
                own["collective.step"][kept],
            )
        )
    joined = [np.concatenate(each).astype(np.int64) for each in zip(*columns, strict=True)]
    if not joined:
        joined = [np.empty(0, np.int64)] * 6
    return _Entries(tuple(shown), *joined)


def messages_of(members: Sequence[Placed], rows: Sequence[Row]) -> CollectiveColumns | None:
    """The collectives of all rows, as those of a full reading, where any passes work on between two; else None."""
    words = (placed.summary.words for placed in members)
    if not any(kind.collective in (SEND, RECEIVE) for each in words for kind in each.kinds):
        return None
    found = _entries(members, rows)
    order = np.argsort(found.start, kind="stable")
    kinds = [found.kinds[each] for each in found.kind[order].tolist()]
    return CollectiveColumns(
        event=order,
        start=found.start[order],
        end=found.end[order],
        device=found.row[order],
        collective=tuple(kind.collective for kind in kinds),
        group=tuple(kind.group for kind in kinds),
        bytes=np.array([kind.bytes for kind in kinds], np.int64),
        group_size=np.array([kind.group_size for kind in kinds], np.int64),
        sequence=found.sequence[order],
    )


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


def _exposed(
    members: Sequence[Placed],
    rows: Sequence[Row],
    window: tuple[int, int],
    entries: tuple[I64, I64, I64, I64],
    progress: Progress,
) -> tuple[I64, I64]:
    """Exposed time of each participant before and after the transfer could begin, inside the window."""
    row, start, until, end = entries
    before, after = np.zeros(len(row), np.int64), np.zeros(len(row), np.int64)
    order = np.argsort(row, kind="stable")
    edges = np.searchsorted(row[order], np.arange(len(rows) + 1))
    for number, each in enumerate(rows):
        progress.step(0.5 + 0.5 * number / len(rows), "measuring the waits inside collectives")
        mine = order[edges[number] : edges[number + 1]]
        if not len(mine):
            continue
        placed = members[each.member]
        own = placed.summary.columns
        alone = tuple(own[f"{each.device}.alone.{side}"] + placed.shift for side in ("start", "end"))
        exposed = clip((alone[0], alone[1]), *window)
        before[mine] = measure(exposed, start[mine], until[mine])
        after[mine] = measure(exposed, until[mine], end[mine])
    return before, after
