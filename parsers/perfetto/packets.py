"""Packets as columns: times on one clock, interned names resolved, events of all tracks.

Field numbers are those of Perfetto's ``trace_packet.proto``, ``track_event.proto`` and ``interned_data.proto``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field

import numpy as np

from parsers.model import F64, I64, U8, Progress
from parsers.model.arrays import distinct_values, per_value, rows_by
from parsers.model.late import dataclass
from parsers.protobuf.columns import Fields, Spans, buffer_of, decode, parts_of
from parsers.protobuf.wire import FIXED64, VARINT

_PACKET = 1
_CLOCKS, _TIME, _SEQUENCE, _EVENT, _INTERNED, _FLAGS, _CLEARED = 6, 8, 10, 11, 12, 13, 41
_PROCESS, _THREAD, _CLOCK, _DEFAULTS, _TRACK = 43, 44, 58, 59, 60
_GPU_COUNTERS, _GPU_WORK = 52, 53
_WANTED = (
    *(_GPU_COUNTERS, _GPU_WORK),
    *(_CLOCKS, _TIME, _SEQUENCE, _EVENT, _INTERNED, _FLAGS, _CLEARED),
    *(_PROCESS, _THREAD, _CLOCK, _DEFAULTS, _TRACK),
)
_SHOWN = (_EVENT, _TRACK, _INTERNED, _CLOCKS, _GPU_COUNTERS, _GPU_WORK)
_STATE_CLEARED = 1
_CATEGORIES, _NAMES, _ANNOTATION_NAMES = 1, 2, 3
_IID, _TEXT = 1, 2
_GPU_DESCRIPTORS, _DESCRIPTOR = 47, 2
_E_DELTA_US, _E_CATEGORY_IDS, _E_ANNOTATIONS, _E_KIND, _E_NAME_ID, _E_TRACK = 1, 3, 4, 9, 10, 11
_E_ABSOLUTE_US, _E_CATEGORY, _E_NAME, _E_COUNTER, _E_DOUBLE = 16, 22, 23, 30, 44
_E_FLOWS_OLD, _E_ENDING_OLD, _E_FLOWS, _E_ENDING = 36, 42, 47, 48
_A_NAME_ID, _A_NAME, _A_UNSIGNED, _A_SIGNED, _A_POINTER = 1, 10, 3, 4, 7
_UNITS = {1: "ns", 2: "", 3: "B"}
_REALTIME, _BOOTTIME = 1, 6
_FIRST_OWN_CLOCK = 64  # numbers from here on are clocks of one sequence
NONE = np.empty(0, np.int64)


@dataclass(slots=True)
class Events:
    """Track events in the order of the file, as equal columns.

    ``name`` and ``category`` are places in ``Packets.texts``, ``track`` is a track's uuid. ``kind`` 1 begins a slice, 2
    ends one, 3 is an instant, 4 a counter. ``flow`` is one of the event's flows, 0 without any; ``place`` is where the
    packet lies in the file.
    """

    time: I64
    track: I64
    kind: I64
    name: I64
    category: I64
    value: F64
    flow: I64
    place: I64
    annotations: Mapping[str, tuple[I64, I64]] = field(default_factory=dict)  # whole numbers: event, value


@dataclass(frozen=True, slots=True)
class Track:
    """One described track."""

    uuid: int
    name: str = ""
    parent: int = 0
    process: int | None = None
    process_name: str = ""
    thread: int | None = None
    unit: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class OwnPackets:
    """Packets of one kind that are no track events: times in ns, and the epochs in which interned ids hold."""

    time: I64
    epoch: I64
    spans: Spans


@dataclass(slots=True)
class Packets:
    """Everything that is shown of a trace."""

    texts: list[str]
    events: Events
    gpu_work: OwnPackets
    gpu_counters: OwnPackets
    gpu_descriptors: Spans  # of counters, where they are interned
    interned: Callable[
        [int, int], dict[tuple[int, int], str]
    ]  # field and its text -> text of each (epoch, id)
    tracks: dict[int, Track]
    epoch_ns: int | None  # wall clock of the trace's time zero
    damaged: int
    other_packets: int
    whole: bool


def read_packets(content: bytes, numbers: frozenset[str], progress: Progress) -> Packets:
    """Decode a trace without packed packets; ``numbers`` names the debug annotations whose numbers are wanted."""
    data = buffer_of(content)
    trace = parts_of(memoryview(content), 0, progress.part(0.0, 0.2))
    packets = trace.of(_PACKET, data)
    fields = decode(packets, progress.part(0.2, 0.5), _WANTED)
    reading = _Reading(packets, fields, progress.part(0.5, 1.0))
    events = reading.events(numbers)
    return Packets(
        reading.texts,
        events,
        reading.own(_GPU_WORK),
        reading.own(_GPU_COUNTERS),
        reading.interned_messages(_GPU_DESCRIPTORS, _DESCRIPTOR),
        reading.interned_texts,
        reading.tracks(),
        reading.epoch_ns(),
        fields.damaged,
        len(packets) - len(distinct_values(fields.message[np.isin(fields.number, _SHOWN)])),
        trace.whole,
    )


@dataclass(slots=True)
class _Reading:
    packets: Spans
    fields: Fields
    progress: Progress
    texts: list[str] = field(default_factory=lambda: [""])
    _index: dict[str, int] = field(default_factory=lambda: {"": 0})

    # --- state of sequences

    def _numbers(self, number: int, default: int = 0) -> I64:
        return self.fields.numbers(number, len(self.packets), default)

    def _text(self, text: str) -> int:
        place = self._index.get(text)
        if place is None:
            place = self._index[text] = len(self.texts)
            self.texts.append(text)
        return place

    def _epochs(self) -> I64:
        """For each packet a number that its sequence has from one clearing of its state to the next."""
        sequence = self._numbers(_SEQUENCE)
        cleared = (self._numbers(_FLAGS) & _STATE_CLEARED != 0) | (self._numbers(_CLEARED) != 0)
        order = np.argsort(sequence, kind="stable")
        starts = np.append(True, np.diff(sequence[order]) != 0) if len(order) else np.zeros(0, bool)
        epoch = np.empty(len(order), np.int64)
        epoch[order] = np.cumsum(starts | cleared[order])
        return epoch

    def interned_texts(self, which: int, text: int) -> dict[tuple[int, int], str]:
        """(epoch, interning id) -> text, of any kind of interned data."""
        table = self._interned(which, self._epochs(), text)
        return {key: self.texts[place] for key, place in table.items()}

    def interned_messages(self, which: int, inner: int) -> Spans:
        """The messages inside interned data of one kind, whatever their ids."""
        _, interned = self.fields.spans(_INTERNED)
        _, entries = decode(interned, self.progress, (which,)).spans(which)
        return decode(entries, self.progress, (inner,)).spans(inner)[1]

    def own(self, number: int) -> OwnPackets:
        epoch = self._epochs()
        owners, spans = self.fields.spans(number)
        clocks, _ = self._defaults(epoch)
        return OwnPackets(self._times(epoch, clocks)[owners], epoch[owners], spans)

    def _interned(self, which: int, epoch: I64, text: int = _TEXT) -> dict[tuple[int, int], int]:
        """(epoch, interning id) -> text, of one kind of names."""
        owners, interned = self.fields.spans(_INTERNED)
        entries = decode(interned, self.progress.part(0.0, 0.1), (which,))
        of_entry, spans = entries.spans(which)
        named = decode(spans, self.progress.part(0.1, 0.2), (_IID, text))
        ids = named.numbers(_IID, len(spans))
        of_name, names = named.spans(text)
        found: dict[tuple[int, int], int] = {}
        packet = owners[of_entry][of_name] if len(of_name) else NONE
        rows = zip(epoch[packet].tolist(), ids[of_name].tolist(), range(len(names)), strict=True)
        for number, (era, iid, place) in enumerate(rows):
            if number % 10_000 == 0:
                self.progress.step(0.2, "reading names")
            found[era, iid] = self._text(names.text(place))
        return found

    def _resolved(self, epoch: I64, ids: I64, table: Mapping[tuple[int, int], int]) -> I64:
        """The text of each (epoch, id); the empty one where none is known."""
        return per_value(np.stack([epoch, ids], axis=1), lambda pair: table.get(tuple(pair), 0))

    def _defaults(self, epoch: I64) -> tuple[dict[int, int], dict[int, int]]:
        """The clock and the track that hold for each epoch unless a packet states others."""
        owners, spans = self.fields.spans(_DEFAULTS)
        stated = decode(spans, self.progress, (_CLOCK, _EVENT))
        clocks = stated.numbers(_CLOCK, len(spans), -1)
        of_event, events = stated.spans(_EVENT)
        tracks = np.full(len(spans), -1, np.int64)
        tracks[of_event] = decode(events, self.progress, (_E_TRACK,)).numbers(_E_TRACK, len(events), -1)
        eras = epoch[owners].tolist()
        return (
            {era: clock for era, clock in zip(eras, clocks.tolist(), strict=True) if clock >= 0},
            {era: track for era, track in zip(eras, tracks.tolist(), strict=True) if track != -1},
        )

    # --- time

    def _times(self, epoch: I64, default_clock: Mapping[int, int]) -> I64:
        """The time of each packet, ns; clocks that count on from packet to packet are added up."""
        time = self._numbers(_TIME)
        clock = self._numbers(_CLOCK, -1)
        usual = per_value(epoch, lambda era: default_clock.get(era, _BOOTTIME))
        clock = np.where(clock >= 0, clock, usual)
        bases, incremental = self._own_clocks(epoch)
        own = np.flatnonzero(clock >= _FIRST_OWN_CLOCK)
        if not len(own):
            return time
        keys = np.stack([epoch[own], clock[own]], axis=1)
        for (era, number), rows in rows_by(keys):
            base, unit = bases.get((era, number), (0, 1))
            mine = own[rows]
            if (era, number) in incremental:
                time[mine] = base + np.cumsum(time[mine]) * unit
            else:
                time[mine] = time[mine] * unit + base
        return time

    def _own_clocks(self, epoch: I64) -> tuple[dict[tuple[int, int], tuple[int, int]], set[tuple[int, int]]]:
        """(epoch, clock) -> (time at its snapshot, ns of one tick); and which clocks state differences."""
        bases: dict[tuple[int, int], tuple[int, int]] = {}
        incremental: set[tuple[int, int]] = set()
        for packet, clocks in self._snapshots():
            known = {number: time for number, time, _, _ in clocks}
            for number, time, differs, unit in clocks:
                if number < _FIRST_OWN_CLOCK:
                    continue
                key = int(epoch[packet]), number
                reference = known.get(_BOOTTIME, time * unit)
                if differs:
                    incremental.add(key)
                    bases[key] = (time * unit if time else reference, unit)
                else:
                    bases[key] = (reference - time * unit, unit)
        return bases, incremental

    def _snapshots(self) -> Iterator[tuple[int, list[tuple[int, int, bool, int]]]]:
        owners, spans = self.fields.spans(_CLOCKS)
        snapshots = decode(spans, self.progress, (1,))
        of_clock, clocks = snapshots.spans(1)
        stated = decode(clocks, self.progress)
        columns = [stated.numbers(number, len(clocks)) for number in (1, 2, 3, 4)]
        of_place = dict(rows_by(of_clock))
        for index, packet in enumerate(owners.tolist()):
            mine = of_place.get(index, NONE).tolist()
            yield (
                packet,
                [
                    (
                        int(columns[0][row]),
                        int(columns[1][row]),
                        bool(columns[2][row]),
                        max(int(columns[3][row]), 1),
                    )
                    for row in mine
                ],
            )

    def epoch_ns(self) -> int | None:
        """Wall clock minus the trace's own clock, from the first snapshot that has both."""
        for _, clocks in self._snapshots():
            known = {number: time for number, time, _, _ in clocks}
            if _REALTIME in known and _BOOTTIME in known:
                return known[_REALTIME] - known[_BOOTTIME]
        return None

    # --- tracks

    def tracks(self) -> dict[int, Track]:
        """Every described track, and one for each sequence that describes a thread of its own."""
        _, spans = self.fields.spans(_TRACK)
        found: dict[int, Track] = {}
        for begin, end in zip(spans.begin.tolist(), spans.end.tolist(), strict=True):
            track = _track(spans.data, begin, end, self.progress)
            found[track.uuid] = track
        return found

    # --- events

    def events(self, numbers: frozenset[str]) -> Events:
        epoch = self._epochs()
        default_clock, default_track = self._defaults(epoch)
        names = self._interned(_NAMES, epoch)
        categories = self._interned(_CATEGORIES, epoch)
        times = self._times(epoch, default_clock)
        owners, spans = self.fields.spans(_EVENT)
        count = len(spans)
        events = decode(spans, self.progress.part(0.3, 0.6))
        era = epoch[owners]
        name = self._resolved(era, events.numbers(_E_NAME_ID, count), names)
        self._written(events, _E_NAME, name)
        category = self._resolved(era, events.numbers(_E_CATEGORY_IDS, count), categories)
        self._written(events, _E_CATEGORY, category)
        track = events.numbers(_E_TRACK, count, -1)
        unstated = np.flatnonzero(track == -1)
        sequence = self._numbers(_SEQUENCE)[owners]
        track[unstated] = per_value(
            np.stack([era[unstated], sequence[unstated]], axis=1),
            lambda pair: default_track.get(pair[0], _of_sequence(pair[1])),
        )
        value = events.numbers(_E_COUNTER, count).astype(np.float64)
        doubles = events.of(_E_DOUBLE, FIXED64)
        value[doubles.message] = doubles.value.view(np.float64)
        flow = np.zeros(count, np.int64)
        for number, form in (
            (_E_FLOWS_OLD, VARINT),
            (_E_ENDING_OLD, VARINT),
            (_E_FLOWS, FIXED64),
            (_E_ENDING, FIXED64),
        ):
            mine = events.of(number, form)
            flow[mine.message] = mine.value.view(np.int64)
        time = times[owners] + events.numbers(_E_DELTA_US, count) * 1000
        absolute = events.numbers(_E_ABSOLUTE_US, count)
        return Events(
            np.where(absolute > 0, absolute * 1000, time),
            track,
            events.numbers(_E_KIND, count),
            name,
            category,
            value,
            flow,
            self.packets.begin[owners],
            self._annotations(events, era, numbers),
        )

    def _written(self, events: Fields, number: int, texts: I64) -> None:
        """Texts that stand in the events themselves."""
        owners, spans = events.spans(number)
        for index, owner in enumerate(owners.tolist()):
            if index % 10_000 == 0:
                self.progress.step(0.6, "reading names")
            texts[owner] = self._text(spans.text(index))

    def _annotations(self, events: Fields, era: I64, wanted: frozenset[str]) -> dict[str, tuple[I64, I64]]:
        owners, spans = events.spans(_E_ANNOTATIONS)
        if not len(spans) or not wanted:
            return {}
        stated = decode(
            spans, self.progress.part(0.6, 0.9), (_A_NAME_ID, _A_NAME, _A_UNSIGNED, _A_SIGNED, _A_POINTER)
        )
        name = self._resolved(
            era[owners],
            stated.numbers(_A_NAME_ID, len(spans)),
            self._interned(_ANNOTATION_NAMES, self._epochs()),
        )
        self._written(stated, _A_NAME, name)
        value, has = np.zeros(len(spans), np.int64), np.zeros(len(spans), bool)
        for number in (_A_UNSIGNED, _A_SIGNED, _A_POINTER):
            mine = stated.of(number, VARINT)
            value[mine.message] = mine.value.view(np.int64)
            has[mine.message] = True
        found = {}
        for text in wanted:
            mine = has & (name == self._index.get(text, -1))
            if mine.any():
                found[text] = owners[mine], value[mine]
        return found


