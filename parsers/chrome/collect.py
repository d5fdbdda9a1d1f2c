"""Gathers decoded events as columns: one pass over each chunk, no object per event kept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Raw

from parsers.chrome.categories import (
    API,
    BOOKKEEPING,
    CPU_OP,
    GPU_SYNC,
    KERNEL,
    OTHER,
    PROFILER_PROCESSES,
    REGION,
    Family,
    Where,
    family_of,
)
from parsers.chrome.messages import collective_name, message_bytes
from parsers.chrome.records import (
    NO_TEXT,
    Arguments,
    CollectiveArguments,
    Event,
    OperatorArguments,
    Placed,
)
from parsers.chrome.synchronisation import sync_kind
from parsers.chrome.times import durations, nanoseconds
from parsers.chrome.usual_records import (
    CATEGORIES,
    MemoryEvent,
    OperationArguments,
    phase_of,
)
from parsers.chrome.xprof import NO_DETAILS, details_of
from parsers.model import Attribute, Effect, EventKind, LaneKind, QualityRecorder

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
K = TypeVar("K", bound=Hashable)
E = TypeVar("E")
AnyOperationArguments = OperationArguments | Arguments
Track = tuple[Where, LaneKind, Any, Any]  # and pid and tid, or device and stream

FLOWS = frozenset({"s", "t", "f"})
CORRELATED_FLOWS = frozenset({"ac2g", "fwdbwd", "async_cpu_to_gpu", "async_gpu", "forward_backward"})
INSTANTS = frozenset({"i", "I", "R"})
PAIRED = frozenset({"B", "E"})
ASYNCHRONOUS = frozenset({"b", "n", "e", "S", "T", "p", "F"})
_NO_ARGUMENTS = Arguments()
_CATEGORY: Callable[[Event], str | None] = attrgetter("cat")
_PHASE: Callable[[Event], str | None] = attrgetter("ph")


class Numbered(dict[K, int]):
    """Gives each new key the next number."""

    def __missing__(self, key: K) -> int:
        number = self[key] = len(self)
        return number


class TracksOfFamily(dict[tuple[Any, Any], int]):
    """Track numbers of one family's threads or streams; plain keys, because hashing an enum member is slow."""

    def __init__(self, family: Family, tracks: Numbered[Track]) -> None:
        super().__init__()
        self._family, self._tracks = family, tracks

    def __missing__(self, key: tuple[Any, Any]) -> int:
        number = self[key] = self._tracks[self._family.where, self._family.lane, *key]
        return number


@dataclass(slots=True)
class Part:
    """Columns of some events; ``duration`` is ns, ``good`` says which durations are numbers."""

    start: I64
    duration: I64
    good: npt.NDArray[np.bool_]
    name: I32
    track: I32
    kind: EventKind
    row: I64


@dataclass(slots=True)
class Instant:
    """An instant or one end of a pair, kept as it is until all of the file was read."""

    phase: str
    start: int
    name: str
    category: str | None
    pid: Any
    tid: Any
    id: Any
    row: int


@dataclass(slots=True)
class Naming:
    """A metadata event: what it names, and the name."""

    what: str
    pid: Any
    tid: Any
    name: str


@dataclass(slots=True)
class MemorySample:
    """The state of one allocator after an allocation or release."""

    device_type: int
    device: int
    start: int
    allocated: int
    reserved: int


