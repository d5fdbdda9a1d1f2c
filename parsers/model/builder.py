"""Assembles a trace: interns names, creates lanes, computes nesting, sorts, and remaps every index once."""

from __future__ import annotations

from dataclasses import field, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from parsers.model.arrays import BOOL, I32, I64, U8, Array, in_both
from parsers.model.attributes import Attribute, AttributeColumn
from parsers.model.counters import MAX_READ, Counter
from parsers.model.errors import Excessive
from parsers.model.events import EventTable, Links, of_kinds
from parsers.model.kernels import KernelProfile
from parsers.model.lanes import Capture, Device, EventKind, Lane, LaneKind, Rank, TraceInput
from parsers.model.late import dataclass
from parsers.model.memory import Memory
from parsers.model.names.collectives import is_collective_kernel
from parsers.model.names.per_name import judged
from parsers.model.nesting import in_row_order
from parsers.model.progress import Progress
from parsers.model.quality import Effect, QualityRecorder
from parsers.model.results import ResultTable
from parsers.model.threads import give_back, side_by_side
from parsers.model.trace import ArgumentSource, Trace

MIN_GAP_NS = 3_600 * 1_000_000_000  # recordings do not pause longer than this ...
GAP_TO_SPAN = 20  # ... nor does one event last many times longer than all of them
MAX_FAR_SHARE = 0.05  # a cluster with more events than this is no accident


def main_cluster(start: I64) -> tuple[int, int]:
    """First and last start of the events that belong together; what lies far away is cut off at both ends."""
    if int(start.max()) - int(start.min()) <= MIN_GAP_NS:
        return int(start.min()), int(start.max())
    ordered = np.sort(start)
    gaps = np.diff(ordered)
    breaks = np.flatnonzero(gaps > MIN_GAP_NS)
    if not len(breaks):
        return int(ordered[0]), int(ordered[-1])
    firsts = np.concatenate(([0], breaks + 1))
    lasts = np.append(breaks, len(ordered) - 1)
    sizes = lasts - firsts + 1
    main = int(np.argmax(sizes))
    low = high = main
    while low > 0 and sizes[low - 1] > MAX_FAR_SHARE * len(ordered):
        low -= 1
    while high < len(sizes) - 1 and sizes[high + 1] > MAX_FAR_SHARE * len(ordered):
        high += 1
    return int(ordered[firsts[low]]), int(ordered[lasts[high]])


def longest_plausible(first: int, last: int) -> int:
    """How long one event of a recording may last, ns, given its first and last start."""
    return max(GAP_TO_SPAN * (last - first), MIN_GAP_NS)


def far_away(start: I64, end: I64) -> BOOL | None:
    """Which events neither touch the time of the others nor last as long as events can; None when there are none."""
    if not len(start) or int(end.max()) - int(start.min()) <= MIN_GAP_NS:
        return None
    first, last = main_cluster(start)
    found = (end < first) | (start > last) | (end - start > longest_plausible(first, last))
    return found if found.any() and not found.all() else None


_AttributePlaces: TypeAlias = dict[tuple[int, ...], tuple[I64, npt.NDArray[np.integer]]]
_GIVEN_UP: Array = np.empty(0, np.int64)
MAX_LANES = 40_000
MAX_DEVICES = 256  # of one file
MAX_COUNTERS = 10_000
MAX_LEVELS = 32_000  # of events inside one another, or beside one another on one lane
MAX_TABLES = 20_000
MAX_NAME_LENGTH = 8_192  # characters; the longest of all kernels that were looked at has 5,160
_WORTH_SHARING = 4_096  # events of a chunk
_WORTH_COUNTING = 16  # an attribute of fewer than one event in so many is sorted instead of counted


def _column(values: Array | int, dtype: type[np.integer], count: int) -> Array:
    """``values`` for each of ``count`` events; one that stands for many takes no memory, one for a few little time."""
    if isinstance(values, int) and count <= _WORTH_SHARING:
        few = np.empty(count, dtype)
        few.fill(values)
        return few
    column = np.asarray(values, dtype)
    return column if column.shape == (count,) else np.broadcast_to(column, count)


def _taken_in_order(columns: list[Array], order: I64, number: int) -> Array:
    column, columns[number] = columns[number], _GIVEN_UP
    return np.take(column, order)


