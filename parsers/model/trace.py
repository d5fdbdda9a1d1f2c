"""A recording as every other part of the program sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from parsers.model.arrays import BOOL, I64, stable_order
from parsers.model.attributes import Attribute, AttributeColumn
from parsers.model.derived import DerivedValues, derived
from parsers.model.events import EventTable, Links
from parsers.model.lanes import BESIDE_LANES, GPU_WORK, Capture, Device, EventKind, Lane, Rank, TraceInput
from parsers.model.late import dataclass
from parsers.model.names.collectives import is_collective_kernel
from parsers.model.names.per_name import named
from parsers.model.quality import Quality

if TYPE_CHECKING:
    from parsers.model.counters import Counter
    from parsers.model.kernels import KernelProfile
    from parsers.model.memory import Memory
    from parsers.model.results import ResultTable


class ArgumentSource(Protocol):
    """Fetches what stays in the file until somebody asks for it."""

    def arguments(self, source_row: int) -> Mapping[str, Any]:
        """The event's own arguments as the file states them; empty when the file is gone."""


@dataclass(frozen=True)
class Trace:
    """Everything read from one run: one file, or several ranks on one clock.

    Times are int64 ns from the trace start; ``epoch_ns`` is the wall clock of that start (UTC), if known.
    """

    strings: tuple[str, ...]
    events: EventTable
    lanes: tuple[Lane, ...]
    devices: tuple[Device, ...] = ()
    ranks: tuple[Rank, ...] = ()
    links: Links = field(default_factory=Links.empty)
    attributes: Mapping[Attribute, AttributeColumn] = field(default_factory=dict)
    counters: tuple[Counter, ...] = ()
    kernels: tuple[KernelProfile, ...] = ()
    memory: tuple[Memory, ...] = ()  # one for each process whose allocator was recorded
    tables: tuple[ResultTable, ...] = ()
    inputs: tuple[TraceInput, ...] = ()
    quality: Quality = field(default_factory=Quality)
    capture: Capture = field(default_factory=Capture)
    epoch_ns: int | None = None
    sources: tuple[ArgumentSource | None, ...] = ()  # one for each input
    derived_values: DerivedValues = field(
        default_factory=DerivedValues, init=False, repr=False, compare=False
    )

    def attribute(self, which: Attribute, events: I64, default: int = 0) -> I64:
        """One attribute of ``events`` (int64 indices); ``default`` where it was not recorded."""
        column = self.attributes.get(which)
        return column.of(events, default) if column else np.full(len(events), default, np.int64)

    def text_attribute(self, which: Attribute, event: int) -> str:
        """A TEXT attribute of one event; empty when it was not recorded."""
        index = int(self.attribute(which, np.array([event], np.int64), -1)[0])
        return self.strings[index] if index >= 0 else ""

    def name(self, event: int) -> str:
        return self.strings[int(self.events.name[event])]

    def arguments(self, event: int) -> Mapping[str, Any]:
        """Everything the file says about one event, read from it now.

        A run of several files packs the file's number into the upper bits of ``source_row``.
        """
        row = int(self.events.source_row[event])
        if row < 0:
            return {}
        source = self.sources[row >> SOURCE_BITS] if row >> SOURCE_BITS < len(self.sources) else None
        return source.arguments(row & ((1 << SOURCE_BITS) - 1)) if source else {}

    @property
    def is_of_results(self) -> bool:
        """Whether there is nothing but tables of results."""
        return bool(self.tables) and not (len(self.events) or self.counters or self.kernels)

    @property
    def stands_beside(self) -> bool:
        """Whether its events are no timeline of a program's work, but what else was recorded of it."""
        return bool(len(self.events)) and all(lane.kind in BESIDE_LANES for lane in self.lanes)

    @derived
    def gpu_operations(self) -> I64:
        """Kernels, copies, memsets and graphs, in table order (lane, depth, start)."""
        return self.events.of_kind(*GPU_WORK)

    @derived
    def kinds(self) -> frozenset[int]:
        return frozenset(np.flatnonzero(np.bincount(self.events.kind, minlength=1)).tolist())

    @derived
    def lane_device(self) -> I64:
        """Index into ``devices`` for each lane; -1 for lanes that are not a GPU's."""
        return np.array([-1 if lane.device is None else lane.device for lane in self.lanes], np.int64)

    @derived
    def lane_rank(self) -> I64:
        """The rank of each lane; -1 where it has none."""
        return np.array([-1 if lane.rank is None else lane.rank for lane in self.lanes], np.int64)

    @derived
    def collective_kernels(self) -> I64:
        """Kernels of a communication library, by name, in table order."""
        kernels = self.events.of_kind(EventKind.KERNEL)
        return kernels[named(self, kernels, is_collective_kernel)]

    @derived
    def communicates(self) -> BOOL:
        """Of each event, whether it is such a kernel: rules ask it of the same events again and again."""
        return self.events.marked(self.collective_kernels)

    @derived
    def launched_something(self) -> BOOL:
        """Of each event, whether a GPU operation is linked to it as its launch."""
        return self.events.marked(self.links.launch)

    def operations_of_device(self, device: int) -> I64:
        """GPU operations of one device (index into ``devices``), sorted by start."""
        return self.operations_by_device[device] if 0 <= device < len(self.devices) else _NONE

    @derived
    def operations_by_device(self) -> tuple[I64, ...]:
        operations = self.gpu_operations
        owner = self.lane_device[self.events.lane[operations]]
        start = self.events.start[operations]
        if (order := stable_order(start, within=owner)) is not None:
            operations, owner = operations[order], owner[order]
        edges = np.searchsorted(owner, np.arange(len(self.devices) + 1))
        return tuple(operations[edges[each] : edges[each + 1]] for each in range(len(self.devices)))

    def launches_of_device(self, device: int) -> I64:
        """The launch of each operation that ``operations_of_device`` gives; -1 where none was recorded."""
        return self._launches_by_device[device] if 0 <= device < len(self.devices) else _NONE

    @derived
    def _launches_by_device(self) -> tuple[I64, ...]:
        return tuple(self.links.launch_of(operations) for operations in self.operations_by_device)

    @derived
    def duration(self) -> int:
        """ns from the trace start to the last event or sample."""
        ends = [int(self.events.end.max())] if len(self.events) else []
        ends += [int(counter.time[-1]) for counter in self.counters if len(counter.time)]
        return max(ends, default=0)


SOURCE_BITS = 48
_NONE = np.empty(0, np.int64)
