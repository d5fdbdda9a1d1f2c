"""Collectives matched across ranks: transfer, waiting, who came last, and how well the clocks agree."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from parsers.model import BOOL, F64, I64, derived
from parsers.model.names.devices import short_device_name
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, clip, intersect, length, measure, union
from rules.analysis.idle.causes import Cause
from rules.analysis.ranks.collectives import (
    CollectiveColumns,
    bus_factor,
    collective_columns,
    whole_message,
)
from rules.analysis.ranks.lateness import blame, late_devices
from rules.analysis.ranks.matching import MISSING as MISSING
from rules.analysis.ranks.matching import matched

OF_THE_CPU = (Cause.LAUNCH, Cause.INPUT, Cause.HOST, Cause.SYNCHRONIZATION, Cause.ALLOCATOR)
LEAST_LATE_SHARE = 0.01  # of the window: what a second late rank must cost (HTA, for collectives)


@dataclass(frozen=True, slots=True)
class RankRow:
    """One rank's line in the table of ranks, inside the window; ns."""

    device: int
    rank: int | None
    name: str
    busy_ns: int
    compute_ns: int
    communication_ns: int  # all of it, covered or not
    exposed_ns: int
    waiting_ns: int  # exposed time inside collectives before the transfer could start
    caused_ns: int  # mean waiting of the other ranks for this one
    clock_error_ns: int


@dataclass(frozen=True, slots=True)
class CollectiveRow:
    """One kind of collective inside the window."""

    collective: str
    group: str
    bytes: int
    count: int
    ranks: int
    transfer_ns: int  # median of the shortest participants
    waiting_ns: int  # mean over ranks, summed over instances
    algorithm_bandwidth: float  # bytes per second; 0 when the size is unknown
    bus_bandwidth: float


