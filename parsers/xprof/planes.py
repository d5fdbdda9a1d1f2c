"""Planes of an XSpace as columns: lines, events and their statistics, as ``xplane.proto`` of OpenXLA defines them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field

import numpy as np

from parsers.model import BOOL, I64, U8, Excessive, Progress
from parsers.model.late import dataclass
from parsers.protobuf.columns import Parts, Spans, buffer_of, decode, parts_of
from parsers.protobuf.wire import BYTES, FIXED64, VARINT

Value = str | int | float

# Field numbers.
_PLANES = 1
_PLANE_NAME, _LINES, _EVENT_METADATA, _STAT_METADATA, _PLANE_STATS = 2, 3, 4, 5, 6
_LINE_ID, _LINE_NAME, _LINE_TIME, _EVENTS, _LINE_SHOWN = 1, 2, 3, 4, 11
_EVENT_OF, _OFFSET, _DURATION, _STATS = 1, 2, 3, 4
_KEY, _VALUE = 1, 2
_NAME, _SHOWN, _METADATA_STATS = 2, 4, 5
_STAT_OF, _DOUBLE, _UNSIGNED, _SIGNED, _TEXT, _REFERENCE = 1, 2, 3, 4, 5, 7
_PS = 1000  # in a nanosecond
_NONE = np.empty(0, np.int64)
MAX_PLANES = 2_000  # a program on eight GPUs has some dozens; each costs a few passes of its own


@dataclass(slots=True)
class Statistics:
    """Statistics of messages: which message, which kind (an id of the plane), and the value in one of its forms."""

    owner: I64
    kind: I64
    number: I64  # whole numbers, and references to names
    text: Mapping[int, str]  # by row, of those written as text
    double: Mapping[int, float]
    is_reference: BOOL


@dataclass(slots=True)
class Line:
    """One timeline of a plane; its events are rows ``first`` to ``last`` of the plane's columns."""

    id: int
    name: str
    first: int
    last: int


@dataclass(slots=True)
class Plane:
    """One plane: its lines, and all their events as equal columns; times in ns on the file's clock."""

    name: str
    lines: list[Line] = field(default_factory=list)
    start: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    duration: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    kind: I64 = field(default_factory=lambda: np.empty(0, np.int64))  # id of the event's metadata
    place: I64 = field(default_factory=lambda: np.empty(0, np.int64))  # of its message in the file
    event_names: dict[int, str] = field(default_factory=dict)
    instructions: dict[int, str] = field(
        default_factory=dict
    )  # whole HLO instructions of which the name is a part
    event_statistics: dict[int, dict[str, Value]] = field(default_factory=dict)
    stat_names: dict[int, str] = field(default_factory=dict)
    properties: dict[str, Value] = field(default_factory=dict)
    statistics: Statistics | None = None
    damaged: int = 0

    def named(self, name: str) -> list[int]:
        return [key for key, text in self.stat_names.items() if text == name]

    def numbers(self, name: str) -> tuple[I64, I64]:
        """The events that state a whole number under this name, and the numbers."""
        table = self.statistics
        if table is None:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        mine = np.isin(table.kind, self.named(name)) & ~table.is_reference
        texts = [row for row in table.text if mine[row]]
        mine[texts] = False
        return table.owner[mine], table.number[mine]

    def texts(self, name: str) -> tuple[I64, list[str], I64]:
        """The events that state a text under this name, the distinct texts, and each event's place among them."""
        table = self.statistics
        if table is None:
            return np.empty(0, np.int64), [], np.empty(0, np.int64)
        mine = np.flatnonzero(np.isin(table.kind, self.named(name)))
        written = np.array([row for row in mine.tolist() if row in table.text], np.int64)
        referred = mine[table.is_reference[mine]]
        keys, which = np.unique(table.number[referred], return_inverse=True)
        texts = [self.stat_names.get(key, "") for key in keys.tolist()]
        places = {text: index for index, text in enumerate(texts)}
        rest = [places.setdefault(table.text[row], len(places)) for row in written.tolist()]
        texts += list(places)[len(texts) :]
        owners = np.concatenate((table.owner[referred], table.owner[written]))
        return owners, texts, np.concatenate((which.reshape(-1), np.array(rest, np.int64)))


def planes_of(content: bytes, progress: Progress) -> Iterator[tuple[Plane, bool]]:
    """Every plane in order, and whether the file could be read to its end."""
    view, data = memoryview(content), buffer_of(content)
    space = parts_of(view, 0, progress.part(0.0, 0.05))
    planes = space.of(_PLANES, data)
    if len(planes) > MAX_PLANES:
        raise Excessive("planes", MAX_PLANES)
    sizes = np.cumsum(planes.end - planes.begin) / max(len(content), 1)
    done = 0.05
    for begin, end, share in zip(planes.begin.tolist(), planes.end.tolist(), sizes.tolist(), strict=True):
        part = progress.part(done, max(0.05 + 0.95 * share, done))
        yield _plane(view[begin:end], begin, data, part), space.whole
        done = 0.05 + 0.95 * share


def _plane(message: memoryview, begin: int, data: U8, progress: Progress) -> Plane:
    parts = parts_of(message, begin, progress.part(0.0, 0.1))
    plane = _named(parts, data, progress.part(0.1, 0.2))
    _read_events(plane, message, begin, parts.of(_LINES, data), progress.part(0.2, 1.0))
    return plane


