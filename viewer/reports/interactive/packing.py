"""Rows of events as few bytes: delta-coded columns of byte planes, and short events joined where all are too many."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from parsers.model.arrays import F64, I64
from parsers.model.late import dataclass

MAX_RUN_LENGTH = 8  # times the resolution: events joined into one never span more


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """Rows of what is drawn, one after another; ``first`` is where each row begins, with the total at its end.

    Times are ns. ``event`` is the caller's number of the event that an entry stands for; ``count`` how many events it
    holds, which take ``busy`` of its time (0 to 1).
    """

    first: I64
    start: I64
    end: I64
    name: I64
    event: I64
    count: I64
    busy: F64

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, slots=True, eq=False)
class EventRow:
    """One row: sorted, free of overlap; ``event`` numbers its events, -1 for what is no event.

    Nobody needs it finer than ``resolution`` ns.
    """

    start: I64
    end: I64
    name: I64
    event: I64
    resolution: int = 0


def entries_of(rows: Sequence[EventRow], resolution: int = 0) -> Entries:
    """The rows with neighbours joined that are shorter than ``resolution`` ns and as close to each other."""
    parts = [_joined(row, max(resolution, row.resolution)) for row in rows]
    lengths = [len(part[0]) for part in parts]
    first = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    start, end, name, event, count, busy = (
        np.concatenate([part[index] for part in parts]) if parts else np.empty(0, np.int64)
        for index in range(6)
    )
    return Entries(first, start, end, name, event, count, busy.astype(np.float64))


def _joined(row: EventRow, resolution: int) -> tuple[npt.NDArray[np.generic], ...]:
    start, end = row.start, row.end
    taken = end - start
    if not resolution or len(start) < 2:
        return start, end, row.name, row.event, np.ones(len(start), np.int64), np.ones(len(start))
    short = taken < resolution
    apart = ~(short[1:] & short[:-1] & (start[1:] - end[:-1] < resolution))
    cell = start // (resolution * MAX_RUN_LENGTH)
    begins = np.concatenate(([True], apart | (cell[1:] != cell[:-1])))
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(start)) - 1
    group = np.cumsum(begins) - 1
    longest = np.lexsort((-taken, group))[first]
    spent = np.add.reduceat(taken, first)
    count = last - first + 1
    busy = np.where(count > 1, spent / np.maximum(end[last] - start[first], 1), 1.0)
    event = np.where(count > 1, -1, row.event[first])
    return start[first], end[last], row.name[longest], event, count, busy


def planes(values: I64) -> bytes:
    """Non-negative numbers: how many bytes each takes, then all lowest bytes, all second ones, and so on."""
    table = np.ascontiguousarray(values, dtype="<u8").view(np.uint8).reshape(-1, 8)
    width = next((each for each in range(8, 1, -1) if table[:, each - 1].any()), 1)
    return bytes([width]) + table[:, :width].T.tobytes()


def folded(values: I64) -> I64:
    """Signed numbers as non-negative ones: 0, -1, 1, -2 as 0, 1, 2, 3."""
    found: I64 = np.where(values >= 0, values * 2, -values * 2 - 1)
    return found


def differences(values: I64, first: I64) -> I64:
    """Each value less the one before it; the first of each row as it is."""
    found = np.diff(values, prepend=0)
    heads = first[:-1][first[:-1] < first[1:]]
    found[heads] = values[heads]
    return found


def pauses(start: I64, end: I64, first: I64) -> I64:
    """From the end of each entry's predecessor in its row to its start; the start itself of the first."""
    found = start.copy()
    found[1:] -= end[:-1]
    heads = first[:-1][first[:-1] < first[1:]]
    found[heads] = start[heads]
    return found


def columns_of(entries: Entries, unit: int, launch: I64) -> bytes:
    """The columns of all entries with times in ``unit`` ns; ``launch`` is the entry that launched each, -1 for none."""
    start, end = entries.start // unit, entries.end // unit
    launched = launch >= 0
    steps = np.zeros(len(launch), np.int64)
    if launched.any():
        mine = np.flatnonzero(launched)
        steps[mine] = folded(np.diff(launch[mine], prepend=0)) + 1
    parts = [pauses(start, end, entries.first), end - start, entries.name, steps]
    if (entries.count > 1).any():
        parts += [entries.count, np.round(entries.busy * 255).astype(np.int64)]
    return b"".join(planes(part) for part in parts)


def few_points(time: I64, value: F64, most: int) -> tuple[I64, F64]:
    """At most ``most`` samples of a series: the least and the largest of each stretch where there are more."""
    if len(time) <= most:
        return time, value
    edges = np.linspace(0, len(time), most // 2 + 1).astype(np.int64)
    kept: list[int] = []
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        part = np.nan_to_num(value[low:high])
        kept += sorted({low + int(part.argmin()), low + int(part.argmax())})
    chosen = np.array(kept, np.int64)
    return time[chosen], value[chosen]