@dataclass(slots=True)
class TraceBuilder:
    """Collects chunks of columns in any order; ``build`` makes the read-only trace.

    Event numbers handed to ``attribute`` and ``link`` count events in the order of ``add``.
    Times may be on any clock (ns); ``build`` moves the earliest event or sample to zero.
    """

    quality: QualityRecorder = field(default_factory=QualityRecorder)
    capture: Capture = field(default_factory=Capture)
    epoch_ns: int | None = None  # wall clock of time zero of the file's own clock
    inputs: list[TraceInput] = field(default_factory=list)
    devices: list[Device] = field(default_factory=list)
    ranks: list[Rank] = field(default_factory=list)
    counters: list[Counter] = field(default_factory=list)
    kernels: list[KernelProfile] = field(default_factory=list)
    memory: list[Memory] = field(default_factory=list)
    tables: list[ResultTable] = field(default_factory=list)
    sources: list[ArgumentSource | None] = field(default_factory=list)
    lanes: list[Lane] = field(default_factory=list)
    strings: list[str] = field(default_factory=list)
    _string_index: dict[str, int] = field(default_factory=dict)
    _lane_index: dict[Lane, int] = field(default_factory=dict)
    _device_index: dict[tuple[int | None, int], int] = field(default_factory=dict)
    _chunks: list[tuple[Array, ...]] = field(default_factory=list)
    _attributes: dict[Attribute, list[tuple[I64, I64]]] = field(default_factory=dict)
    _links: list[tuple[I64, I64]] = field(default_factory=list)
    _count: int = 0

    def came_from(
        self,
        path: str,
        format: str,
        producer: str,
        rank: int | None = None,
        arguments: ArgumentSource | None = None,
    ) -> None:
        """Note the file that all events come from, and what reads the arguments of one where they lie in it."""
        self.inputs.append(TraceInput(path, format, producer, rank))
        self.sources.append(arguments)

    def string(self, text: str) -> int:
        index = self._string_index.get(text)
        if index is None:
            index = self._string_index[text] = len(self.strings)
            self.strings.append(text)
        return index

    def lane(self, lane: Lane) -> int:
        """The index of a lane, created on first use."""
        index = self._lane_index.get(lane)
        if index is None:
            _allow("lanes", len(self.lanes), MAX_LANES)
            index = self._lane_index[lane] = len(self.lanes)
            self.lanes.append(lane)
        return index

    def device(self, device: Device) -> int:
        """The index of a device, created on first use; (rank, id) identifies it."""
        index = self._device_index.get((device.rank, device.id))
        if index is None:
            _allow("GPUs", len(self.devices), MAX_DEVICES)
            index = self._device_index[device.rank, device.id] = len(self.devices)
            self.devices.append(device)
        return index

    def known_device(self, rank: int | None, number: int) -> int | None:
        """The index of the device that a rank calls ``number``; None where there is none yet."""
        return self._device_index.get((rank, number))

    def add(
        self,
        start: I64,
        end: I64,
        name: Array | int,
        lane: Array | int,
        kind: Array | int,
        source_row: Array | int = -1,
    ) -> I64:
        """Append events; returns their numbers. Scalars apply to the whole chunk."""
        count = len(start)
        self._chunks.append(
            (
                np.asarray(start, np.int64),
                np.asarray(end, np.int64),
                _column(name, np.int32, count),
                _column(lane, np.int32, count),
                _column(kind, np.uint8, count),
                _column(source_row, np.int64, count),
            )
        )
        numbers = np.arange(self._count, self._count + count, dtype=np.int64)
        self._count += count
        return numbers

    def attribute(self, which: Attribute, events: I64, values: Array | int) -> None:
        """State one attribute of some events; later statements win."""
        if len(events):
            stated = np.asarray(events, np.int64), _column(values, np.int64, len(events))
            self._attributes.setdefault(which, []).append(stated)

    def stated(self, which: Attribute) -> I64:
        """The numbers of the events for which an attribute was stated so far."""
        return self.statements(which)[0]

    def statements(self, which: Attribute) -> tuple[I64, I64]:
        """Event numbers and values of an attribute as stated so far, in the order of statement."""
        parts = self._attributes.get(which, [])
        empty = np.empty(0, np.int64)
        return (
            np.concatenate([empty, *(events for events, _ in parts)]),
            np.concatenate([empty, *(values for _, values in parts)]),
        )

    def link(self, operations: I64, launches: I64) -> None:
        """State which API call launched each operation (event numbers)."""
        self._links.append((np.asarray(operations, np.int64), np.asarray(launches, np.int64)))

    def build(self, progress: Progress | None = None) -> Trace:
        progress = progress or Progress()
        _allow("counters", len(self.counters) - 1, MAX_COUNTERS)
        _allow("tables", len(self.tables) - 1, MAX_TABLES)
        progress.step(0.0, "sorting events")
        start: I64 = self._column(0, np.int64)
        end: I64 = self._column(1, np.int64)
        name: I32 = self._column(2, np.int32)
        lane: I32 = self._column(3, np.int32)
        kind: U8 = self._column(4, np.uint8)
        row: I64 = self._column(5, np.int64)
        self._chunks.clear()
        give_back(len(start))
        if (away := far_away(start, end)) is not None:
            self._set_aside(away, start, name)
            near = ~away
            start, end, name, lane = start[near], end[near], name[near], lane[near]
            kind, row = kind[near], row[near]
        zero = self._zero(start)
        start -= zero
        end -= zero
        lanes, lane = in_display_order(
            _classified(self.lanes, lane, start, end, name, kind, self.strings), lane
        )
        order, depth = in_row_order(start, end, lane, progress)
        _allow("levels of events at the same time", int(depth.max(initial=0)), MAX_LEVELS)
        progress.step(0.8, "sorting events")
        columns: list[Array] = [start, end, name, lane, kind, row]
        del start, end, name, lane, kind, row  # so that each is gone as soon as it was taken in order
        start, end, name, lane, kind, row = side_by_side(
            partial(_taken_in_order, columns, order), range(len(columns)), len(order)
        )
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        del order
        self.quality.keep(len(place))
        links, attribute_places = self._placed_links(place), self._attribute_places(place)
        del place
        return Trace(
            strings=self._strings_with_bearable_names(name),
            events=EventTable(start, end, name, lane, depth, kind, row),
            lanes=lanes,
            devices=tuple(self.devices),
            ranks=tuple(self.ranks),
            links=links,
            attributes=self._placed_attributes(attribute_places, len(start)),
            counters=self._shifted_counters(zero),
            kernels=self._kernels_with_bearable_names(),
            memory=tuple(each.moved(-zero) for each in self.memory),
            tables=tuple(self.tables),
            inputs=tuple(self.inputs),
            quality=self.quality.quality(),
            capture=self.capture,
            epoch_ns=None if self.epoch_ns is None else self.epoch_ns + zero,
            sources=tuple(self.sources),
        )

    def _strings_with_bearable_names(self, name: I32) -> tuple[str, ...]:
        """The strings, of which those that name an event are no longer than ``MAX_NAME_LENGTH``."""
        long = [index for index, text in enumerate(self.strings) if len(text) > MAX_NAME_LENGTH]
        strings = list(self.strings) if long else self.strings
        for index in in_both(long, name).tolist() if long else ():
            strings[index] = self._bearable(strings[index])
        return tuple(strings)

    def _kernels_with_bearable_names(self) -> tuple[KernelProfile, ...]:
        return tuple(
            replace(each, name=self._bearable(each.name)) if len(each.name) > MAX_NAME_LENGTH else each
            for each in self.kernels
        )

    def _bearable(self, name: str) -> str:
        """A long name with an ellipsis in place of its end, which is noted."""
        self.quality.note(
            "name-shortened",
            Effect.REPAIRED,
            f"a name longer than {MAX_NAME_LENGTH:,} characters was shortened",
            f"{name[:80]}… of {len(name):,} characters",
        )
        return f"{name[: MAX_NAME_LENGTH - 1]}…"

    def _set_aside(self, away: BOOL, start: I64, name: I32) -> None:
        """Count events as quarantined, and renumber what is stated of the others."""
        first = int(np.flatnonzero(away)[0])
        self.quality.note(
            "far-away",
            Effect.QUARANTINED,
            "an event far away in time from all others",
            f"{self.strings[name[first]][:80]}: start {start[first]} ns",
            int(away.sum()),
        )
        number = np.cumsum(~away) - 1
        self._attributes = {
            which: [
                (number[events[kept]], values[kept]) for events, values in parts for kept in [~away[events]]
            ]
            for which, parts in self._attributes.items()
        }
        self._links = [
            (number[operations[kept]], number[launches[kept]])
            for operations, launches in self._links
            for kept in [~(away[operations] | away[launches])]
        ]

    def _column(self, number: int, dtype: npt.DTypeLike) -> Array:
        """One column of all chunks; the chunks give it up, so that it never exists twice for long."""
        parts = [chunk[number] for chunk in self._chunks]
        self._chunks = [(*chunk[:number], _GIVEN_UP, *chunk[number + 1 :]) for chunk in self._chunks]
        return np.concatenate(parts) if parts else np.empty(0, dtype)

    def _zero(self, start: I64) -> int:
        firsts = [int(start.min())] if len(start) else []
        firsts += [int(counter.time[0]) for counter in self.counters if len(counter.time)]
        return min(firsts, default=0)

    def _placed_links(self, place: I64) -> Links:
        if not self._links:
            return Links.empty()
        operation, launch = (np.concatenate(side) for side in zip(*self._links, strict=True))
        self._links.clear()
        at, last = _in_table_order(place, operation)
        return Links(at, place[launch[last]])

    def _attribute_places(self, place: I64) -> _AttributePlaces:
        """Where in the table the events of attributes are; those stated of the same events share one array."""
        sets = {_identity(parts): [events for events, _ in parts] for parts in self._attributes.values()}
        return {same: _in_table_order(place, np.concatenate(sets.pop(same))) for same in list(sets)}

    def _placed_attributes(self, in_order: _AttributePlaces, count: int) -> dict[Attribute, AttributeColumn]:
        """Columns in table order, of a table of so many events."""

        def column_of(which: Attribute) -> AttributeColumn:
            parts = self._attributes[which]
            at, last = in_order[_identity(parts)]
            values = np.concatenate([values for _, values in parts])
            self._attributes[which] = [(events, _GIVEN_UP) for events, _ in parts]
            return AttributeColumn(at, values[last])

        which = list(self._attributes)
        return dict(zip(which, side_by_side(column_of, which, count), strict=True))

    def _shifted_counters(self, zero: int) -> tuple[Counter, ...]:
        """Counters on the trace's clock, without impossible readings; those that shared an array of times still do."""
        times: dict[int, I64] = {}
        shifted = []
        for each in self.counters:
            time, value = times.setdefault(id(each.time), each.time - zero), each.value
            if (impossible := np.abs(value) >= MAX_READ).any():
                said = f"Readings beyond {MAX_READ:g} were left out."
                self.quality.note("impossible reading", Effect.NOTED, said, each.name, int(impossible.sum()))
                time, value = time[~impossible], value[~impossible]
            if len(value) or not len(each.value):
                shifted.append(replace(each, time=time, value=value))
        return tuple(shifted)