def _of_sequence(sequence: int) -> int:
    """A uuid for the track of a sequence that names none; no described track has a negative one so small."""
    return -(1 << 40) - sequence


def _track(data: U8, begin: int, end: int, progress: Progress) -> Track:
    """A track as its description has it."""
    view = data.data
    parts = parts_of(view[begin:end], begin, progress)

    def text(of: int, span: tuple[int, int] | None = None) -> str:
        found = (parts if span is None else parts_of(view[span[0] : span[1]], span[0], progress)).last(of)
        return bytes(view[found[0] : found[1]]).decode("utf-8", "replace") if found is not None else ""

    inner = parts.last

    def number(span: tuple[int, int], of: int) -> int | None:
        stated = parts_of(view[span[0] : span[1]], span[0], progress).numbers.get(of)
        return stated if stated is not None and stated < 1 << 31 else None

    process, thread, counter = inner(3), inner(4), inner(8)
    name = text(2) or text(10)
    shown = ""
    if process is not None:
        shown = text(6, process)
    if thread is not None:
        name = text(5, thread) or name
    unit = ""
    if counter is not None:
        unit = text(6, counter) or _UNITS.get(number(counter, 3) or 0, "")
    uuid, parent = (np.uint64(parts.numbers.get(each, 0)).astype(np.int64).item() for each in (1, 5))
    return Track(
        uuid,
        name,
        parent,
        (number(process, 1) if process else None) if thread is None else number(thread, 1),
        shown,
        number(thread, 2) if thread else None,
        unit,
    )