def _named(parts: Parts, data: U8, progress: Progress) -> Plane:
    """A plane with its names, without its events."""
    plane = Plane(_last_text(parts, _PLANE_NAME, data))
    plane.damaged += not parts.whole
    for key, body in _entries(parts.of(_STAT_METADATA, data), progress):
        plane.stat_names[key] = _last_text(parts_of(*body, progress), _NAME, data)
    for key, body in _entries(parts.of(_EVENT_METADATA, data), progress):
        described = parts_of(*body, progress)
        shown = _last_text(described, _SHOWN, data)
        written = _last_text(described, _NAME, data)
        plane.event_names[key] = shown or written
        if shown and " = " in written:
            plane.instructions[key] = written
        if stated := described.of(_METADATA_STATS, data):
            plane.event_statistics[key] = _values(plane, stated, progress)
    plane.properties = _values(plane, parts.of(_PLANE_STATS, data), progress)
    return plane


def _read_events(plane: Plane, message: memoryview, begin: int, lines: Spans, progress: Progress) -> None:
    data = lines.data
    events = [Spans(data, _NONE, _NONE)]
    times = [_NONE]
    count = 0
    for first, last in zip(lines.begin.tolist(), lines.end.tolist(), strict=True):
        line = parts_of(message[first - begin : last - begin], first, progress.part(0.0, 0.3))
        plane.damaged += not line.whole
        events.append(line.of(_EVENTS, data))
        times.append(np.full(len(events[-1]), _signed(line.numbers.get(_LINE_TIME, 0)), np.int64))
        name = _last_text(line, _LINE_SHOWN, data) or _last_text(line, _LINE_NAME, data)
        plane.lines.append(Line(_signed(line.numbers.get(_LINE_ID, 0)), name, count, count + len(events[-1])))
        count += len(events[-1])
    spans = Spans(
        data, np.concatenate([each.begin for each in events]), np.concatenate([each.end for each in events])
    )
    fields = decode(spans, progress.part(0.3, 0.7))
    plane.damaged += fields.damaged
    plane.kind = fields.numbers(_EVENT_OF, count)
    plane.start = np.concatenate(times) + fields.numbers(_OFFSET, count) // _PS
    plane.duration = fields.numbers(_DURATION, count) // _PS
    plane.place = spans.begin
    owners, stated = fields.spans(_STATS)
    plane.statistics = _statistics(stated, owners, progress.part(0.7, 1.0))


def _entries(entries: Spans, progress: Progress) -> Iterator[tuple[int, tuple[memoryview, int]]]:
    """Key, and content with its place, of each entry of a map from numbers to messages."""
    fields = decode(entries, progress)
    keys = fields.numbers(_KEY, len(entries))
    owners, bodies = fields.spans(_VALUE)
    view = entries.data.data
    for owner, begin, end in zip(owners.tolist(), bodies.begin.tolist(), bodies.end.tolist(), strict=True):
        yield int(keys[owner]), (view[begin:end], begin)


def _last_text(parts: Parts, number: int, data: U8) -> str:
    found = parts.of(number, data)
    return found.text(len(found) - 1) if len(found) else ""


def _statistics(stated: Spans, owners: I64, progress: Progress) -> Statistics:
    """Statistics decoded; ``owners`` are their messages."""
    fields = decode(stated, progress)
    count = len(stated)
    number = np.zeros(count, np.int64)
    reference = np.zeros(count, bool)
    for form in (_UNSIGNED, _SIGNED, _REFERENCE):
        mine = fields.of(form, VARINT)
        number[mine.message] = mine.value.view(np.int64)
        reference[mine.message] = form == _REFERENCE
    written = fields.of(_TEXT, BYTES)
    texts = Spans(fields.data, written.begin, written.end)
    doubles = fields.of(_DOUBLE, FIXED64)
    return Statistics(
        owners,
        fields.numbers(_STAT_OF, count),
        number,
        {row: texts.text(index) for index, row in enumerate(written.message.tolist())},
        dict(zip(doubles.message.tolist(), doubles.value.view(np.float64).tolist(), strict=True)),
        reference,
    )


def _values(plane: Plane, stated: Spans, progress: Progress) -> dict[str, Value]:
    """Few statistics by their names."""
    table = _statistics(stated, np.zeros(len(stated), np.int64), progress)
    found: dict[str, Value] = {}
    for row, kind in enumerate(table.kind.tolist()):
        number = int(table.number[row])
        value: Value = table.double.get(row, number)
        if table.is_reference[row]:
            value = plane.stat_names.get(number, "")
        found[plane.stat_names.get(kind, str(kind))] = table.text.get(row, value)
    return found


def arguments_at(content: bytes, place: int) -> dict[str, Value]:
    """Every statistic of the event at a place of the file, by name, with those that all of its kind share."""
    progress, view, data = Progress(), memoryview(content), buffer_of(content)
    around = parts_of(view, 0, progress).of(_PLANES, data)
    for begin, end in _holding(around, place):
        plane = parts_of(view[begin:end], begin, progress)
        for first, last in _holding(plane.of(_LINES, data), place):
            for start, stop in _holding(parts_of(view[first:last], first, progress).of(_EVENTS, data), place):
                named = _named(plane, data, progress)
                event = parts_of(view[start:stop], start, progress)
                shared = named.event_statistics.get(_signed(event.numbers.get(_EVENT_OF, 0)), {})
                return {**shared, **_values(named, event.of(_STATS, data), progress)}
    return {}


def _holding(spans: Spans, place: int) -> list[tuple[int, int]]:
    which = np.flatnonzero((spans.begin <= place) & (place < np.maximum(spans.end, spans.begin + 1)))
    return list(zip(spans.begin[which].tolist(), spans.end[which].tolist(), strict=True))


def _signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number