@dataclass(slots=True)
class Columns:
    """Everything gathered so far."""

    quality: QualityRecorder
    names: Numbered[str] = field(default_factory=Numbered)
    tracks: Numbered[Track] = field(default_factory=Numbered)
    parts: list[Part] = field(default_factory=list)
    attributes: dict[Attribute, list[tuple[I64, I64]]] = field(default_factory=lambda: defaultdict(list))
    instants: list[Instant] = field(default_factory=list)
    memory: list[MemorySample] = field(default_factory=list)
    metadata: list[Naming] = field(default_factory=list)
    counter_rows: list[tuple[int, Event]] = field(default_factory=list)
    call_sizes: list[tuple[I64, I64]] = field(default_factory=list)  # bytes that API calls were asked to copy
    flows: int = 0
    arrows: list[Instant] = field(default_factory=list)  # flows that may stand for correlation numbers
    ignored: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    count: int = 0
    _texts: dict[bytes, int] = field(default_factory=dict)
    _shapes: dict[bytes, int] = field(default_factory=dict)
    _sizes: list[tuple[int, int]] = field(default_factory=list)  # product and text of each shape
    _families: dict[str | None, tuple[Family, TracksOfFamily]] = field(default_factory=dict)

    def add(self, events: Sequence[Event], first_row: int) -> None:
        """Take over the events of one chunk; event k can be found again as row ``first_row + k``."""
        for category, alike, rows in _grouped(events, map(_CATEGORY, events)):
            phases: set[str | None] = set(map(_PHASE, alike))
            if len(phases) == 1:
                self._phase(phases.pop(), category, alike, rows + first_row)
                continue
            for phase, of_phase, places in _grouped(alike, map(_PHASE, alike)):
                self._phase(phase, category, of_phase, rows[places] + first_row)

    def add_usual(self, events: Sequence[Placed], first_row: int) -> None:
        """Take over the events of one chunk that ``UsualEvents`` decoded."""
        for event_type, alike, rows in _grouped(events, map(type, events)):
            self._phase(phase_of(event_type), CATEGORIES[event_type], alike, rows + first_row)

    def _phase(self, phase: str | None, category: str | None, events: list[Any], rows: I64) -> None:
        if phase == "X":
            self._complete(*self._family(category), events, rows)
        elif phase in FLOWS:
            self.flows += len(events)
            if category not in CORRELATED_FLOWS and isinstance(events[0], Event):
                self._arrows(phase or "", category, events, rows)
        elif phase == "M":
            self._metadata(events)
        elif phase == "C":
            self.counter_rows += zip(rows.tolist(), events, strict=True)
        elif phase in INSTANTS or phase in PAIRED or phase in ASYNCHRONOUS:
            self._instants(phase or "", category, events, rows)
        else:
            self.ignored[phase or ""] += len(events)

    def _family(self, category: str | None) -> tuple[Family, TracksOfFamily]:
        known = self._families.get(category)
        if known is None:
            family = family_of(category)
            known = self._families[category] = family, TracksOfFamily(family, self.tracks)
        return known

    def _metadata(self, events: list[Event]) -> None:
        for event in events:
            stated = event.args or _NO_ARGUMENTS
            text = stated.labels if event.name == "process_labels" else stated.name
            if isinstance(text, str):
                self.metadata.append(Naming(event.name, event.pid, event.tid, text.strip()))

    def _arrows(self, phase: str, category: str | None, events: list[Event], rows: I64) -> None:
        starts = nanoseconds([event.ts for event in events]).tolist()
        self.arrows += [
            Instant(phase, start, event.name or "", category, event.pid, event.tid, event.id, row)
            for event, start, row in zip(events, starts, rows.tolist(), strict=True)
        ]

    def _instants(
        self, phase: str, category: str | None, events: list[Event | MemoryEvent], rows: I64
    ) -> None:
        starts = nanoseconds([event.ts for event in events]).tolist()
        for event, start, row in zip(events, starts, rows.tolist(), strict=True):
            arguments = event.args
            if event.name == "[memory]" and arguments is not None:
                self.memory.append(
                    MemorySample(
                        _integer(arguments.memory_device_type) or 0,
                        _integer(arguments.memory_device) or 0,
                        start,
                        _integer(arguments.allocated) or 0,
                        _integer(arguments.reserved) or 0,
                    )
                )
                continue
            number = event.id if event.id is not None else _scoped_id(event)
            self.instants.append(
                Instant(phase, start, event.name or "", category, event.pid, event.tid, number, row)
            )

    def _complete(self, family: Family, tracks: TracksOfFamily, events: list[Any], rows: I64) -> None:
        if family is BOOKKEEPING:
            shown = [index for index, event in enumerate(events) if event.pid not in PROFILER_PROCESSES]
            if shown:
                self._complete(*self._family(None), [events[index] for index in shown], rows[shown])
            return
        count = len(events)
        names = self.names
        name = np.fromiter([names[event.name] for event in events], np.int32, count)
        arguments: list[Any] = []
        if family.where is Where.THREAD:
            where = [tracks[event.pid, event.tid] for event in events]
        else:
            arguments = [event.args or _NO_ARGUMENTS for event in events]
            where = [
                tracks[
                    event.pid if each.device is None else each.device,
                    event.tid if each.stream is None else each.stream,
                ]
                for event, each in zip(events, arguments, strict=True)
            ]
        track = np.fromiter(where, np.int32, count)
        start = nanoseconds([event.ts for event in events])
        duration, good = durations([event.dur for event in events])
        numbers = self.append(Part(start, duration, good, name, track, family.kind, rows))
        if family is CPU_OP or family is REGION:
            self._operators(numbers, [event.args or _NO_ARGUMENTS for event in events])
        elif family is API:
            arguments = [event.args or _NO_ARGUMENTS for event in events]
            self._integers(Attribute.CORRELATION, numbers, [each.correlation for each in arguments])
            sizes, stated = integers([each.size for each in arguments])
            if len(sizes):
                self.call_sizes.append((numbers if stated is None else numbers[stated], sizes))
        elif arguments:
            self._operations(family, numbers, arguments)
        elif family is OTHER and isinstance(events[0], Event):
            self._details(numbers, [event.args or _NO_ARGUMENTS for event in events])

    def _details(self, numbers: I64, arguments: list[Arguments]) -> None:
        """What XProf says in other words."""
        self._integers(Attribute.CORRELATION, numbers, [each.correlation_id for each in arguments])
        details = [details_of(each.kernel_details, each.memcpy_details) for each in arguments]
        if any(each is not NO_DETAILS for each in details):
            self._integers(Attribute.REGISTERS, numbers, [each.registers for each in details])
            self._integers(Attribute.BYTES, numbers, [each.size for each in details])
            self._shape(Attribute.GRID, Attribute.GRID_SHAPE, numbers, [each.grid for each in details])
            self._shape(Attribute.BLOCK, Attribute.BLOCK_SHAPE, numbers, [each.block for each in details])

    def append(self, part: Part) -> I64:
        """Add events; returns their numbers."""
        self.parts.append(part)
        self.quality.read(len(part.start))
        numbers = np.arange(self.count, self.count + len(part.start), dtype=np.int64)
        self.count += len(part.start)
        return numbers

    def _operators(self, numbers: I64, arguments: list[OperatorArguments]) -> None:
        self._integers(Attribute.SEQUENCE, numbers, [each.sequence for each in arguments])
        self._integers(Attribute.FORWARD_THREAD, numbers, [each.forward_thread for each in arguments])
        self._raw_texts(Attribute.INPUT_DIMS, numbers, [each.input_dims for each in arguments])
        self._raw_texts(Attribute.INPUT_DIMS, numbers, [each.input_dims_of_2020 for each in arguments])
        self._raw_texts(Attribute.INPUT_TYPES, numbers, [each.input_types for each in arguments])
        self._collectives(numbers, arguments)

    def _operations(self, family: Family, numbers: I64, arguments: list[AnyOperationArguments]) -> None:
        self._integers(Attribute.CORRELATION, numbers, [each.correlation for each in arguments])
        if family is KERNEL:
            self._integers(Attribute.REGISTERS, numbers, [each.registers for each in arguments])
            self._shape(Attribute.GRID, Attribute.GRID_SHAPE, numbers, [each.grid for each in arguments])
            self._shape(Attribute.BLOCK, Attribute.BLOCK_SHAPE, numbers, [each.block for each in arguments])
            self._collectives(numbers, arguments)
        elif family is GPU_SYNC:
            kinds = [sync_kind(each.sync_kind).value for each in arguments]
            self._attribute(Attribute.SYNC_KIND, numbers, np.array(kinds, np.int64))
        else:
            self._integers(Attribute.BYTES, numbers, [each.bytes for each in arguments])
        self._integers(Attribute.GRAPH_NODE, numbers, [each.graph_node for each in arguments])

    def _collectives(self, numbers: I64, arguments: Sequence[CollectiveArguments]) -> None:
        mine = [index for index, each in enumerate(arguments) if each.collective is not None]
        if not mine:
            return
        numbers = numbers[mine]
        stating = [arguments[index] for index in mine]
        for which, texts in (
            (Attribute.COLLECTIVE, [collective_name(str(each.collective)) for each in stating]),
            (Attribute.MESSAGE_DTYPE, [each.message_type for each in stating]),
            (Attribute.GROUP, [each.group for each in stating]),
        ):
            stated = [index for index, text in enumerate(texts) if isinstance(text, (str, int))]
            values = [self.names[str(texts[index])] for index in stated]
            self._attribute(which, numbers[stated], np.array(values, np.int64))
        self._integers(Attribute.GROUP_SIZE, numbers, [each.group_size for each in stating])
        sizes = [message_bytes(each.message_elements, each.message_type) for each in stating]
        self._integers(Attribute.MESSAGE_BYTES, numbers, sizes)
        self._integers(Attribute.COLLECTIVE_SEQUENCE, numbers, [each.collective_sequence for each in stating])

    def _attribute(self, which: Attribute, numbers: I64, values: I64) -> None:
        if len(numbers):
            self.attributes[which].append((numbers, values))

    def _integers(self, which: Attribute, numbers: I64, values: list[Any]) -> None:
        column, stated = integers(values)
        self._attribute(which, numbers if stated is None else numbers[stated], column)

    def _raw_texts(self, which: Attribute, numbers: I64, raws: list[Raw]) -> None:
        if raws.count(NO_TEXT) == len(raws):
            return
        texts = list(map(bytes, raws))
        known = self._texts
        try:
            values = [known[text] for text in texts]
        except KeyError:
            for text in texts:
                if text not in known:
                    known[text] = self.names[text.decode("utf-8", "replace")] if text else -1
            values = [known[text] for text in texts]
        column = np.array(values, np.int64)
        stated = column >= 0
        self._attribute(which, numbers[stated], column[stated])

    def _shape(self, product: Attribute, shape: Attribute, numbers: I64, raws: Sequence[Raw | bytes]) -> None:
        texts = list(map(bytes, raws))
        known = self._shapes
        try:
            places = [known[text] for text in texts]
        except KeyError:
            for text in texts:
                if text not in known:
                    known[text] = len(self._sizes)
                    self._sizes.append(self._shape_of(text))
            places = [known[text] for text in texts]
        sizes = np.array(self._sizes, np.int64)[np.array(places, np.int64)]
        stated = sizes[:, 0] >= 0
        if not stated.all():
            numbers, sizes = numbers[stated], sizes[stated]
        self._attribute(product, numbers, sizes[:, 0])
        self._attribute(shape, numbers, sizes[:, 1])

    def _shape_of(self, text: bytes) -> tuple[int, int]:
        sides = text.strip(b'[]" ').split(b",")
        try:
            numbers = [int(side) for side in sides]
        except ValueError:
            return -1, -1
        product = 1
        for number in numbers:
            product *= number
        if len(numbers) != 3 or not 0 <= product < 1 << 62:
            return -1, -1
        return product, self.names[",".join(map(str, numbers))]

    def note_leftovers(self) -> None:
        """State what was read but is no event of the timeline."""
        self.quality.note(
            "flow-events",
            Effect.NOTED,
            "arrows between events; launches are linked by correlation",
            "",
            self.flows,
        )
        for phase, count in self.ignored.items():
            reason = "events of a phase that has no place on a timeline"
            self.quality.note(f"phase-{phase[:8] or 'missing'}", Effect.NOTED, reason, "", count)


