"""The ranks of one trace, read in full; and what a summary of one rank is reduced from."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from parsers.model import BOOL, F64, I64, Attribute, Counter, EventKind, ProcessGroup, derived, derived_by
from parsers.model.arrays import distinct_values, rows_by
from parsers.model.events import of_kinds
from parsers.model.late import dataclass, regex
from parsers.model.names.devices import short_device_name
from parsers.model.names.per_name import distinct
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, durations, measure
from rules.analysis.gpu.inside_window import operations
from rules.analysis.logs.clocks import logged
from rules.analysis.ranks.collectives import CollectiveColumns, collective_columns
from rules.analysis.ranks.late import Ranks
from rules.analysis.ranks.meetings import Entries
from rules.analysis.ranks.run import (
    PARTS,
    RESIDUAL,
    IdleCulprit,
    KernelTally,
    Row,
    RunOfRanks,
    nodes_of,
    parts_of,
)
from rules.analysis.steps.steps import Step
from rules.terms import Thresholds

MAX_NAMED = 3  # of one cause on one device
_CLOCK, _POWER = ("SM clock", "sclk", "graphics clock"), ("power", "power draw")
_ALLOCATED = regex(r"\ballocated memory\b", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class RecordedRun(RunOfRanks):
    """Rows are the devices that the analysis is about and those with collectives, in the order of the trace."""

    analysis: Analysis

    @property
    def thresholds(self) -> Thresholds:  # type: ignore[override]  # an analysis has them, a joined run states them
        return self.analysis.thresholds

    @cached_property
    def columns(self) -> CollectiveColumns:
        return collective_columns(self.analysis.trace)

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        devices = self.analysis.trace.devices
        known = {each.rank: each for each in self.analysis.trace.ranks}
        with_work = sorted({*self.analysis.active_devices, *distinct_values(self.columns.device).tolist()})
        ranks = [devices[each].rank for each in with_work]
        members = {rank: number for number, rank in enumerate(dict.fromkeys(ranks))}
        stated = [known.get(rank) if rank is not None else None for rank in ranks]
        nodes = nodes_of(
            [each.host if each is not None else "" for each in stated],
            ranks,
            [devices[each].id for each in with_work],
        )
        return tuple(
            Row(members[rank], device, rank, node)
            for device, rank, node in zip(with_work, ranks, nodes, strict=True)
        )

    def device(self, row: int) -> int:
        """Index into the trace's devices."""
        return self.rows[row].device

    def row_of(self, device: int) -> int:
        """The row of one of the trace's devices; -1 where it has none."""
        return next((number for number, row in enumerate(self.rows) if row.device == device), -1)

    def name(self, row: int) -> str:
        return short_device_name(self.analysis.trace, self.device(row))

    def gpu(self, row: int) -> int:
        return self.analysis.trace.devices[self.device(row)].id

    def groups(self, row: int) -> tuple[ProcessGroup, ...]:
        own = self.rows[row].rank
        return next((each.groups for each in self.analysis.trace.ranks if each.rank == own), ())

    @property
    def world_size(self) -> int:
        return max((each.world_size or 0 for each in self.analysis.trace.ranks), default=0)

    @property
    def window(self) -> tuple[int, int]:
        return self.analysis.window

    def _steps(self, row: int) -> list[Step]:
        rank = self.rows[row].rank
        return [step for step in self.analysis.steps if step.rank == rank]

    def steps_of(self, row: int) -> tuple[I64, I64, BOOL]:
        mine = self._steps(row)
        return (
            np.array([step.start for step in mine], np.int64),
            np.array([step.end for step in mine], np.int64),
            np.array([step.steady for step in mine], bool),
        )

    def names_of_steps(self, row: int) -> tuple[str, ...]:
        return tuple(step.name for step in self._steps(row))

    def time_within(self, row: int, start: I64, end: I64) -> I64:
        time = self.analysis.time(self.device(row))
        found = np.zeros((len(start), PARTS), np.int64)
        for part, intervals in parts_of(time).items():
            found[:, part] = measure(intervals, start, end)
        found[:, RESIDUAL] = np.maximum(end - start, 0) - found.sum(axis=1)
        return found

    def alone(self, row: int) -> Intervals:
        return self.analysis.time(self.device(row)).communication

    @cached_property
    def _row_of_column(self) -> I64:
        return np.searchsorted(np.array([row.device for row in self.rows], np.int64), self.columns.device)

    @cached_property
    def _order(self) -> I64:
        """The columns of row after row."""
        return np.argsort(self._row_of_column, kind="stable")

    @cached_property
    def places(self) -> I64:
        """Which of ``columns`` each participant of ``meetings`` is."""
        return self._order[self.meetings.entry]

    def entries(self) -> Entries:
        columns = self.columns
        kinds, kind = columns.kinds()
        every = (
            self._row_of_column,
            columns.start,
            columns.end,
            kind,
            columns.sequence,
            step_numbers(self.analysis, columns),
        )
        edges = np.searchsorted(self._row_of_column[self._order], np.arange(len(self.rows) + 1))
        return Entries.of(
            (
                kinds,
                {group.name: group.ranks for group in self.groups(row)},
                [column[self._order[edges[row] : edges[row + 1]]] for column in every],
            )
            for row in range(len(self.rows))
        )

    def reading_of(self, row: int, which: str) -> F64 | I64 | None:
        device, steps = self.device(row), self._steps(row)
        if which == "blocks":
            return blocks_by_step(self.analysis, device, steps)
        return readings_by_step(self.analysis, device, steps).get(which)

    def kernels(self, row: int) -> KernelTally:
        return kernel_tally(self.analysis, self.device(row))

    def culprits(self, row: int) -> Iterable[IdleCulprit]:
        return idle_culprits(self.analysis, self.device(row))


