"""What a collective kernel did: which collective, how many bytes, in which group, and how fast."""

from __future__ import annotations

from functools import cache

import numpy as np

from parsers.model import I64, Attribute, Trace, derived
from parsers.model.late import dataclass, regex
from parsers.model.names.collectives import collective_of


@dataclass(frozen=True, slots=True)
class CollectiveKind:
    """What the collectives of one kind have in common; ``group`` is the process group's name as recorded."""

    collective: str
    group: str
    bytes: int
    group_size: int


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveColumns:
    """One row for each collective kernel, in order of start."""

    event: I64
    start: I64
    end: I64
    device: I64
    collective: tuple[str, ...]  # "allreduce"; "" where nothing tells
    group: tuple[str, ...]
    bytes: I64
    group_size: I64
    sequence: I64  # -1 where it was not recorded

    def kinds(self) -> tuple[tuple[CollectiveKind, ...], I64]:
        """The distinct kinds, and which of them each collective is."""
        known: dict[tuple[str, str, int, int], int] = {}
        lines = zip(self.collective, self.group, self.bytes.tolist(), self.group_size.tolist(), strict=True)
        kind = np.array([known.setdefault(each, len(known)) for each in lines], np.int64)
        return tuple(CollectiveKind(*each) for each in known), kind

    def kinds_of(self, events: I64) -> tuple[tuple[CollectiveKind, ...], I64]:
        """The distinct kinds, and which of them each of these collective kernels is."""
        kinds, kind_of = self.kinds()
        order = np.argsort(self.event)
        return kinds, kind_of[order[np.searchsorted(self.event[order], events)]]


@derived
def collective_columns(trace: Trace) -> CollectiveColumns:
    """All collective kernels of a trace."""
    events = trace.collective_kernels
    events = trace.events.by_start(events)

    def texts(which: Attribute) -> list[str]:
        index = trace.attribute(which, events, -1)
        if not (index >= 0).any():
            return [""] * len(index)
        return [trace.strings[each] if each >= 0 else "" for each in index.tolist()]

    of_name = cache(lambda name: collective_of(trace.strings[name]))
    collective = [
        stated or of_name(name)
        for stated, name in zip(texts(Attribute.COLLECTIVE), trace.events.name[events].tolist(), strict=True)
    ]
    return CollectiveColumns(
        event=events,
        start=trace.events.start[events],
        end=trace.events.end[events],
        device=trace.lane_device[trace.events.lane[events]],
        collective=tuple(collective),
        group=tuple(texts(Attribute.GROUP)),
        bytes=trace.attribute(Attribute.MESSAGE_BYTES, events),
        group_size=trace.attribute(Attribute.GROUP_SIZE, events),
        sequence=trace.attribute(Attribute.COLLECTIVE_SEQUENCE, events, -1),
    )


def bus_factor(collective: str, ranks: int) -> float:
    """Bytes that cross the slowest link for each byte of the message (NVIDIA's nccl-tests: PERFORMANCE.md)."""
    if ranks < 2:
        return 1.0
    if collective.startswith("allreduce"):
        return 2.0 * (ranks - 1) / ranks
    if collective.startswith(("allgather", "reducescatter", "alltoall")):
        return (ranks - 1) / ranks
    return 1.0


def whole_message(collective: str, message_bytes: float, ranks: int) -> float:
    """The size that algorithm bandwidth counts: for an all-gather all ranks' parts together."""
    return message_bytes * ranks if collective.startswith("allgather") else message_bytes


_TITLE = regex(r"nccl-tests ([\w ]+?)(?:,|$)")
_FURTHEST = 4.0  # times larger or smaller: sizes further apart than that do not compare


def measured_bus_bandwidth(trace: Trace, collective: str, size: int) -> float | None:
    """Bus bandwidth in bytes per second that nccl-tests reached at the nearest size; None where it tried none near.

    ``collective`` is a name such as "allreduce"; a table that does not say which it measured is not used.
    """
    wanted = collective.replace("_", "").replace(" ", "").lower()
    for table in trace.tables:
        title = _TITLE.match(table.title)
        if size <= 0 or title is None or title[1].replace(" ", "") != wanted:
            continue
        found = [
            (max(tried / size, size / tried), reached)
            for tried, reached in zip(table.column("size"), table.column("busbw out of place"), strict=True)
            if isinstance(tried, float) and isinstance(reached, float) and tried > 0
        ]
        distance, reached = min(found, default=(_FURTHEST * 2, 0.0))
        if distance <= _FURTHEST:
            return reached * 1e9
    return None