def _allow(what: str, count: int, most: int) -> None:
    if count >= most:
        raise Excessive(what, most)


def _identity(parts: list[tuple[I64, I64]]) -> tuple[int, ...]:
    """Equal for attributes that were stated of the same arrays of events."""
    return tuple(id(events) for events, _ in parts)


def _in_table_order(place: I64, events: I64) -> tuple[I64, npt.NDArray[np.integer]]:
    """Where these events are in the table, sorted, and which of ``events`` each is; the last one of equals."""
    if len(events) * _WORTH_COUNTING < len(place):
        at, last = np.unique(place[events][::-1], return_index=True)
        return at, len(events) - 1 - last
    index = np.full(len(place), -1, np.int32)
    index[place[events]] = np.arange(len(events), dtype=np.int32)
    at = np.flatnonzero(index >= 0)
    return at, index[at]


def _classified(
    lanes: list[Lane], lane: I32, start: I64, end: I64, name: I32, kind: U8, strings: list[str]
) -> list[Lane]:
    """GPU streams that mostly run collectives become NCCL lanes, those that only copy become copy lanes."""
    streams = [index for index, each in enumerate(lanes) if each.kind is LaneKind.GPU_STREAM]
    if not streams:
        return lanes
    kernels = of_kinds(kind, EventKind.KERNEL)
    time = (end - start)[kernels].astype(np.float64)
    communication = time * judged(name[kernels], strings, is_collective_kernel)
    in_kernels = np.bincount(lane[kernels], time, len(lanes))
    in_collectives = np.bincount(lane[kernels], communication, len(lanes))
    has = {
        which: np.bincount(lane[of_kinds(kind, which)], minlength=len(lanes)) > 0
        for which in (EventKind.KERNEL, EventKind.MEMCPY, EventKind.GRAPH)
    }
    copies_only = has[EventKind.MEMCPY] & ~has[EventKind.KERNEL] & ~has[EventKind.GRAPH]
    named = list(lanes)
    for index in streams:
        if in_collectives[index] * 2 > in_kernels[index]:
            named[index] = replace(lanes[index], kind=LaneKind.NCCL)
        elif copies_only[index]:
            named[index] = replace(lanes[index], kind=LaneKind.COPY)
    return named


def in_display_order(lanes: list[Lane], lane: I32) -> tuple[tuple[Lane, ...], I32]:
    """Lanes by rank, then CPU before GPU, then process, thread or device and stream; with the column renumbered.

    The profiler's own work stands between CPU and GPU.
    """

    def key(index: int) -> tuple[Any, ...]:
        each = lanes[index]
        on_gpu = each.device is not None
        stream = each.stream if each.stream is not None else -1
        where = (
            (each.device, each.kind == LaneKind.GPU_REGION, stream)
            if on_gpu
            else (each.process or 0, 0, each.thread or 0)
        )
        without_thread = each.kind is LaneKind.OVERHEAD and not on_gpu
        return (each.rank or 0, on_gpu, without_thread, where, each.kind, index)

    order = sorted(range(len(lanes)), key=key)
    renumbered = np.empty(len(lanes), np.int32)
    renumbered[order] = np.arange(len(lanes), dtype=np.int32)
    return tuple(lanes[index] for index in order), renumbered[lane] if len(lanes) else lane