def step_numbers(analysis: Analysis, columns: CollectiveColumns) -> I64:
    """The step in which each collective was launched, counted on its own rank; -1 outside any."""
    trace = analysis.trace
    launch = trace.links.launch_of(columns.event)
    at = np.where(launch >= 0, trace.events.start[np.maximum(launch, 0)], columns.start)
    found = np.full(len(columns.event), -1, np.int64)
    for device in distinct_values(columns.device).tolist():
        rank = trace.devices[device].rank
        mine = [step for step in analysis.steps if step.rank == rank]
        if not mine:
            continue
        here = np.flatnonzero(columns.device == device)
        starts = np.array(
            [int(trace.events.start[step.event]) if step.event >= 0 else step.start for step in mine],
            np.int64,
        )
        found[here] = np.searchsorted(starts, at[here], side="right") - 1
    return found


def blocks_by_step(analysis: Analysis, device: int, steps: Sequence[Step]) -> I64:
    """Blocks of compute kernels in each step."""
    trace = analysis.trace
    kernels = trace.operations_of_device(device)
    kernels = kernels[of_kinds(trace.events.kind[kernels], EventKind.KERNEL)]
    kernels = kernels[~trace.communicates[kernels]]
    until = np.concatenate(([0], np.cumsum(trace.attribute(Attribute.GRID, kernels))))
    starts = trace.events.start[kernels]
    first, last = (
        np.searchsorted(starts, [getattr(step, side) for step in steps]) for side in ("start", "end")
    )
    found: I64 = until[last] - until[first]
    return found


def readings_by_step(analysis: Analysis, device: int, steps: Sequence[Step]) -> dict[str, F64]:
    """Clock (MHz), power (W) and memory (bytes) in each step, as far as the recording counts them."""
    log = logged(analysis.trace, device)
    counters = {
        "clock": next((log[name] for name in _CLOCK if name in log), None),
        "power": next((log[name] for name in _POWER if name in log), None),
        "memory": next(
            (
                counter
                for counter in analysis.trace.counters
                if counter.device in (None, device) and _ALLOCATED.search(counter.name)
            ),
            None,
        ),
    }
    return {
        which: _mean_by_step(counter, steps)
        for which, counter in counters.items()
        if counter is not None and len(counter.time) and steps
    }


def _mean_by_step(counter: Counter, steps: Sequence[Step]) -> F64:
    """The mean of the values inside each step; where there is none, the value that holds at its start."""
    until = np.concatenate(([0.0], np.cumsum(counter.value, dtype=np.float64)))
    first, last = (
        np.searchsorted(counter.time, [getattr(step, side) for step in steps]) for side in ("start", "end")
    )
    held = counter.value[np.maximum(first - 1, 0)]
    mean: F64 = np.where(last > first, (until[last] - until[first]) / np.maximum(last - first, 1), held)
    return mean


@derived_by
def idle_culprits(analysis: Analysis, device: int) -> tuple[IdleCulprit, ...]:
    """For whom a device idles most inside the window, by cause."""
    idle, (t0, t1) = analysis.idle, analysis.window
    mine = np.flatnonzero((idle.device == device) & (idle.end > t0) & (idle.start < t1))
    time = np.minimum(idle.end[mine], t1) - np.maximum(idle.start[mine], t0)
    found: list[IdleCulprit] = []
    for cause, here in rows_by(idle.cause[mine]):
        total = np.bincount(idle.culprit[mine][here], time[here], minlength=len(idle.culprits))
        most = np.argsort(-total, kind="stable")[:MAX_NAMED].tolist()
        found += [
            IdleCulprit(device, cause, idle.culprits[each].text, int(total[each]))
            for each in most
            if total[each]
        ]
    return tuple(found)


@derived_by
def kernel_tally(analysis: Analysis, device: int) -> KernelTally:
    """The compute kernels of one device inside the window."""
    trace = analysis.trace
    kernels = operations(analysis, device, EventKind.KERNEL)
    kernels = kernels[~trace.communicates[kernels]]
    name = trace.events.name[kernels]
    names = distinct(name)
    place = np.empty(len(trace.strings), np.int64)
    place[names] = np.arange(len(names))
    which = place[name]
    numbers = np.array([_number_of(trace.strings[each]) for each in names.tolist()], np.int64)
    order = np.argsort(numbers, kind="stable")

    def summed(values: I64 | None = None) -> I64:
        return np.bincount(which, values, minlength=len(names)).astype(np.int64)[order]

    return KernelTally(
        numbers[order],
        summed(),
        summed(durations(trace, kernels)),
        summed(trace.attribute(Attribute.GRID, kernels)),
    )


def _number_of(name: str) -> int:
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


@derived
def ranks_of(analysis: Analysis) -> Ranks[RecordedRun]:
    """What the ranks of a trace tell together; computed once."""
    return Ranks(RecordedRun(analysis))