def _grouped(events: Sequence[E], keys: Iterable[K]) -> Iterator[tuple[K, list[E], I64]]:
    """Events of equal keys together, with their places, in the order they came."""
    numbered: Numbered[K] = Numbered()
    codes = np.fromiter(map(numbered.__getitem__, keys), np.int64, len(events))
    if len(numbered) == 1:
        yield next(iter(numbered)), list(events), np.arange(len(events))
        return
    order = np.argsort(codes.astype(np.min_scalar_type(len(numbered))), kind="stable")
    ordered = np.fromiter(events, object, len(events))[order].tolist()
    bounds = np.searchsorted(codes[order], np.arange(len(numbered) + 1)).tolist()
    for key, first, last in zip(numbered, bounds, bounds[1:], strict=False):
        yield key, ordered[first:last], order[first:last]


def integers(values: list[Any]) -> tuple[I64, list[int] | None]:
    """The values that are whole numbers, and their places; no places means all."""
    stated: list[int] | None = None
    if None in values:
        stated = [index for index, value in enumerate(values) if value is not None]
        values = [values[index] for index in stated]
    try:
        return np.array(values, np.int64), stated
    except (TypeError, ValueError, OverflowError):
        numbers = [_integer(value) for value in values]
        places = range(len(values)) if stated is None else stated
        good = [place for place, number in zip(places, numbers, strict=True) if number is not None]
        return np.array([number for number in numbers if number is not None], np.int64), good


def _scoped_id(event: Any) -> str | None:
    """An id of the second form: one that counts everywhere, or in its process only."""
    stated = getattr(event, "id2", None)
    if not isinstance(stated, dict):
        return None
    return repr(stated["global"]) if "global" in stated else f"{event.pid} {stated.get('local')!r}"


def _integer(value: Any) -> int | None:
    if value is None or isinstance(value, (list, dict)):
        return None
    try:
        number = int(value, 0) if isinstance(value, str) else int(value)
    except (ValueError, OverflowError):
        return None
    return number if -(1 << 63) <= number < 1 << 63 else None
