"""Which collective kernels of different devices are one collective."""

from __future__ import annotations

import numpy as np

from parsers.model.arrays import BOOL, I64
from rules.analysis.analysis import Analysis
from rules.analysis.ranks.collectives import CollectiveColumns

MISSING = -1


def matched(analysis: Analysis, columns: CollectiveColumns, devices: tuple[int, ...]) -> tuple[I64, I64]:
    """Instances of one collective on several devices, as rows, and the step of each.

    Recorded sequence numbers decide. Else the n-th occurrence of (group, collective, size) on one device belongs to the
    n-th on every other: over the whole trace where all devices have equally many, else counted anew in each step.
    """
    step = step_numbers(analysis, columns)
    kind = _numbered_kinds(columns)
    count = len(columns.event)
    column = np.searchsorted(np.array(devices, np.int64), columns.device)
    part = np.where(_uneven(kind, column, len(devices))[kind], step, 0)
    number = np.where(
        columns.sequence >= 0, columns.sequence, _occurrence(kind, columns.device, part, columns.start)
    )
    part = np.where(columns.sequence >= 0, 0, part)
    instance = _numbered(number, part, kind)
    table = np.full((int(instance.max(initial=-1)) + 1, len(devices)), MISSING, np.int64)
    table[instance[::-1], column[::-1]] = np.arange(count)[::-1]
    table = table[(table != MISSING).sum(axis=1) >= 2]
    if not len(table):
        return table, np.empty(0, np.int64)
    first = np.where(table == MISSING, np.iinfo(np.int64).max, table).min(axis=1)
    sorted_rows = np.argsort(columns.start[first], kind="stable")
    return table[sorted_rows], step[first[sorted_rows]]


def step_numbers(analysis: Analysis, columns: CollectiveColumns) -> I64:
    """The step in which each collective was launched, counted on its own rank; MISSING outside any."""
    trace = analysis.trace
    launch = trace.links.launch_of(columns.event)
    at = np.where(launch >= 0, trace.events.start[np.maximum(launch, 0)], columns.start)
    found = np.full(len(columns.event), MISSING, np.int64)
    for device in np.unique(columns.device).tolist():
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


def _uneven(kind: I64, column: I64, devices: int) -> BOOL:
    """Whether the devices that have collectives of a kind have unequally many."""
    kinds = int(kind.max(initial=-1)) + 1
    counts = np.bincount(kind * devices + column, minlength=kinds * devices).reshape(kinds, devices)
    least = np.where(counts > 0, counts, np.iinfo(np.int64).max).min(axis=1, initial=np.iinfo(np.int64).max)
    return np.asarray(counts.max(axis=1, initial=0) != least, bool)


def _numbered(*columns: I64) -> I64:
    """A number for each distinct row of the columns, in their order; the last column counts most."""
    order = np.lexsort(columns)
    changes = np.zeros(len(order), bool)
    for column in columns:
        changes[1:] |= np.diff(column[order]) != 0
    found = np.empty(len(order), np.int64)
    found[order] = np.cumsum(changes)
    return found


def _numbered_kinds(columns: CollectiveColumns) -> I64:
    index: dict[tuple[str, str, int], int] = {}
    return np.array(
        [
            index.setdefault(kind, len(index))
            for kind in zip(columns.group, columns.collective, columns.bytes.tolist(), strict=True)
        ],
        np.int64,
    )


def _occurrence(kind: I64, device: I64, part: I64, start: I64) -> I64:
    """0, 1, 2 ... within equal (kind, device, part), by start."""
    order = np.lexsort((start, part, device, kind))
    group = _numbered(part, device, kind)[order]
    place = np.arange(len(order))
    begin = np.searchsorted(group, group, side="left")
    number = np.empty(len(order), np.int64)
    number[order] = place - begin
    return number
