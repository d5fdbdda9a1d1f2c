"""Gathers decoded events as columns: one pass over each chunk, no object per event kept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from itertools import compress
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np

from parsers.chrome.decode.categories import (
    API,
    BOOKKEEPING,
    CPU_OP,
    KERNELS_WITH_COUNTERS,
    OTHER,
    PROFILER_PROCESSES,
    REGION,
    Family,
    Where,
    family_of,
)
from parsers.chrome.decode.memory_samples import MemorySamples
from parsers.chrome.decode.records import SAMPLE, SAMPLES, Arguments, Event, Placed
from parsers.chrome.decode.stated import K, Numbered, Stated
from parsers.chrome.decode.times import INVALID, durations, nanoseconds, whole_nanoseconds
from parsers.chrome.decode.usual_records import CATEGORIES, MemoryEvent, phase_of
from parsers.files.decoders import UNREADABLE
from parsers.model import BOOL, I32, I64, KERNEL_COUNTERS, Effect, EventKind, LaneKind, QualityRecorder
from parsers.model.late import dataclass

E = TypeVar("E")
Track = tuple[Where, LaneKind, Any, Any]  # and pid and tid, or device and stream

FLOWS = frozenset({"s", "t", "f"})
CORRELATED_FLOWS = frozenset({"ac2g", "fwdbwd", "async_cpu_to_gpu", "async_gpu", "forward_backward"})
INSTANTS = frozenset({"i", "I", "R"})
PAIRED = frozenset({"B", "E"})
ASYNCHRONOUS = frozenset({"b", "n", "e", "S", "T", "p", "F"})
_NO_ARGUMENTS = Arguments()
_IN_NS = "times in ns since 1970 where this format has us: they were read as ns, and durations, too"
_CATEGORY: Callable[[Event], str | None] = attrgetter("cat")
_PHASE: Callable[[Event], str | None] = attrgetter("ph")


class TracksOfProcess(dict[Any, int]):
    """Track numbers of the threads of a process, or of the streams of a device, that have events of one family."""

    def __init__(self, family: Family, process: Any, tracks: Numbered[Track]) -> None:
        super().__init__()
        self._place, self._tracks = (family.where, family.lane, process), tracks

    def __missing__(self, thread: Any) -> int:
        number = self[thread] = self._tracks[*self._place, thread]
        return number


class TracksOfFamily(dict[Any, TracksOfProcess]):
    """The tracks of each process or device; plain keys, because hashing a tuple or an enum member is slow."""

    def __init__(self, family: Family, tracks: Numbered[Track]) -> None:
        super().__init__()
        self._family, self._tracks = family, tracks

    def __missing__(self, process: Any) -> TracksOfProcess:
        threads = self[process] = TracksOfProcess(self._family, process, self._tracks)
        return threads

    def of(self, processes: list[Any], threads: list[Any]) -> I32:
        """The track of each event, which are rarely of more than one process or device."""
        count = len(processes)
        if processes.count(processes[0]) < count:
            where = [self[process][thread] for process, thread in zip(processes, threads, strict=True)]
            return np.fromiter(where, np.int32, count)
        of_process = self[processes[0]]
        if threads.count(threads[0]) == count:
            return np.full(count, of_process[threads[0]], np.int32)
        return np.fromiter(map(of_process.__getitem__, threads), np.int32, count)


@dataclass(slots=True)
class Part:
    """Columns of some events; ``duration`` is ns, ``good`` says which durations are numbers."""

    start: I64
    duration: I64
    good: BOOL
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
class Columns:
    """Everything gathered so far."""

    quality: QualityRecorder
    stated: Stated = field(default_factory=lambda: Stated(Numbered()))
    tracks: Numbered[Track] = field(default_factory=Numbered)
    parts: list[Part] = field(default_factory=list)
    instants: list[Instant] = field(default_factory=list)
    memory: MemorySamples = field(default_factory=MemorySamples)
    metadata: list[Naming] = field(default_factory=list)
    counter_rows: list[tuple[int, Event]] = field(default_factory=list)
    flows: int = 0
    arrows: list[Instant] = field(default_factory=list)  # flows that may stand for correlation numbers
    ignored: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    with_counters: int = 0  # kernels of which Kineto wrote counters, and no times
    count: int = 0
    _families: dict[str | None, tuple[Family, TracksOfFamily]] = field(default_factory=dict)

    @property
    def names(self) -> Numbered[str]:
        return self.stated.names

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
            self.with_counters += len(events) if category == KERNELS_WITH_COUNTERS else 0
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
        starts = nanoseconds([event.ts for event in events])
        of_memory = [event.name == "[memory]" and event.args is not None for event in events]
        if True in of_memory:
            mine = list(compress(events, of_memory))
            which = np.array(of_memory)
            self.memory.add(
                starts[which], [event.tid for event in mine], [event.args or _NO_ARGUMENTS for event in mine]
            )
            if len(mine) == len(events):
                return
            others = ~which
            events, starts, rows = list(compress(events, others.tolist())), starts[others], rows[others]
        for event, start, row in zip(events, starts.tolist(), rows.tolist(), strict=True):
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
            track = tracks.of([event.pid for event in events], [event.tid for event in events])
        else:
            arguments = [event.args or _NO_ARGUMENTS for event in events]
            devices, streams = [each.device for each in arguments], [each.stream for each in arguments]
            if None in devices:
                devices = [
                    event.pid if device is None else device
                    for event, device in zip(events, devices, strict=True)
                ]
            if None in streams:
                streams = [
                    event.tid if stream is None else stream
                    for event, stream in zip(events, streams, strict=True)
                ]
            track = tracks.of(devices, streams)
        start = nanoseconds([event.ts for event in events])
        duration, good = durations([event.dur for event in events])
        if (start == INVALID).all() and (
            in_ns := whole_nanoseconds([event.ts for event in events])
        ) is not None:
            start, duration = in_ns, duration // 1000
            self.quality.note("in-ns", Effect.NOTED, _IN_NS, count=count)
        numbers = self.append(Part(start, duration, good, name, track, family.kind, rows))
        if family is CPU_OP or family is REGION:
            self.stated.of_operators(numbers, [event.args or _NO_ARGUMENTS for event in events])
        elif family is API:
            self.stated.of_calls(numbers, [event.args or _NO_ARGUMENTS for event in events])
        elif arguments:
            self.stated.of_operations(family, numbers, arguments)
        elif family is OTHER and isinstance(events[0], Event):
            self.stated.in_words_of_xprof(numbers, [event.args or _NO_ARGUMENTS for event in events])

    def append(self, part: Part) -> I64:
        self.parts.append(part)
        self.quality.read(len(part.start))
        numbers = np.arange(self.count, self.count + len(part.start), dtype=np.int64)
        self.count += len(part.start)
        return numbers

    def note_leftovers(self) -> None:
        """State what was read but is no event of the timeline."""
        self.quality.note(
            "flow-events",
            Effect.NOTED,
            "arrows between events; launches are linked by correlation",
            "",
            self.flows,
        )
        self.quality.note(
            KERNEL_COUNTERS,
            Effect.NOTED,
            "kernels with hardware counters but no times: CUPTI's range profiler ran them one after another",
            "",
            self.with_counters,
        )
        for phase, count in self.ignored.items():
            reason = "events of a phase that a timeline cannot show"
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


def _scoped_id(event: Any) -> str | None:
    """An id of the second form: one that counts everywhere, or in its process only."""
    stated = getattr(event, "id2", None)
    if not isinstance(stated, dict):
        return None
    return repr(stated["global"]) if "global" in stated else f"{event.pid} {stated.get('local')!r}"


MAX_SERIES = 4096


@dataclass(slots=True)
class Series:
    """Samples of every series, keyed by process, counter and series name."""

    samples: dict[tuple[Any, str, str], list[tuple[int, float]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def add(self, events: list[Event], arguments: list[Any]) -> int:
        """Counter events and their arguments, which have any names; returns how many hold nothing to show."""
        useless = 0
        for event, time, stated in zip(
            events, nanoseconds([event.ts for event in events]).tolist(), arguments, strict=True
        ):
            if time == INVALID or not isinstance(stated, dict):
                useless += 1
                continue
            name = event.name if event.id is None else f"{event.name} {event.id}"
            for series, value in stated.items():
                number = _number(value)
                key = (event.pid, name, series)
                if number is not None and (key in self.samples or len(self.samples) < MAX_SERIES):
                    self.samples[key].append((time, number))
        return useless


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if np.isfinite(number) else None


def take_counters(columns: Columns, series: Series, texts: list[bytes], first_row: int) -> None:
    """Move the counter events of one chunk into ``series``; ``texts`` is the JSON of its events."""
    if not columns.counter_rows:
        return
    events = [event for _, event in columns.counter_rows]
    mine = [texts[row - first_row] for row, _ in columns.counter_rows]
    columns.counter_rows.clear()
    try:
        arguments = [sample.args for sample in SAMPLES.decode(b"[" + b",".join(mine) + b"]")]
    except UNREADABLE:
        arguments = [_arguments(text) for text in mine]
    if useless := series.add(events, arguments):
        columns.ignored["C"] += useless


def _arguments(text: bytes) -> Any:
    try:
        return SAMPLE.decode(text).args
    except UNREADABLE:
        return None