@dataclass(frozen=True, eq=False)
class Ranks:
    """Matched collectives: one row for each instance, one column for each device that takes part in any.

    ``event[i, d]`` is the kernel, MISSING where the device has none.
    """

    analysis: Analysis
    devices: tuple[int, ...]
    columns: CollectiveColumns
    row: I64  # (instances, devices): index into columns, MISSING
    step: I64  # step number of each instance, MISSING outside any

    @staticmethod
    def of(analysis: Analysis) -> Ranks:
        columns = collective_columns(analysis.trace)
        devices = tuple(np.unique(columns.device).tolist())
        row, step = matched(analysis, columns, devices)
        return Ranks(analysis, devices, columns, row, step)

    @cached_property
    def present(self) -> BOOL:
        """Which device takes part in which instance."""
        there: BOOL = self.row != MISSING
        return there

    @cached_property
    def clock_error(self) -> I64:
        """How well each device's clock is known against the first one's, from the ends of common collectives (ns).

        Half the middle spread of the differences.
        """
        error = np.zeros(len(self.devices), np.int64)
        for column in range(1, len(self.devices)):
            both = self.present[:, 0] & self.present[:, column]
            if not both.any():
                continue
            ends = self.columns.end[self.row[both, column]] - self.columns.end[self.row[both, 0]]
            low, high = np.percentile(ends, (25, 75))
            error[column] = int((high - low) / 2)
        return error

    @cached_property
    def duration(self) -> I64:
        """(instances, devices) kernel time; 0 where missing."""
        known = np.maximum(self.row, 0)
        time = self.columns.end - self.columns.start
        return np.where(self.present, time[known], 0) if len(time) else np.zeros(self.row.shape, np.int64)

    @cached_property
    def transfer(self) -> I64:
        """The shortest participant of each instance: about the transfer itself."""
        if not len(self.row):
            return np.empty(0, np.int64)
        shortest: I64 = np.where(self.present, self.duration, np.iinfo(np.int64).max).min(axis=1)
        return shortest

    @cached_property
    def last(self) -> I64:
        """The column of the participant that waited least: it came last."""
        if not len(self.row):
            return np.empty(0, np.int64)
        column: I64 = np.where(self.present, self.duration, np.iinfo(np.int64).max).argmin(axis=1)
        return column

    @cached_property
    def waiting(self) -> I64:
        """(instances, devices) time before the transfer could start that nothing else covered, inside the window."""
        found = np.zeros(self.row.shape, np.int64)
        for column, device in enumerate(self.devices):
            here = np.flatnonzero(self.present[:, column])
            start = self.columns.start[self.row[here, column]]
            until = start + self.duration[here, column] - self.transfer[here]
            exposed = clip(self.analysis.time(device).communication, *self.analysis.window)
            found[here, column] = measure(exposed, start, until)
        return found

    @cached_property
    def in_window(self) -> BOOL:
        """Which instances touch the analysed window."""
        t0, t1 = self.analysis.window
        known = np.maximum(self.row, 0)
        touches = (self.columns.end[known] > t0) & (self.columns.start[known] < t1) & self.present
        return np.asarray(touches.any(axis=1), bool)

    @cached_property
    def caused(self) -> I64:
        """(instances, devices) waiting that each device caused by coming last: mean over the others, ns."""
        found = np.zeros(self.row.shape, np.int64)
        if len(self.row):
            others = np.maximum(self.present.sum(axis=1) - 1, 1)
            own = self.waiting[np.arange(len(self.row)), self.last]
            found[np.arange(len(self.row)), self.last] = (self.waiting.sum(axis=1) - own) // others
        return found

    def waiting_intervals(self, column: int) -> Intervals:
        """Where one device waits inside collectives, exposed, inside the window."""
        time = self.analysis.time(self.devices[column])
        return clip(intersect(union(*self._waits(column)), time.communication), *self.analysis.window)

    @cached_property
    def exposed(self) -> I64:
        """Exposed communication of each device inside the window, ns."""
        return np.array(
            [self.analysis.budgets(device).exposed_communication_ns for device in self.devices], np.int64
        )

    @cached_property
    def blamed(self) -> F64:
        """(instances, devices) mean exposed waiting for each device that had not arrived yet, inside the window, ns.

        Unlike ``caused`` this also counts who came late but not last.
        """
        if not len(self.row):
            return np.zeros(self.row.shape)
        waited = np.where(self.present, self.duration - self.transfer[:, None], 0)
        others = np.maximum(self.present.sum(axis=1) - 1, 1)
        found: F64 = blame(self.present, waited) * (self.waiting.sum(axis=1) / others)[:, None]
        return found

    @cached_property
    def late_together(self) -> tuple[int, ...]:
        """The columns of the devices that the others wait for, the costliest first; none when they take turns."""
        if not len(self.row):
            return ()
        least = LEAST_LATE_SHARE * self.analysis.window_ns
        return late_devices(self.caused.sum(axis=0).astype(np.float64), self.blamed.sum(axis=0), least)

    @property
    def late(self) -> int:
        """The column of the device that the others wait for most; MISSING when they take turns or nobody waits."""
        return self.late_together[0] if self.late_together else MISSING

    @property
    def late_names(self) -> tuple[str, ...]:
        return tuple(self.table[column].name for column in self.late_together)

    @cached_property
    def lost_to_late(self) -> int:
        """What the lateness of the late ranks costs the others (ns), mean over them.

        Visible is what they expose beyond a late rank, as far as these are to blame: what it exposes itself, without
        waiting for another late one, is the transfers alone. A waiting collective also takes multiprocessors, so that
        compute beside it becomes slower instead of waiting visibly: that counts as far as the late ranks idle longer
        than the others do.
        """
        late = list(self.late_together)
        if not late or len(self.devices) < 2:
            return 0
        caused = self.caused.sum(axis=0)
        beyond = np.maximum(np.delete(self.exposed, late) - self._transfers_of_late, 0).mean()
        visible = int(beyond * caused[late].sum() / caused.sum())
        compute = np.array([self.analysis.budgets(device).compute_ns for device in self.devices], np.int64)
        slowed = np.maximum(np.delete(compute, late) - compute[late].mean(), 0).mean()
        waited = np.delete(self._waiting_in_window, late).mean()
        return max(visible, int(min(self._idle_beyond_others, visible + slowed, waited)))

    @property
    def _transfers_of_late(self) -> int:
        """What the late ranks expose, their waiting for one another left out (ns)."""
        late = list(self.late_together)
        if len(late) == 1:
            return int(self.exposed[late[0]])
        return int((self.exposed - self.waiting.sum(axis=0))[late].min())

    @cached_property
    def _idle_beyond_others(self) -> float:
        late = list(self.late_together)
        budgets = [self.analysis.budgets(device) for device in self.devices]
        idle = np.array(
            [sum(budget.idle_ns[cause] for cause in OF_THE_CPU) for budget in budgets], np.float64
        )
        return max(float(idle[late].mean() - np.median(np.delete(idle, late))), 0.0)

    @cached_property
    def _waiting_in_window(self) -> I64:
        """Waiting of each device inside the window, also where computation covers it, ns."""
        found = []
        for column in range(len(self.devices)):
            start, until = self._waits(column)
            found.append(length(clip(union(start, until), *self.analysis.window)))
        return np.array(found, np.int64)

    def _waits(self, column: int) -> tuple[I64, I64]:
        """Start and end of the waiting part of each collective of one device."""
        here = np.flatnonzero(self.present[:, column])
        start = self.columns.start[self.row[here, column]]
        return start, start + self.duration[here, column] - self.transfer[here]

    @cached_property
    def transfers_alone(self) -> int:
        """Exposed communication that is nobody's lateness: mean over the devices less what a late rank costs (ns)."""
        if not len(self.devices):
            return 0
        if self.late == MISSING:
            return int(self.exposed.mean())
        return max(self._transfers_of_late, int(self.exposed.mean()) - self.lost_to_late)

    def waiting_by_step(self) -> tuple[tuple[str, ...], I64]:
        """Step names and (steps, devices) exposed waiting, for a heat map."""
        return self._by_step(self.waiting)

    def blamed_by_step(self) -> tuple[tuple[str, ...], I64]:
        """Step names and (steps, devices) mean waiting for each device that had not arrived yet."""
        return self._by_step(self.blamed)

    def _by_step(self, table: I64 | F64) -> tuple[tuple[str, ...], I64]:
        numbers = np.unique(self.step[(self.step >= 0) & self.in_window])
        names = _step_names(self.analysis)
        sums = np.array([table[self.step == number].sum(axis=0) for number in numbers.tolist()])
        found = sums.astype(np.int64).reshape(-1, len(self.devices))
        return tuple(names.get(number, str(number)) for number in numbers.tolist()), found

    @property
    def unrecorded(self) -> str:
        """ "its groups have 4 ranks, and 3 are here"; empty where all ranks of every group were recorded."""
        needed = int(self.columns.group_size.max(initial=0))
        here = len(self.devices)
        return f"its groups have {needed:,} ranks, and {here} are here" if needed > here > 0 else ""

    @cached_property
    def table(self) -> tuple[RankRow, ...]:
        rows = []
        for column, device in enumerate(self.devices):
            budget = self.analysis.budgets(device)
            mine = self.columns.device == device
            whole = clip(union(self.columns.start[mine], self.columns.end[mine]), *self.analysis.window)
            found = self.analysis.trace.devices[device]
            rows.append(
                RankRow(
                    device=device,
                    rank=found.rank,
                    name=short_device_name(self.analysis.trace, device),
                    busy_ns=budget.busy_ns,
                    compute_ns=budget.compute_ns,
                    communication_ns=length(whole),
                    exposed_ns=budget.exposed_communication_ns,
                    waiting_ns=int(self.waiting[:, column].sum()),
                    caused_ns=int(self.caused[:, column].sum()),
                    clock_error_ns=int(self.clock_error[column]),
                )
            )
        return tuple(rows)

    @cached_property
    def collectives(self) -> tuple[CollectiveRow, ...]:
        """One row for each kind of collective, the longest total transfer first."""
        t0, t1 = self.analysis.window
        groups: dict[tuple[str, str, int], list[int]] = {}
        for instance in range(len(self.row)):
            first = int(self.row[instance][self.present[instance]][0])
            if not t0 <= self.columns.start[first] < t1:
                continue
            key = (self.columns.collective[first], self.columns.group[first], int(self.columns.bytes[first]))
            groups.setdefault(key, []).append(instance)
        rows = []
        for (collective, group, size), members in groups.items():
            ranks = int(self.present[members].sum(axis=1).max())
            first = int(self.row[members[0]][self.present[members[0]]][0])
            ranks = int(self.columns.group_size[first]) or ranks
            transfer = int(np.median(self.transfer[members]))
            speed = whole_message(collective, size, ranks) / transfer * 1e9 if transfer else 0.0
            waiting = int(self.waiting[members].sum() // max(len(self.devices), 1))
            rows.append(
                CollectiveRow(
                    collective,
                    group,
                    size,
                    len(members),
                    ranks,
                    transfer,
                    waiting,
                    speed,
                    speed * bus_factor(collective, ranks),
                )
            )
        return tuple(sorted(rows, key=lambda each: -each.transfer_ns * each.count))


def _step_names(analysis: Analysis) -> dict[int, str]:
    names: dict[int, str] = {}
    counts: dict[int | None, int] = {}
    for step in analysis.steps:
        number = counts.get(step.rank, 0)
        counts[step.rank] = number + 1
        names.setdefault(number, step.name)
    return names


@derived
def ranks_of(analysis: Analysis) -> Ranks:
    """The matched collectives of a trace; computed once."""
    return Ranks.of(analysis)
