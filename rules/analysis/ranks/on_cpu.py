"""Collectives that the CPUs of the ranks run themselves: how long each rank waits in them, and for whom."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from parsers.model import I64, Attribute, Progress, derived
from parsers.model.arrays import distinct_values, without
from parsers.model.late import dataclass
from rules.analysis.analysis import Analysis
from rules.analysis.cpu.cpu_time import CpuTime, collectives_on_cpu, cpu_time_of_rank
from rules.analysis.ranks.collectives import CollectiveKind
from rules.analysis.ranks.lateness import late_rows
from rules.analysis.ranks.meetings import Entries, Meetings, meetings_of


@dataclass(frozen=True, eq=False)
class RanksOnCpu:
    """One row for each rank that runs collectives on its CPU; times in ns, of the analysed window."""

    ranks: tuple[int | None, ...]
    times: tuple[CpuTime, ...]  # the busiest thread of each
    events: I64  # of all collectives: what ``meetings.entry`` counts
    meetings: Meetings

    @cached_property
    def exposed(self) -> I64:
        """What each thread waits while a collective of its rank runs."""
        return np.array([each.communicating_ns for each in self.times], np.int64)

    @property
    def step_ns(self) -> int:
        """The window without the recorder, of the rank that takes longest."""
        return max(each.step_ns for each in self.times)

    @cached_property
    def late(self) -> int:
        """The row that the others wait for; -1 where they take turns or nobody waits long."""
        meetings = self.meetings
        some = meetings.with_collectives
        blamed = meetings.by_row(meetings.blamed)[some]
        found = late_rows(meetings.caused_by_row[some], blamed, np.inf)
        return int(some[found[0]]) if found else -1

    @property
    def others(self) -> I64:
        """The rows that meet the late one."""
        return without(self.meetings.with_collectives, [self.late])

    @cached_property
    def lost_to_late(self) -> int:
        """What the late rank costs the others, mean over them; 0 without one.

        What the late one exposes itself is the transfers alone.
        """
        if self.late < 0:
            return 0
        beyond = np.maximum(self.exposed[self.others] - self.exposed[self.late], 0).mean()
        return int(min(self.meetings.caused_by_row[self.late], beyond))

    @cached_property
    def transfers(self) -> int:
        """What is exposed and nobody's lateness, mean over the rows."""
        return int(self.exposed[self.late] if self.late >= 0 else self.exposed.mean())

    def waits(self, row: int) -> I64:
        """The collectives of a row in which it waits for the late one, the longest waits first."""
        meetings = self.meetings
        mine = meetings.of_row(row)
        mine = mine[
            (meetings.row[meetings.last][meetings.meeting[mine]] == self.late) & (meetings.waiting[mine] > 0)
        ]
        longest = mine[np.argsort(-meetings.waiting[mine], kind="stable")]
        return np.asarray(self.events[meetings.entry[longest]])

    def longest(self, row: int) -> I64:
        """All collectives of a row, those that take longest first."""
        mine = self.events[np.isin(self._row, row)]
        table = self.times[0].trace.events
        return mine[np.argsort(-table.duration[mine], kind="stable")]

    @cached_property
    def _row(self) -> I64:
        trace = self.times[0].trace
        place = {rank: row for row, rank in enumerate(self.ranks)}
        return np.array([place[trace.lanes[each].rank] for each in trace.events.lane[self.events].tolist()])

    def more_in(self) -> tuple[str, int]:
        """In which range the late thread spends most beyond the others' mean, and how much, ns of the window."""
        spent = [_by_region(each) for each in self.times]
        own = spent[self.late]
        others = [spent[row] for row in self.others.tolist()]
        beyond = {
            name: ns - sum(each.get(name, 0) for each in others) // max(len(others), 1)
            for name, ns in own.items()
        }
        name = max(sorted(beyond), key=lambda each: beyond[each], default="")
        return name, beyond.get(name, 0)


def _by_region(time: CpuTime) -> Mapping[str, int]:
    """Time of the thread in ranges of the program, waiting in collectives left out."""
    found: dict[str, int] = {}
    column = time.activity.user_regions
    for event, ns in time.shares(column):
        found[time.trace.name(event)] = ns
    for event, ns in time.shares(column, time.communicating):
        found[time.trace.name(event)] -= ns
    return found


@derived
def ranks_on_cpu(analysis: Analysis) -> RanksOnCpu | None:
    """None where no rank runs collectives on its CPU, or where a GPU was recorded."""
    trace = analysis.trace
    events = collectives_on_cpu(trace)
    if not len(events):
        return None
    of_lane = [lane.rank for lane in trace.lanes]
    found: dict[int | None, CpuTime] = {}
    for lane in distinct_values(trace.events.lane[events]).tolist():
        time = cpu_time_of_rank(analysis, of_lane[lane])
        if time is None or not time.is_all:
            return None
        found[of_lane[lane]] = time
    ranks = sorted(found, key=lambda each: -1 if each is None else each)
    times = tuple(found[rank] for rank in ranks)
    rows = np.array([ranks.index(of_lane[lane]) for lane in trace.events.lane[events].tolist()], np.int64)
    entries = _entries(analysis, events, rows, ranks)
    meetings = meetings_of(
        entries, len(ranks), lambda row: times[row].communicating, analysis.window, Progress()
    )
    return RanksOnCpu(tuple(ranks), times, events, meetings)


def _entries(analysis: Analysis, events: I64, rows: I64, ranks: list[int | None]) -> Entries:
    """Kinds are the names of the ranges with the shapes of what is sent."""
    trace = analysis.trace
    dims = trace.attribute(Attribute.INPUT_DIMS, events, -1)
    pairs, kind = np.unique(np.stack([trace.events.name[events], dims], axis=1), axis=0, return_inverse=True)
    kinds = tuple(
        CollectiveKind(trace.strings[name], trace.strings[shape] if shape >= 0 else "", 0, 0)
        for name, shape in pairs.tolist()
    )
    start = trace.events.start[events]
    step = np.full(len(events), -1, np.int64)
    for row, rank in enumerate(ranks):
        begins = np.array([each.start for each in analysis.steps if each.rank == rank], np.int64)
        step[rows == row] = np.searchsorted(begins, start[rows == row], side="right") - 1
    unknown = np.full(len(events), -1, np.int64)
    return Entries(kinds, rows, start, trace.events.end[events], kind.reshape(-1), unknown, step)
