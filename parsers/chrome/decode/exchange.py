"""Columns as bytes, to hand them from one process to another."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from parsers.chrome.decode.categories import Where
from parsers.chrome.decode.collect import Columns, Instant, Naming, Part, Series, Track
from parsers.files.decoders import from_msgpack
from parsers.model import I64, Array, Attribute, EventKind, LaneKind, QualityNote, QualityRecorder
from parsers.model.attributes import TEXT_ATTRIBUTES

Pair = tuple[bytes, bytes]


class Parcel(msgspec.Struct):
    """One process's share; arrays are native-endian bytes, because both processes run on one machine."""

    names: list[str]
    tracks: list[tuple[int, str, Any, Any]]
    start: bytes
    duration: bytes
    good: bytes
    name: bytes
    track: bytes
    kind: bytes
    row: bytes
    events: list[bytes]  # that attributes are stated of
    attributes: dict[str, tuple[int, bytes]]  # place among these, and values
    call_sizes: Pair
    instants: list[Instant]
    memory: bytes
    metadata: list[Naming]
    samples: list[tuple[Any, str, str, list[tuple[int, float]]]]
    flows: int
    arrows: list[Instant]
    ignored: dict[str, int]
    read: int
    notes: tuple[QualityNote, ...]


def packed(columns: Columns, series: Series) -> bytes:
    """A process's share as bytes."""
    parts = columns.parts
    quality = columns.quality.quality()
    attributes = columns.stated.joined()
    events = {id(events): events for events, _ in attributes.values()}
    places = list(events)
    return msgspec.msgpack.encode(
        Parcel(
            names=list(columns.names),
            tracks=[
                (where.value, lane.value, first, second) for where, lane, first, second in columns.tracks
            ],
            start=_bytes([part.start for part in parts]),
            duration=_bytes([part.duration for part in parts]),
            good=_bytes([part.good for part in parts]),
            name=_bytes([part.name for part in parts]),
            track=_bytes([part.track for part in parts]),
            kind=_bytes([np.full(len(part.start), part.kind, np.uint8) for part in parts]),
            row=_bytes([part.row for part in parts]),
            events=[each.tobytes() for each in events.values()],
            attributes={
                which.value: (places.index(id(events)), values.tobytes())
                for which, (events, values) in attributes.items()
            },
            call_sizes=_pair(columns.stated.call_sizes),
            instants=columns.instants,
            memory=columns.memory.packed(),
            metadata=columns.metadata,
            samples=[(*key, samples) for key, samples in series.samples.items()],
            flows=columns.flows,
            arrows=columns.arrows,
            ignored=dict(columns.ignored),
            read=quality.events_read,
            notes=quality.notes,
        )
    )


def unpack_into(data: bytes, columns: Columns, series: Series) -> None:
    """Add another process's share to ``columns`` and ``series``."""
    parcel = from_msgpack(data, Parcel)
    names = np.array([columns.names[name] for name in parcel.names], np.int32)
    tracks = np.array([columns.tracks[_track(*track)] for track in parcel.tracks], np.int32)
    kind = np.frombuffer(parcel.kind, np.uint8)
    start = np.frombuffer(parcel.start, np.int64)
    name, track = np.frombuffer(parcel.name, np.int32), np.frombuffer(parcel.track, np.int32)
    first = columns.count
    columns.parts += _by_kind(
        start,
        np.frombuffer(parcel.duration, np.int64),
        np.frombuffer(parcel.good, np.bool_),
        names[name] if len(name) else name,
        tracks[track] if len(track) else track,
        kind,
        np.frombuffer(parcel.row, np.int64),
    )
    columns.count += len(start)
    events = [np.frombuffer(each, np.int64) + first for each in parcel.events]
    for value, (place, data) in parcel.attributes.items():
        which = Attribute(value)
        values = np.frombuffer(data, np.int64)
        if which in TEXT_ATTRIBUTES:
            values = names[values].astype(np.int64)
        columns.stated.attributes[which].append((events[place], values))
    calls, sizes = _arrays(parcel.call_sizes)
    if len(calls):
        columns.stated.call_sizes.append((calls + first, sizes))
    columns.instants += parcel.instants
    columns.memory.unpack(parcel.memory)
    columns.metadata += parcel.metadata
    for pid, counter, name_of_series, samples in parcel.samples:
        series.samples[pid, counter, name_of_series] += samples
    columns.flows += parcel.flows
    columns.arrows += parcel.arrows
    for phase, count in parcel.ignored.items():
        columns.ignored[phase] += count
    _add_quality(columns.quality, parcel)


def _by_kind(start: I64, *rest: Array) -> list[Part]:
    """Parts hold events of one kind; the sender kept the order of its parts, so kinds come in runs."""
    duration, good, name, track, kind, row = rest
    edges = np.concatenate(([0], np.flatnonzero(np.diff(kind)) + 1, [len(kind)]))
    return [
        Part(
            start[first:last],
            duration[first:last],
            good[first:last],
            name[first:last],
            track[first:last],
            EventKind(int(kind[first])),
            row[first:last],
        )
        for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
        if last > first
    ]


def _add_quality(quality: QualityRecorder, parcel: Parcel) -> None:
    quality.read(parcel.read)
    for note in parcel.notes:
        quality.note(note.kind, note.effect, note.reason, note.example, note.count)


def _track(where: int, lane: str, first: Any, second: Any) -> Track:
    return Where(where), LaneKind(lane), first, second


def _bytes(arrays: list[Array]) -> bytes:
    return np.concatenate(arrays).tobytes() if arrays else b""


def _pair(stated: list[tuple[I64, I64]]) -> Pair:
    return _bytes([events for events, _ in stated]), _bytes([values for _, values in stated])


def _arrays(pair: Pair) -> tuple[I64, I64]:
    return np.frombuffer(pair[0], np.int64), np.frombuffer(pair[1], np.int64)
